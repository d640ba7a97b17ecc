// Semaphores: the counters of one program in one communicator.
#pragma once

#include "memory/Segments.h"
#include "memory/SparseArray.h"
#include "wait/Cell.h"

#include <cstdint>
#include <memory>

namespace kolo::runtime {

/// The semaphores of one lane. A view of a Semaphores, which owns cells and counts.
class LaneSemaphores {
public:
  LaneSemaphores() = default;
  LaneSemaphores(Cell *ownCells, Cell *const *peers, uint64_t *sentCounts, uint64_t *awaitedCounts, size_t firstCell,
                 int semaphores, int ranks, int ownRank)
      : numRanks(static_cast<uint64_t>(ranks)), numSemaphores(static_cast<uint32_t>(semaphores)), self(ownRank),
        first(firstCell), peerCells(peers), own(ownCells), sent(sentCounts), awaited(awaitedCounts) {}

  bool isValid(int64_t peer, int32_t semaphore) const {
    return static_cast<uint64_t>(peer) < numRanks && static_cast<uint32_t>(semaphore) < numSemaphores;
  }

  /// Adds one to the peer's count. Requires isValid. Returns 0, or the count that the caller must send to the peer,
  /// whose cell is on another host.
  uint64_t signal(int64_t peer, int32_t semaphore) const {
    uint64_t count = ++sent[index(semaphore, peer)];
    Cell *cells = peerCells[peer];
    if (!cells) [[unlikely]]
      return count;
    cells[index(semaphore, self)].raise(count);
    return 0;
  }

  /// The cell that the peer raises, and the value that the next wait expects. Require isValid.
  Cell &cell(int64_t peer, int32_t semaphore) const { return own[index(semaphore, peer)]; }
  uint64_t nextExpected(int64_t peer, int32_t semaphore) const { return ++awaited[index(semaphore, peer)]; }

private:
  size_t index(int32_t semaphore, int64_t peer) const {
    return first + static_cast<uint32_t>(semaphore) * numRanks + static_cast<uint64_t>(peer);
  }

  uint64_t numRanks = 0;
  uint32_t numSemaphores = 0;
  int32_t self = 0;
  size_t first = 0; // of this lane's cells
  Cell *const *peerCells = nullptr;
  Cell *own = nullptr;
  uint64_t *sent = nullptr, *awaited = nullptr;
};

/// One Cell per (semaphore, sending rank, receiving rank, lane), in memory of the receiving rank. The first call of a
/// program makes them, and the communicator keeps them. The counters only grow and both ends keep their own counts, so
/// calls need no reset.
class Semaphores {
public:
  Semaphores(int semaphores, int ranks, int lanes) : numSemaphores(semaphores), numRanks(ranks), numLanes(lanes) {}

  /// Allocates this rank's cells. `isSparse`: the kernel gives pages for those alone that somebody raises or awaits.
  /// OutOfMemory, SystemError.
  Status allocate(SegmentTable &segments, bool isSparse);
  /// Where this rank's cells are, for its peers.
  Location location(const SegmentTable &segments) const;

  bool isConnected() const { return peerCells.size() != 0; }
  /// The cells of all ranks as mapped here; null: on another host.
  void connect(SparseArray<Cell *> cells) { peerCells = std::move(cells); }

  /// The view of one lane, valid while this object lives. Requires isConnected. Lanes are the outermost dimension, so
  /// that the private counts of two lanes are rarely in one cache line.
  LaneSemaphores ofLane(int lane, int self) {
    size_t first = static_cast<size_t>(lane) * static_cast<size_t>(numSemaphores) * static_cast<size_t>(numRanks);
    return {own, peerCells.data(), sent.data(), awaited.data(), first, numSemaphores, numRanks, self};
  }

  Cell *ownCells() const { return own; }
  /// Of the cells, unless the kernel gives pages when they are used.
  size_t keptBytes() const { return segment && !areSparse ? segment->sizeBytes() : 0; }
  /// By which number ranks of other hosts signal: see Remote.h. 0: they do not yet.
  uint64_t remoteNumber() const { return remote; }
  void setRemoteNumber(uint64_t number) { remote = number; }

  /// The cells' memory, for Peers::keepForPeers.
  std::shared_ptr<Segment> memory() const { return segment; }

private:
  int numSemaphores, numRanks, numLanes;
  std::shared_ptr<Segment> segment; // null when the program has no semaphores
  bool areSparse = false;
  Cell *own = nullptr;
  SparseArray<Cell *> peerCells;
  SparseArray<uint64_t> sent, awaited;
  uint64_t remote = 0;
};

} // namespace kolo::runtime
