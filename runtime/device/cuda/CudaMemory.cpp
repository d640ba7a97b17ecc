// Memory of CUDA devices, and memory of the host for them.
#include "device/cuda/CudaApi.h"

#include <algorithm>
#include <cstring>

namespace kolo::device {

int32_t allocate(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory) {
  KOLO_CURRENT(device);
  if (kind == KOLO_MEMORY_VIRTUAL)
    return allocateVirtual(device, sizeBytes, memory);
  if (kind == KOLO_MEMORY_HOST) {
    KOLO_CUDA(cuMemHostAlloc, memory, sizeBytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    return KOLO_DRIVER_OK;
  }
  // Smaller allocations share a block, of which other processes would map the whole.
  constexpr uint64_t blockBytes = uint64_t(2) << 20;
  if (kind == KOLO_MEMORY_SHARED)
    sizeBytes = std::max(sizeBytes, blockBytes);
  CUdeviceptr address = 0;
  KOLO_CUDA(cuMemAlloc, &address, sizeBytes);
  *memory = fromDevice(address);
  return KOLO_DRIVER_OK;
}

int32_t release(int32_t device, int32_t kind, void *memory) {
  KOLO_CURRENT(device);
  if (kind == KOLO_MEMORY_VIRTUAL)
    return releaseVirtual(memory);
  if (kind == KOLO_MEMORY_HOST) {
    KOLO_CUDA(cuMemFreeHost, memory);
    return KOLO_DRIVER_OK;
  }
  KOLO_CUDA(cuMemFree, toDevice(memory));
  return KOLO_DRIVER_OK;
}

int32_t locate(int32_t device, const void *address, KoloDriverRange *range) {
  KOLO_CURRENT(device);
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  int ordinal = -1;
  unsigned long long id = 0;
  CUdeviceptr base = 0;
  size_t sizeBytes = 0;
  // The driver does not know ordinary memory, and returns that the value is invalid.
  if (cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, toDevice(address)) != CUDA_SUCCESS)
    return fail(KOLO_DRIVER_BAD_ARGUMENT, "it", "is no memory of a device");
  if (type != CU_MEMORYTYPE_DEVICE)
    return fail(KOLO_DRIVER_ELSEWHERE, "it", "is memory of the host");
  KOLO_CUDA(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, toDevice(address));
  if (ordinal != device)
    return fail(KOLO_DRIVER_ELSEWHERE, "it", ("is memory of device " + std::to_string(ordinal)).c_str());
  KOLO_CUDA(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, toDevice(address));
  KOLO_CUDA(cuMemGetAddressRange, &base, &sizeBytes, toDevice(address));
  *range = {fromDevice(base), sizeBytes, id};
  return KOLO_DRIVER_OK;
}

int32_t isOpenTo(int32_t device, const void *address, int32_t peer, int32_t *answer) {
  KOLO_CURRENT(device);
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = peer;
  CUmemoryPool pool = nullptr;
  // Older drivers do not know the attribute, and have no pools.
  if (cuda.cuMemPoolGetAccess &&
      cuda.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, toDevice(address)) == CUDA_SUCCESS &&
      pool) {
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    KOLO_CUDA(cuMemPoolGetAccess, &flags, pool, &location);
    *answer = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return KOLO_DRIVER_OK;
  }
  unsigned long long flags = 0;
  // Of other memory than that of the virtual memory interface, the driver returns that the value is invalid.
  CUresult asked = cuda.cuMemGetAccess(&flags, &location, toDevice(address));
  *answer = asked == CUDA_ERROR_INVALID_VALUE || flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return asked == CUDA_ERROR_INVALID_VALUE ? int32_t(KOLO_DRIVER_OK) : check(asked, "cuMemGetAccess");
}

int32_t share(int32_t device, void *base, KoloDriverHandle *handle) {
  KOLO_CURRENT(device);
  static_assert(sizeof(CUipcMemHandle) == sizeof(handle->bytes));
  int32_t shared = KOLO_DRIVER_OK;
  if (shareVirtual(base, handle, &shared))
    return shared;
  CUipcMemHandle opaque = {};
  KOLO_CUDA(cuIpcGetMemHandle, &opaque, toDevice(base));
  *handle = {};
  handle->fd = -1;
  std::memcpy(handle->bytes, &opaque, sizeof(opaque));
  return KOLO_DRIVER_OK;
}

int32_t unshare(int32_t, const KoloDriverHandle *handle) {
  unshareVirtual(handle);
  return KOLO_DRIVER_OK;
}

int32_t openShared(int32_t device, const KoloDriverHandle *handle, void **memory) {
  KOLO_CURRENT(device);
  if (handle->fd >= 0)
    return openVirtual(device, handle, memory);
  CUipcMemHandle opaque = {};
  std::memcpy(&opaque, handle->bytes, sizeof(opaque));
  CUdeviceptr address = 0;
  KOLO_CUDA(cuIpcOpenMemHandle, &address, opaque, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  *memory = fromDevice(address);
  return KOLO_DRIVER_OK;
}

int32_t closeShared(int32_t device, const KoloDriverHandle *handle, void *memory) {
  KOLO_CURRENT(device);
  if (handle->fd >= 0)
    return releaseVirtual(memory);
  KOLO_CUDA(cuIpcCloseMemHandle, toDevice(memory));
  return KOLO_DRIVER_OK;
}

} // namespace kolo::device
