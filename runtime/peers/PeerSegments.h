// PeerSegments: the segments of peers that this rank has mapped.
#pragma once

#include "memory/Memory.h"
#include "peers/Peers.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace kolo::runtime {

/// By peer and segment id.
class PeerSegments {
public:
  explicit PeerSegments(const Peers &owner) : peers(owner) {}

  /// The address of a peer's location in this process; null for Empty and Attach. Maps a new segment. SystemError,
  /// OutOfMemory.
  Result<std::byte *> resolve(int peer, const Location &location);
  /// The mapping of a location of kind Segment; null before `resolve`.
  std::shared_ptr<const Memory> mapping(int peer, const Location &location) const;

  /// Unmaps the segments that the peer's record names as freed.
  void release(int peer, const Record &record);

private:
  const Peers &peers;
  std::map<std::pair<int, uint64_t>, std::shared_ptr<const Memory>> mapped;
};

} // namespace kolo::runtime
