// Segments: the memory this rank offers to its peers, and what it has mapped of theirs.
#pragma once

#include "memory/Memory.h"
#include "transport/Peers.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace kolo::runtime {

class SegmentTable;

/// Owns one piece of memory that peers may access. Peers hear of it when a record first names it.
class Segment {
public:
  Segment(std::shared_ptr<SegmentTable> owner, Memory mapping, uint64_t segmentId)
      : table(std::move(owner)), memory(std::move(mapping)), id(segmentId) {}
  ~Segment();
  Segment(const Segment &) = delete;
  Segment &operator=(const Segment &) = delete;

  std::byte *data() const { return memory.data(); }
  size_t sizeBytes() const { return memory.sizeBytes(); }

private:
  friend class SegmentTable;
  std::shared_ptr<SegmentTable> table;
  Memory memory;
  uint64_t id;
  bool isConfirmed = false; // all peers have mapped it
};

/// The segments of one rank of one communicator. Thread-safe, because a window may be destroyed on any thread; it may
/// also outlive the communicator, and shares the ownership of this.
class SegmentTable : public std::enable_shared_from_this<SegmentTable> {
public:
  explicit SegmentTable(RankKind rankKind) : kind(rankKind) {}

  /// Zeroed memory. OutOfMemory, SystemError.
  Result<std::unique_ptr<Segment>> create(size_t sizeBytes);

  /// Where [pointer, pointer + sizeBytes) is for peers: Direct among threads, Segment when it lies inside one of these
  /// segments, else nothing.
  std::optional<Location> locate(const void *pointer, size_t sizeBytes) const;

  /// Whether a record with this location would tell the peers something new.
  bool isNews(const Location &location) const;
  /// All peers have mapped it.
  void setConfirmed(const Location &location);

  /// Moves ids of segments that ended, and that peers still map, into the record; what does not fit waits for the next.
  void takeReleased(Record &record);

  /// Changes whenever something that was found out here may be true no more: a segment came or went, or peers have yet
  /// to be told that one went.
  uint64_t generation() const { return changes.load(std::memory_order_acquire); }

private:
  friend class Segment;
  void forget(const Segment &segment);
  Segment *find(uint64_t id) const;

  RankKind kind;
  mutable std::mutex mutex;
  std::map<const std::byte *, Segment *> byAddress;
  std::vector<uint64_t> released;
  uint64_t nextId = 1;
  std::atomic<uint64_t> changes = 0;
};

/// What this rank has mapped of its peers' segments.
class PeerSegments {
public:
  explicit PeerSegments(const Peers &owner) : peers(owner) {}

  /// The address of a peer's location here; null for Empty and Attach. Maps it when it is new. SystemError,
  /// OutOfMemory.
  Result<std::byte *> resolve(int peer, const Location &location);
  /// The mapping that holds a location of kind Segment, once resolved.
  std::shared_ptr<const Memory> mapping(int peer, const Location &location) const;

  /// Unmaps what the peer's record says has ended.
  void release(int peer, const Record &record);

private:
  const Peers &peers;
  std::map<std::pair<int, uint64_t>, std::shared_ptr<const Memory>> mapped;
};

} // namespace kolo::runtime
