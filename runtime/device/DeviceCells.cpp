#include "device/DeviceCells.h"

#include "kolo/runtime/DeviceAbi.h"
#include "wait/Cell.h"

#include <algorithm>
#include <new>

namespace kolo::runtime {
namespace {

static_assert(sizeof(Cell) == KOLO_DEVICE_CELL_BYTES);
/// Of a pool, for small programs. With many ranks it is for fewer programs.
constexpr uint32_t usualSemaphores = 64, cellsOfLane = 4096;

} // namespace

bool DeviceCells::hasRoomFor(uint32_t numSemaphores) const {
  return numSemaphores == 0 || std::ranges::any_of(pools, [&](const auto &pool) {
           return pool->numSemaphores - pool->numTaken >= numSemaphores;
         });
}

std::optional<CellRange> DeviceCells::take(uint32_t numSemaphores) {
  if (numSemaphores == 0)
    return CellRange();
  for (const std::unique_ptr<CellPool> &pool : pools)
    if (pool->numSemaphores - pool->numTaken >= numSemaphores) {
      CellRange range = {pool.get(), pool->numTaken};
      pool->numTaken += numSemaphores;
      return range;
    }
  return std::nullopt;
}

void DeviceCells::giveBack(CellRange range, uint32_t numSemaphores) {
  if (range.pool)
    range.pool->numTaken -= numSemaphores;
}

Result<CellPool> DeviceCells::make(uint32_t numSemaphores) const {
  CellPool pool;
  const auto numRanks = static_cast<uint32_t>(ranks.size);
  pool.numSemaphores = std::max(numSemaphores, std::clamp(cellsOfLane / numRanks, 1u, usualSemaphores));
  const size_t number = static_cast<size_t>(ranks.mostLanes()) * pool.numSemaphores * numRanks;
  Result<DeviceMemory> memory = DeviceMemory::allocate(ranks.devices.front(), KOLO_MEMORY_HOST, number * sizeof(Cell));
  if (!memory.isOk())
    return memory.status();
  pool.cells = std::move(memory).value();
  for (size_t cell = 0; cell < number; ++cell)
    new (static_cast<Cell *>(pool.cells.data()) + cell) Cell{};
  return pool;
}

} // namespace kolo::runtime
