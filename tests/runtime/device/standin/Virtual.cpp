// The virtual memory interface of the stand-in driver: physical memory is a descriptor; a reserved range has no access
// before it is mapped and opened to devices.
#include "StandIn.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

using namespace kolo::standin;

namespace {

constexpr size_t granularityBytes = size_t(64) << 10;
std::set<ino_t> exportable; // physical memory that was made to be shared; under memoryMutex

void *toMapped(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

ino_t fileOf(CUmemGenericAllocationHandle handle) {
  struct stat file = {};
  return fstat(static_cast<int>(handle), &file) == 0 ? file.st_ino : 0;
}

} // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags) {
  *granularity = granularityBytes;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t sizeBytes, const CUmemAllocationProp *properties,
                     unsigned long long) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  if (sizeBytes % granularityBytes || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  int fd = memfd_create("standin", MFD_CLOEXEC);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(sizeBytes)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::scoped_lock lock(memoryMutex);
  if (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    exportable.insert(fileOf(*handle));
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return close(static_cast<int>(handle)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t sizeBytes, size_t, CUdeviceptr, unsigned long long) {
  void *memory = mmap(nullptr, sizeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return memory == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t sizeBytes) {
  return munmap(toMapped(address), sizeBytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr address, size_t sizeBytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  int physical = static_cast<int>(handle);
  void *memory = mmap(toMapped(address), sizeBytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical, 0);
  void *alias = mmap(nullptr, sizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED, physical, 0);
  if (memory == MAP_FAILED || alias == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  Allocation made;
  made.sizeBytes = sizeBytes, made.device = current()->device, made.kind = MemoryKind::Virtual, made.id = nextId();
  made.fd = fcntl(physical, F_DUPFD_CLOEXEC, 3); // the handle may be released before
  made.alias = alias;
  std::scoped_lock lock(memoryMutex);
  allocations()[address] = made;
  protect(address, sizeBytes);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t sizeBytes, const CUmemAccessDesc *entries, size_t count) {
  std::scoped_lock lock(memoryMutex);
  auto found = allocations().find(address);
  if (found == allocations().end() || found->second.kind != MemoryKind::Virtual ||
      found->second.sizeBytes != sizeBytes || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (const CUmemAccessDesc &entry : std::vector(entries, entries + count)) {
    if (entry.location.type != CU_MEM_LOCATION_TYPE_DEVICE || entry.location.id < 0 ||
        entry.location.id >= numDevices())
      return CUDA_ERROR_INVALID_VALUE;
    if (entry.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      found->second.devices.insert(entry.location.id);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address) {
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(address, &base, &found) || found.kind != MemoryKind::Virtual)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = found.devices.contains(location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t sizeBytes) {
  std::scoped_lock lock(memoryMutex);
  auto found = allocations().find(address);
  if (found == allocations().end() || found->second.kind != MemoryKind::Virtual || found->second.sizeBytes != sizeBytes)
    return CUDA_ERROR_INVALID_VALUE;
  munmap(found->second.alias, sizeBytes);
  close(found->second.fd);
  allocations().erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(reinterpret_cast<CUdeviceptr>(address), &base, &found) || found.kind != MemoryKind::Virtual)
    return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<CUmemGenericAllocationHandle>(fcntl(found.fd, F_DUPFD_CLOEXEC, 3));
  return CUDA_SUCCESS;
}

/// Only by a type of handle that the memory was made for.
CUresult cuMemExportToShareableHandle(void *fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long) {
  std::scoped_lock lock(memoryMutex);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !exportable.contains(fileOf(handle)))
    return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int *>(fd) = fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 3);
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *fd, CUmemAllocationHandleType) {
  int taken = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(fd)), F_DUPFD_CLOEXEC, 3);
  *handle = static_cast<CUmemGenericAllocationHandle>(taken);
  std::scoped_lock lock(memoryMutex);
  if (taken >= 0)
    exportable.insert(fileOf(*handle));
  return taken < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
}
