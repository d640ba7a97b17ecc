// GroupWire: what a rank on another host than rank 0 and the GroupHub there tell each other. Both have one version of
// this library.
#pragma once

#include "GroupAgreement.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace kolo::nccl {

/// What a rank does: as a function of GroupAgreement.
struct GroupMessage {
  enum class Kind : uint32_t { Count, Enter, Leave } kind = Kind::Leave;
  uint32_t mostMs = 0; // Enter
  uint64_t number = 0; // Enter: of the rank's entries, from 1
  EnteredGroup group;  // Count: its peers alone
};

/// What became of an entry.
struct GroupReply {
  uint64_t number = 0; // the entry's
  int64_t bound = 0;
  uint8_t isCarried = 0, hasOneLengthEach = 0, isTimeout = 0, unused[5] = {};
};

std::vector<std::byte> toBytes(const GroupMessage &message);
std::vector<std::byte> toBytes(const GroupReply &reply);
/// Nothing: no rank of a communicator of this size says that.
std::optional<GroupMessage> parseMessage(std::span<const std::byte> bytes, int size);
/// Nothing: no hub says that.
std::optional<GroupReply> parseReply(std::span<const std::byte> bytes);

} // namespace kolo::nccl
