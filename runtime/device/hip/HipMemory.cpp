// Memory of AMD devices, and memory of the host for them. Memory for peers is uncached, or at least fine-grained. Other
// devices see stores to any other memory only after the kernel has ended.
#include "device/hip/HipApi.h"

#include <cstring>

namespace kolo::device {
namespace {

/// By its number, which older headers lack: the library that is loaded decides whether there is such memory.
constexpr unsigned int uncached = 3; // hipDeviceMallocUncached
constexpr unsigned int sharedFlags[] = {uncached, hipDeviceMallocFinegrained};

/// Of the first kind that the library and the device have.
int32_t allocateShared(uint64_t sizeBytes, void **memory) {
  hipError_t result = hipErrorInvalidValue;
  for (unsigned int flags : sharedFlags) {
    result = hip.hipExtMallocWithFlags(memory, sizeBytes, flags);
    if (result == hipSuccess || result == hipErrorOutOfMemory)
      break;
  }
  return check(result, "hipExtMallocWithFlags");
}

} // namespace

int32_t allocate(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory) {
  KOLO_CURRENT(device);
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

int32_t release(int32_t device, int32_t kind, void *memory) {
  KOLO_CURRENT(device);
  if (kind == KOLO_MEMORY_HOST) {
    KOLO_HIP(hipHostFree, memory);
    return KOLO_DRIVER_OK;
  }
  KOLO_HIP(hipFree, memory);
  return KOLO_DRIVER_OK;
}

int32_t locate(int32_t device, const void *address, KoloDriverRange *range) {
  KOLO_CURRENT(device);
  auto pointer = const_cast<void *>(address);
  int ordinal = -1;
  unsigned int id = 0;
  hipDeviceptr_t base = nullptr;
  size_t sizeBytes = 0;
  // HIP does not know ordinary memory.
  if (hip.hipPointerGetAttribute(&ordinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer) != hipSuccess)
    return fail(KOLO_DRIVER_BAD_ARGUMENT, "it", "is no memory of a device");
  if (ordinal != device)
    return fail(KOLO_DRIVER_ELSEWHERE, "it", ("is memory of device " + std::to_string(ordinal)).c_str());
  KOLO_HIP(hipPointerGetAttribute, &id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
  KOLO_HIP(hipMemGetAddressRange, &base, &sizeBytes, pointer);
  *range = {base, sizeBytes, id};
  return KOLO_DRIVER_OK;
}

/// Peers access memory that `allocate` made, and no other: see acceptsForeignMemory.
int32_t isOpenTo(int32_t, const void *, int32_t, int32_t *answer) {
  *answer = 1;
  return KOLO_DRIVER_OK;
}

int32_t share(int32_t device, void *base, KoloDriverHandle *handle) {
  KOLO_CURRENT(device);
  hipIpcMemHandle_t opaque = {};
  static_assert(sizeof(opaque) == sizeof(handle->bytes));
  KOLO_HIP(hipIpcGetMemHandle, &opaque, base);
  *handle = {};
  handle->fd = -1;
  std::memcpy(handle->bytes, &opaque, sizeof(opaque));
  return KOLO_DRIVER_OK;
}

int32_t unshare(int32_t, const KoloDriverHandle *) { return KOLO_DRIVER_OK; }

int32_t openShared(int32_t device, const KoloDriverHandle *handle, void **memory) {
  KOLO_CURRENT(device);
  hipIpcMemHandle_t opaque = {};
  std::memcpy(&opaque, handle->bytes, sizeof(opaque));
  KOLO_HIP(hipIpcOpenMemHandle, memory, opaque, hipIpcMemLazyEnablePeerAccess);
  return KOLO_DRIVER_OK;
}

int32_t closeShared(int32_t device, const KoloDriverHandle *, void *memory) {
  KOLO_CURRENT(device);
  KOLO_HIP(hipIpcCloseMemHandle, memory);
  return KOLO_DRIVER_OK;
}

} // namespace kolo::device
