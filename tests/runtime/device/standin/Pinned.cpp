// Memory of the host that tests register with the stand-in driver.
#include "StandIn.h"

namespace kolo::standin {
namespace {

/// Sizes by address; under memoryMutex.
std::map<uintptr_t, size_t> &pinned() {
  static auto *all = new std::map<uintptr_t, size_t>;
  return *all;
}

bool overlapsPinned(uintptr_t begin, size_t sizeBytes) {
  auto next = pinned().lower_bound(begin + sizeBytes);
  return next != pinned().begin() && (--next, next->first + next->second > begin);
}

size_t pinnedBytes() {
  size_t sum = 0;
  for (const auto &[address, sizeBytes] : pinned())
    sum += sizeBytes;
  return sum;
}

} // namespace

int64_t countPinned() { return static_cast<int64_t>(pinned().size()); }

} // namespace kolo::standin

using namespace kolo::standin;

extern "C" {

CUresult cuMemHostRegister(void *memory, size_t sizeBytes, unsigned int flags) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  constexpr unsigned int all = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  CUdeviceptr base;
  Allocation found;
  if (!memory || sizeBytes == 0 || flags != all || findAllocation(reinterpret_cast<CUdeviceptr>(memory), &base, &found))
    return CUDA_ERROR_INVALID_VALUE;
  std::scoped_lock lock(memoryMutex);
  if (overlapsPinned(reinterpret_cast<uintptr_t>(memory), sizeBytes))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (pinnedBytes() + sizeBytes > static_cast<size_t>(setting("KOLO_STANDIN_PINNED", 1 << 30)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  pinned()[reinterpret_cast<uintptr_t>(memory)] = sizeBytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *memory) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  std::scoped_lock lock(memoryMutex);
  return pinned().erase(reinterpret_cast<uintptr_t>(memory)) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned int flags) {
  if (CUresult refused = checkContext())
    return refused;
  std::scoped_lock lock(memoryMutex);
  if (flags != 0 || !pinned().contains(reinterpret_cast<uintptr_t>(memory)))
    return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
}
