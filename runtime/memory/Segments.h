// Segments: memory of this rank that its peers may map.
#pragma once

#include "memory/Location.h"
#include "memory/Memory.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace kolo::runtime {

class SegmentTable;

/// Owns memory that peers may access, alone or with segments of other tables. Peers map it when a record first names
/// it.
class Segment {
public:
  Segment(std::shared_ptr<SegmentTable> owner, std::shared_ptr<Memory> mapping, uint64_t segmentId)
      : table(std::move(owner)), memory(std::move(mapping)), id(segmentId) {}
  ~Segment();
  Segment(const Segment &) = delete;
  Segment &operator=(const Segment &) = delete;

  std::byte *data() const { return memory->data(); }
  size_t sizeBytes() const { return memory->sizeBytes(); }
  /// Other communicators may adopt the memory later. Without this, its descriptor is closed when all peers have mapped
  /// it, so communicators hold none while they only repeat calls.
  void keepDescriptor() { keepsDescriptor = true; }
  /// See Memory.
  void giveBack() const { memory->giveBack(); }
  Status takeAgain() const { return memory->takeAgain(); }

private:
  friend class SegmentTable;
  std::shared_ptr<SegmentTable> table;
  std::shared_ptr<Memory> memory;
  uint64_t id;
  bool isConfirmed = false; // all peers have mapped it
  bool keepsDescriptor = false;
  bool isSparse = false;
};

/// The segments of one rank of one communicator. Thread-safe, because any thread may destroy a window. A window may
/// outlive the communicator, so it shares ownership of this table.
class SegmentTable : public std::enable_shared_from_this<SegmentTable> {
public:
  explicit SegmentTable(RankKind rankKind) : kind(rankKind) {}

  /// Zeroed memory. OutOfMemory, SystemError.
  Result<std::unique_ptr<Segment>> create(size_t sizeBytes);
  /// Memory that is not touched yet: see Memory::reserveShared. SystemError.
  Result<std::unique_ptr<Segment>> reserve(size_t sizeBytes);
  /// Memory of which pages are given when they are used: see Memory::createSparse. OutOfMemory, SystemError.
  Result<std::unique_ptr<Segment>> createSparse(size_t sizeBytes);
  /// A segment of this table at the memory of another table's.
  std::unique_ptr<Segment> adopt(const Segment &other);

  /// Where [pointer, pointer + sizeBytes) is for peers: Direct among threads, Segment if it lies inside one of these
  /// segments; otherwise nothing.
  std::optional<Location> locate(const void *pointer, size_t sizeBytes) const;

  /// Whether this location names a segment that peers have not yet confirmed.
  bool isNews(const Location &location) const;
  /// Notes that all peers have mapped the segment.
  void setConfirmed(const Location &location);

  /// Moves the ids of freed segments, which peers still map, to `ids`, and returns how many. Ids that do not fit stay
  /// for the next call.
  size_t takeReleased(std::span<uint64_t> ids);
  bool hasReleased() const;

  /// Changes whenever an earlier answer of this table may be wrong: a segment was made or freed, or peers do not know
  /// of a freed one yet.
  uint64_t generation() const { return changes.load(std::memory_order_acquire); }

private:
  friend class Segment;
  std::unique_ptr<Segment> add(std::shared_ptr<Memory> memory);
  void forget(const Segment &segment);
  Segment *find(uint64_t id) const;

  RankKind kind;
  mutable std::mutex mutex;
  std::map<const std::byte *, Segment *> byAddress;
  std::vector<uint64_t> released;
  uint64_t nextId = 1;
  std::atomic<uint64_t> changes = 0;
};

} // namespace kolo::runtime
