// How packets lie in memory; what they say is in kolo/runtime/PluginAbi.h. Shared by all targets.
#pragma once

#include <cstdint>

namespace kolo {

/// A packet lies at a multiple of its size; the sequence number follows the data.
struct PacketFormat {
  int64_t bytes, dataBytes;
  bool operator==(const PacketFormat &) const = default;
};
inline constexpr PacketFormat llPackets{8, 4}, ll128Packets{128, 120};

} // namespace kolo
