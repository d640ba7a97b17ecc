#include "device/DeviceCells.h"

#include "kolo/runtime/DeviceAbi.h"
#include "wait/Cell.h"

#include <new>

namespace kolo::runtime {

static_assert(sizeof(Cell) == KOLO_DEVICE_CELL_BYTES);

Result<DeviceCells> DeviceCells::make(const DeviceRanks &ranks, uint32_t numSemaphores, std::vector<int> senders) {
  DeviceCells made;
  made.owners = std::move(senders);
  made.numRanks = static_cast<size_t>(ranks.size);
  if (made.owners.empty())
    return made;
  made.numLanes = static_cast<uint32_t>(ranks.mostLanes());
  made.numSemaphores = numSemaphores;
  const size_t number = static_cast<size_t>(made.numLanes) * numSemaphores * made.owners.size();
  Result<DeviceMemory> memory = DeviceMemory::allocate(ranks.devices.front(), KOLO_MEMORY_HOST, number * sizeof(Cell));
  if (!memory.isOk())
    return memory.status();
  made.memory = std::move(memory).value();
  for (size_t cell = 0; cell < number; ++cell)
    new (static_cast<Cell *>(made.memory.data()) + cell) Cell{};
  return made;
}

Registration DeviceCells::registration() const {
  Registration cells;
  cells.senders.assign(numRanks, false);
  for (int sender : owners)
    cells.senders[static_cast<size_t>(sender)] = true;
  cells.cellOwners = owners;
  cells.cells = static_cast<Cell *>(memory.data());
  cells.numLanes = numLanes;
  cells.numSemaphores = numSemaphores;
  return cells;
}

} // namespace kolo::runtime
