// Semaphores: the counters of one program in one communicator.
#pragma once

#include "memory/Segments.h"
#include "wait/Cell.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kolo::runtime {

/// One Cell per (semaphore, sending rank, receiving rank, lane), in memory of the receiving rank. Made at the first call of
/// a program and kept: the counters only grow, and both ends count along privately, so calls need no reset.
class Semaphores {
public:
  Semaphores(int semaphores, int ranks, int lanes) : numSemaphores(semaphores), numRanks(ranks), numLanes(lanes) {}

  /// Allocates this rank's cells. OutOfMemory, SystemError.
  Status allocate(SegmentTable &segments);
  /// Where this rank's cells are, for its peers.
  Location location(const SegmentTable &segments) const;

  bool isConnected() const { return !peerCells.empty(); }
  /// The cells of all ranks as mapped here.
  void connect(std::vector<Cell *> cells) { peerCells = std::move(cells); }

  bool isValid(int64_t peer, int32_t semaphore) const {
    return peer >= 0 && peer < numRanks && semaphore >= 0 && semaphore < numSemaphores;
  }

  /// Adds one to the peer's count. Only when isValid. `self` is this rank.
  void signal(int self, int64_t peer, int32_t semaphore, int64_t lane) {
    uint64_t count = ++sent[index(lane, semaphore, peer)];
    peerCells[static_cast<size_t>(peer)][index(lane, semaphore, self)].raise(count);
  }

  /// The cell that the peer raises, and the value that the next wait is for. Only when isValid.
  Cell &cell(int64_t peer, int32_t semaphore, int64_t lane) const { return own[index(lane, semaphore, peer)]; }
  uint64_t nextExpected(int64_t peer, int32_t semaphore, int64_t lane) {
    return ++awaited[index(lane, semaphore, peer)];
  }

  /// The memory, to be kept when this rank leaves before its peers do.
  std::shared_ptr<Segment> memory() const { return segment; }

private:
  // Lanes outermost, so that the private counts of two lanes are rarely in one cache line.
  size_t index(int64_t lane, int32_t semaphore, int64_t peer) const {
    return static_cast<size_t>((lane * numSemaphores + semaphore) * numRanks + peer);
  }

  int numSemaphores, numRanks, numLanes;
  std::shared_ptr<Segment> segment; // null when the program has no semaphores
  Cell *own = nullptr;
  std::vector<Cell *> peerCells;
  std::vector<uint64_t> sent, awaited;
};

} // namespace kolo::runtime
