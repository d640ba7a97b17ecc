// DeviceCells: cells that ranks of other hosts raise. A network writes them, so they lie in memory of the host.
#pragma once

#include "device/DeviceRanks.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kolo::runtime {

/// The cells of one agreement: [lane][semaphore][sending rank].
struct CellPool {
  DeviceMemory cells;
  uint64_t agreement = 0;
  uint32_t numSemaphores = 0, numTaken = 0;
};

/// Those of one program.
struct CellRange {
  CellPool *pool = nullptr; // null: the program has none
  uint32_t first = 0;       // semaphore
};

/// All ranks have the same pools, and take the same ranges in the same order.
class DeviceCells {
public:
  explicit DeviceCells(const DeviceRanks &allRanks) : ranks(allRanks) {}

  bool hasRoomFor(uint32_t numSemaphores) const;
  /// Nothing: there is no room.
  std::optional<CellRange> take(uint32_t numSemaphores);
  /// Of the range that was taken last.
  void giveBack(CellRange range, uint32_t numSemaphores);

  /// A pool that surely has room for so many semaphores, without an agreement. OutOfMemory, DeviceError.
  Result<CellPool> make(uint32_t numSemaphores) const;
  void add(CellPool pool) { pools.push_back(std::make_unique<CellPool>(std::move(pool))); }

private:
  const DeviceRanks &ranks;
  std::vector<std::unique_ptr<CellPool>> pools;
};

} // namespace kolo::runtime
