// Memory by CUDA's virtual memory interface: physical memory, a range of addresses, and the devices that may access it.
#include "device/cuda/CudaApi.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace kolo::device {
namespace {

struct Mapping {
  CUmemGenericAllocationHandle physical = 0;
  size_t sizeBytes = 0;
  int fd = -1; // by which peers import the memory, once it is shared
};
std::map<void *, Mapping> mappings;
std::mutex mutex;

CUmemAllocationProp propertiesOf(int32_t device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

/// `owner` and all devices that can access its memory.
int32_t devicesThatReach(int32_t owner, std::vector<int> *devices) {
  int count = 0;
  KOLO_CUDA(cuDeviceGetCount, &count);
  for (int device = 0; device < count; ++device) {
    int canAccess = device == owner;
    if (!canAccess)
      KOLO_CUDA(cuDeviceCanAccessPeer, &canAccess, device, owner);
    if (canAccess)
      devices->push_back(device);
  }
  return KOLO_DRIVER_OK;
}

int32_t setAccess(CUdeviceptr address, size_t sizeBytes, const std::vector<int> &devices) {
  std::vector<CUmemAccessDesc> entries;
  for (int device : devices) {
    CUmemAccessDesc &entry = entries.emplace_back();
    entry.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    entry.location.id = device;
    entry.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  KOLO_CUDA(cuMemSetAccess, address, sizeBytes, entries.data(), entries.size());
  return KOLO_DRIVER_OK;
}

/// For these devices. Takes ownership of the physical memory, also when it fails.
int32_t map(CUmemGenericAllocationHandle physical, size_t sizeBytes, const std::vector<int> &devices, void **memory) {
  CUdeviceptr address = 0;
  int32_t code = check(Cuda::api.cuMemAddressReserve(&address, sizeBytes, 0, 0, 0), "cuMemAddressReserve");
  if (code != KOLO_DRIVER_OK) {
    (void)Cuda::api.cuMemRelease(physical);
    return code;
  }
  code = check(Cuda::api.cuMemMap(address, sizeBytes, 0, physical, 0), "cuMemMap");
  bool isMapped = code == KOLO_DRIVER_OK;
  if (isMapped)
    code = setAccess(address, sizeBytes, devices);
  if (code != KOLO_DRIVER_OK) {
    if (isMapped)
      (void)Cuda::api.cuMemUnmap(address, sizeBytes);
    (void)Cuda::api.cuMemAddressFree(address, sizeBytes);
    (void)Cuda::api.cuMemRelease(physical);
    return code;
  }
  *memory = Cuda::fromDevice(address);
  std::scoped_lock lock(mutex);
  mappings[*memory] = {physical, sizeBytes, -1};
  return KOLO_DRIVER_OK;
}

} // namespace

int32_t allocateVirtual(int32_t device, uint64_t sizeBytes, void **memory) {
  std::vector<int> devices;
  KOLO_TRY(devicesThatReach(device, &devices));
  CUmemAllocationProp properties = propertiesOf(device);
  size_t granularity = 0;
  KOLO_CUDA(cuMemGetAllocationGranularity, &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  size_t rounded = (sizeBytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle physical = 0;
  KOLO_CUDA(cuMemCreate, &physical, rounded, &properties, 0);
  return map(physical, rounded, devices, memory);
}

int32_t releaseVirtual(void *memory) {
  Mapping mapping;
  {
    std::scoped_lock lock(mutex);
    auto found = mappings.find(memory);
    if (found == mappings.end())
      return fail(KOLO_DRIVER_BAD_ARGUMENT, "virtual memory", "there is none at this address");
    mapping = found->second;
    mappings.erase(found);
  }
  if (mapping.fd >= 0)
    close(mapping.fd);
  KOLO_CUDA(cuMemUnmap, Cuda::toDevice(memory), mapping.sizeBytes);
  KOLO_CUDA(cuMemAddressFree, Cuda::toDevice(memory), mapping.sizeBytes);
  KOLO_CUDA(cuMemRelease, mapping.physical);
  return KOLO_DRIVER_OK;
}

/// Virtual memory that others have allocated, such as ncclMemAlloc. False: it is none.
static bool shareForeign(void *base, KoloDriverHandle *handle, int32_t *code) {
  CUmemGenericAllocationHandle physical = 0;
  if (Cuda::api.cuMemRetainAllocationHandle(&physical, base) != CUDA_SUCCESS)
    return false;
  *handle = {};
  handle->fd = -1;
  size_t sizeBytes = 0;
  CUdeviceptr begin = 0;
  *code = check(Cuda::api.cuMemGetAddressRange(&begin, &sizeBytes, Cuda::toDevice(base)), "cuMemGetAddressRange");
  if (*code == KOLO_DRIVER_OK)
    *code = check(
        Cuda::api.cuMemExportToShareableHandle(&handle->fd, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle");
  (void)Cuda::api.cuMemRelease(physical);
  handle->sizeBytes = sizeBytes;
  return true;
}

void unshareVirtual(const KoloDriverHandle *handle) {
  std::scoped_lock lock(mutex);
  auto isOf = [&](const auto &entry) { return entry.second.fd == handle->fd; };
  if (handle->fd >= 0 && std::ranges::none_of(mappings, isOf)) // a descriptor would keep the memory
    close(handle->fd);
}

bool shareVirtual(void *base, KoloDriverHandle *handle, int32_t *code) {
  std::scoped_lock lock(mutex);
  auto found = mappings.find(base);
  if (found == mappings.end())
    return shareForeign(base, handle, code);
  Mapping &mapping = found->second;
  *code = KOLO_DRIVER_OK;
  if (mapping.fd < 0)
    *code = check(Cuda::api.cuMemExportToShareableHandle(&mapping.fd, mapping.physical,
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                  "cuMemExportToShareableHandle");
  *handle = {};
  handle->fd = mapping.fd;
  handle->sizeBytes = mapping.sizeBytes;
  return true;
}

int32_t openVirtual(int32_t device, const KoloDriverHandle *handle, void **memory) {
  CUmemGenericAllocationHandle physical = 0;
  int32_t code = check(
      Cuda::api.cuMemImportFromShareableHandle(&physical, reinterpret_cast<void *>(static_cast<intptr_t>(handle->fd)),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle");
  return code == KOLO_DRIVER_OK ? map(physical, handle->sizeBytes, {device}, memory) : code;
}

} // namespace kolo::device
