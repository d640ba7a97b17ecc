// Location: where a buffer of one rank is, for its peers.
#pragma once

#include <cstdint>

namespace kolo::runtime {

/// What the ranks of a communicator are.
enum class RankKind : uint8_t { Threads, Processes };

enum class LocationKind : uint8_t {
  Empty,   // no bytes
  Direct,  // an address that is valid on every rank: the ranks are threads
  Segment, // an offset into a shared segment of the owner
  Attach,  // an address in the owner's process, for cross-memory attach
  Remote,  // on another host: see Transport.h
};

/// Where one buffer of a rank is, for its peers.
struct Location {
  uint64_t addressOrOffset = 0;
  uint64_t sizeBytes = 0;
  uint64_t segmentId = 0; // never used twice by one owner
  uint64_t segmentBytes = 0;
  int32_t segmentFd = -1; // in the owner's process
  LocationKind kind = LocationKind::Empty;
  bool isSparse = false; // the segment
};

} // namespace kolo::runtime
