// What NICs do with memory of the stand-in driver's devices. What they write is not visible before it is flushed,
// unless KOLO_STANDIN_RDMA_ORDER says that the device keeps the order.
#include "StandIn.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

namespace kolo::standin {
namespace {

struct Arrived {
  CUdeviceptr address;
  int device;
  std::vector<std::byte> bytes;
};
/// What is not visible yet, in the order of its arrival; under memoryMutex.
std::vector<Arrived> &arrived() {
  static auto *all = new std::vector<Arrived>;
  return *all;
}

std::atomic<int64_t> numFlushes = 0;

bool isOrdered() { return setting("KOLO_STANDIN_RDMA_ORDER", 0) >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER; }
bool canFlush() { return setting("KOLO_STANDIN_RDMA_FLUSH", 1) != 0; }

void show(int device) {
  std::scoped_lock lock(memoryMutex);
  std::erase_if(arrived(), [&](const Arrived &one) {
    if (one.device == device)
      std::memcpy(toAlias(one.address), one.bytes.data(), one.bytes.size());
    return one.device == device;
  });
}

} // namespace

CUresult describeRdma(int *value, CUdevice_attribute attribute) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
    return *value = setting("KOLO_STANDIN_RDMA_ORDER", 0), CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
    return *value = canFlush() ? CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST : 0, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    return *value = setting("KOLO_STANDIN_DMABUF", 1), CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

void forgetArrived(CUdeviceptr address, size_t sizeBytes) {
  std::erase_if(arrived(), [&](const Arrived &one) { return one.address - address < sizeBytes; });
}

} // namespace kolo::standin

using namespace kolo::standin;

extern "C" {

/// Stricter than what is known of the real one: a capture forbids it, and it waits for calls that hold the context.
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  if (!canFlush() || target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
      scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER)
    return CUDA_ERROR_INVALID_VALUE;
  ++numFlushes;
  show(current()->device);
  return CUDA_SUCCESS;
}

/// The descriptor stands for the file that the memory is in: a NIC takes the place in it from the address.
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t sizeBytes, CUmemRangeHandleType type,
                                       unsigned long long flags) {
  constexpr size_t page = 4096;
  CUdeviceptr base;
  Allocation found;
  if (CUresult refused = checkContext())
    return refused;
  if (setting("KOLO_STANDIN_DMABUF", 1) == 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0 || address % page || sizeBytes % page ||
      !findAllocation(address, &base, &found) || !found.alias || sizeBytes > found.sizeBytes - (address - base))
    return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int *>(handle) = fcntl(found.fd, F_DUPFD_CLOEXEC, 3);
  return CUDA_SUCCESS;
}

/// For stand-ins of NICs: the device whose memory this is; -1: of none.
int standInDeviceAt(const void *address, uint64_t sizeBytes) {
  CUdeviceptr base;
  Allocation found;
  const auto begin = reinterpret_cast<CUdeviceptr>(address);
  const bool isFound = findAllocation(begin, &base, &found) && found.alias;
  return isFound && sizeBytes <= found.sizeBytes - (begin - base) ? found.device : -1;
}

/// For stand-ins of NICs: where they read memory of a device.
const void *standInReadableAt(const void *address) { return toAlias(reinterpret_cast<CUdeviceptr>(address)); }

/// For stand-ins of NICs: a write has arrived.
void standInArrive(int device, void *address, const void *bytes, uint64_t sizeBytes) {
  const auto *first = static_cast<const std::byte *>(bytes);
  std::scoped_lock lock(memoryMutex);
  arrived().push_back({reinterpret_cast<CUdeviceptr>(address), device, {first, first + sizeBytes}});
  if (isOrdered())
    show(device);
}

/// For stand-ins of NICs: one reads from the device, behind what has arrived.
void standInReadBack(int device) { show(device); }

/// For tests: calls of cuFlushGPUDirectRDMAWrites.
int64_t standInFlushes() { return numFlushes; }
}
