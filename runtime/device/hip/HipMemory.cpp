// Memory of AMD devices, and memory of the host for them. Memory for peers is uncached, or at least fine-grained. Other
// devices see stores to any other memory only after the kernel has ended.
#include "device/hip/HipApi.h"

namespace kolo::device {
namespace {

/// By its number, which older headers lack: the library that is loaded decides whether there is such memory.
constexpr unsigned int uncached = 3; // hipDeviceMallocUncached
constexpr unsigned int sharedFlags[] = {uncached, hipDeviceMallocFinegrained};

/// Of the first kind that the library and the device have.
int32_t allocateShared(uint64_t sizeBytes, void **memory) {
  hipError_t result = hipErrorInvalidValue;
  for (unsigned int flags : sharedFlags) {
    result = Hip::api.hipExtMallocWithFlags(memory, sizeBytes, flags);
    if (result == hipSuccess || result == hipErrorOutOfMemory)
      break;
  }
  return check<Hip>(result, "hipExtMallocWithFlags");
}

} // namespace

int32_t Hip::allocate(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory) {
  KOLO_CURRENT(Hip, device);
  switch (kind) {
  case KOLO_MEMORY_PRIVATE:
    KOLO_HIP(hipMalloc, memory, sizeBytes);
    return KOLO_DRIVER_OK;
  case KOLO_MEMORY_SHARED:
    return allocateShared(sizeBytes, memory);
  case KOLO_MEMORY_HOST:
    KOLO_HIP(hipHostMalloc, memory, sizeBytes, hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent);
    return KOLO_DRIVER_OK;
  default:
    return fail(KOLO_DRIVER_FAILED, "virtual memory", "this library does not allocate it");
  }
}

int32_t Hip::release(int32_t device, int32_t kind, void *memory) {
  KOLO_CURRENT(Hip, device);
  if (kind == KOLO_MEMORY_HOST) {
    KOLO_HIP(hipHostFree, memory);
    return KOLO_DRIVER_OK;
  }
  KOLO_HIP(hipFree, memory);
  return KOLO_DRIVER_OK;
}

int32_t Hip::findOwner(hipDeviceptr_t address, int32_t *device) {
  // HIP does not know ordinary memory.
  if (api.hipPointerGetAttribute(device, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != hipSuccess)
    return fail(KOLO_DRIVER_BAD_ARGUMENT, "it", "is no memory of a device");
  return KOLO_DRIVER_OK;
}

/// Peers access memory that `allocate` made, and no other: see acceptsForeignMemory.
int32_t Hip::isOpenTo(int32_t, const void *, int32_t, int32_t *answer) {
  *answer = 1;
  return KOLO_DRIVER_OK;
}

int32_t Hip::share(int32_t device, void *base, KoloDriverHandle *handle) {
  KOLO_CURRENT(Hip, device);
  return shareByHandle<Hip>(base, handle);
}

int32_t Hip::unshare(int32_t, const KoloDriverHandle *) { return KOLO_DRIVER_OK; }

int32_t Hip::openShared(int32_t device, const KoloDriverHandle *handle, void **memory) {
  KOLO_CURRENT(Hip, device);
  return openByHandle<Hip>(handle, memory);
}

int32_t Hip::closeShared(int32_t device, const KoloDriverHandle *, void *memory) {
  KOLO_CURRENT(Hip, device);
  return closeByHandle<Hip>(memory);
}

/// HIP makes no dma-buf. libfabric has ROCR make one.
int32_t Hip::exportMemory(int32_t, void *, uint64_t, int32_t *fd) {
  *fd = -1;
  return KOLO_DRIVER_OK;
}

} // namespace kolo::device
