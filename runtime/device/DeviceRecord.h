// DeviceRecord: what a rank announces when ranks that start collectives on devices meet.
#pragma once

#include "device/DeviceDescriptors.h"
#include "device/DeviceDriver.h"
#include "kolo/runtime/Status.h"
#include "peers/Control.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kolo::runtime {

using DeviceId = std::array<uint8_t, 16>; // a KoloDriverDevice's uuid

/// Where memory of a rank is, for its peers.
struct DeviceLocation {
  uint64_t address = 0;     // in the owner's process; 0: none
  uint64_t offsetBytes = 0; // in its allocation
  uint64_t id = 0;          // of the allocation; never used twice in the owner's process
  KoloDriverHandle handle = {};
};

/// Why ranks meet.
enum class DevicePurpose : int32_t { Join, Grow, Drain, Register, Deregister, Leave };

inline constexpr size_t mostShapes = 4096; // see DeviceShape

/// What ranks must have alike when they join.
struct DeviceSettings {
  int32_t memory = 0; // NetworkMemory, that KOLO_NETWORK_MEMORY asks for
  int32_t lanes = 0, threads = 0, kind = 0;
  uint64_t internalBytes = 0;

  bool operator==(const DeviceSettings &) const = default;
};

/// What ranks must say alike in a meeting.
struct DeviceTerms {
  DevicePurpose purpose = DevicePurpose::Join;
  bool isMapped = false;   // this rank has the addresses of memory that peers map at all ranks
  uint64_t numCalls = 0;   // announced so far
  uint64_t digest = 0;     // of them
  uint64_t sizeBytes = 0;  // of memory that peers map, or of a window that goes
  uint64_t window = 0;     // number of the window that goes
  DeviceSettings settings; // when joining
};

/// What a rank announces in one meeting. Ranks of its host read all of it; others hear a DeviceSummary.
struct DeviceRecord : DeviceTerms {
  StatusCode code = StatusCode::Ok; // not Ok: this rank refuses, and `message` says why
  char message[320] = {};
  DeviceLocation memory; // that peers map
  // When joining.
  int32_t pid = 0, device = -1;
  bool isReached = false;       // this rank's network reaches its device
  bool mayShareMachine = false; // its host may be the machine of another host with another name
  DeviceId uuid = {};
  DescriptorName descriptors = {};  // where peers leave descriptors of their memory
  std::bitset<mostShapes> captured; // shapes that graphs of this rank use
};
static_assert(std::is_trivially_copyable_v<DeviceRecord>);
static_assert(sizeof(DeviceRecord) <= Announcement::maxPublishedBytes);

/// Puts a refusal into a record or an announcement.
template <class Record> void setRefusal(Record &record, const Status &status) {
  record.code = status.code();
  size_t length = std::min(status.message().size(), sizeof(record.message) - 1);
  std::copy_n(status.message().data(), length, record.message);
  record.message[length] = 0;
}

} // namespace kolo::runtime
