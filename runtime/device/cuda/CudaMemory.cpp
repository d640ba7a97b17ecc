// Memory of CUDA devices, and memory of the host for them.
#include "device/cuda/CudaApi.h"

#include <algorithm>

namespace kolo::device {

int32_t Cuda::allocate(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory) {
  KOLO_CURRENT(Cuda, device);
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

int32_t Cuda::release(int32_t device, int32_t kind, void *memory) {
  KOLO_CURRENT(Cuda, device);
  if (kind == KOLO_MEMORY_VIRTUAL)
    return releaseVirtual(memory);
  if (kind == KOLO_MEMORY_HOST) {
    KOLO_CUDA(cuMemFreeHost, memory);
    return KOLO_DRIVER_OK;
  }
  KOLO_CUDA(cuMemFree, toDevice(memory));
  return KOLO_DRIVER_OK;
}

int32_t Cuda::findOwner(CUdeviceptr address, int32_t *device) {
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  // The driver does not know ordinary memory, and returns that the value is invalid.
  if (api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS)
    return fail(KOLO_DRIVER_BAD_ARGUMENT, "it", "is no memory of a device");
  if (type != CU_MEMORYTYPE_DEVICE)
    return fail(KOLO_DRIVER_ELSEWHERE, "it", "is memory of the host");
  KOLO_CUDA(cuPointerGetAttribute, device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  return KOLO_DRIVER_OK;
}

int32_t Cuda::isOpenTo(int32_t device, const void *address, int32_t peer, int32_t *answer) {
  KOLO_CURRENT(Cuda, device);
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = peer;
  CUmemoryPool pool = nullptr;
  // Older drivers do not know the attribute, and have no pools.
  if (api.cuMemPoolGetAccess &&
      api.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, toDevice(address)) == CUDA_SUCCESS &&
      pool) {
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    KOLO_CUDA(cuMemPoolGetAccess, &flags, pool, &location);
    *answer = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return KOLO_DRIVER_OK;
  }
  unsigned long long flags = 0;
  // Of other memory than that of the virtual memory interface, the driver returns that the value is invalid.
  CUresult asked = api.cuMemGetAccess(&flags, &location, toDevice(address));
  *answer = asked == CUDA_ERROR_INVALID_VALUE || flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return asked == CUDA_ERROR_INVALID_VALUE ? int32_t(KOLO_DRIVER_OK) : check(asked, "cuMemGetAccess");
}

int32_t Cuda::share(int32_t device, void *base, KoloDriverHandle *handle) {
  KOLO_CURRENT(Cuda, device);
  int32_t shared = KOLO_DRIVER_OK;
  return shareVirtual(base, handle, &shared) ? shared : shareByHandle<Cuda>(base, handle);
}

int32_t Cuda::unshare(int32_t, const KoloDriverHandle *handle) {
  unshareVirtual(handle);
  return KOLO_DRIVER_OK;
}

int32_t Cuda::openShared(int32_t device, const KoloDriverHandle *handle, void **memory) {
  KOLO_CURRENT(Cuda, device);
  return handle->fd >= 0 ? openVirtual(device, handle, memory) : openByHandle<Cuda>(handle, memory);
}

int32_t Cuda::closeShared(int32_t device, const KoloDriverHandle *handle, void *memory) {
  KOLO_CURRENT(Cuda, device);
  return handle->fd >= 0 ? releaseVirtual(memory) : closeByHandle<Cuda>(memory);
}

/// Drivers without the kernel module that makes dma-bufs say so in the attribute, or refuse.
int32_t Cuda::exportMemory(int32_t device, void *memory, uint64_t sizeBytes, int32_t *fd) {
  KOLO_CURRENT(Cuda, device);
  CUdevice handle = 0;
  KOLO_CUDA(cuDeviceGet, &handle, device);
  int isSupported = 0;
  const bool isKnown =
      api.cuDeviceGetAttribute(&isSupported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, handle) == CUDA_SUCCESS;
  *fd = -1;
  if (!api.cuMemGetHandleForAddressRange || !isKnown || !isSupported)
    return KOLO_DRIVER_OK;
  KOLO_CUDA(cuMemGetHandleForAddressRange, fd, toDevice(memory), sizeBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  return KOLO_DRIVER_OK;
}

} // namespace kolo::device
