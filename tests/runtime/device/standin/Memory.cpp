// Memory of the stand-in driver. Every allocation is a memfd, so that other processes can map it. It starts filled with
// bytes 0xa5.
#include "StandIn.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace kolo::standin {
namespace {

std::recursive_mutex mutex;
std::map<CUdeviceptr, Allocation> allocations;

struct IpcHandle {
  uint64_t magic = 0x53544e44494e4950;
  int pid = 0, fd = -1;
  uint64_t sizeBytes = 0;
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

void *toHost(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

unsigned long long nextId() {
  static std::atomic<unsigned long long> last = 0;
  return ++last;
}

CUresult map(int fd, size_t sizeBytes, MemoryKind kind, CUdeviceptr *address) {
  void *memory = mmap(nullptr, sizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  std::scoped_lock lock(mutex);
  allocations[*address] = {sizeBytes, current()->device, kind, nextId(), fd, true};
  return CUDA_SUCCESS;
}

int makeFile(size_t sizeBytes) {
  int fd = memfd_create("standin", MFD_CLOEXEC);
  return fd >= 0 && ftruncate(fd, static_cast<off_t>(sizeBytes)) == 0 ? fd : -1;
}

CUresult allocate(size_t sizeBytes, MemoryKind kind, CUdeviceptr *address) {
  if (CUresult refused = checkUnsafe())
    return refused;
  if (sizeBytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (sizeBytes > size_t(1) << 30)
    return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = makeFile(sizeBytes);
  CUresult result = fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : map(fd, sizeBytes, kind, address);
  if (result == CUDA_SUCCESS)
    std::memset(toHost(*address), 0xa5, sizeBytes);
  return result;
}

/// Only what lies at this very address, and is of this kind. As the real one, waits for all work of the device before.
CUresult release(CUdeviceptr address, MemoryKind kind) {
  if (CUresult refused = checkUnsafe())
    return refused;
  waitForDevice(current()->device);
  std::scoped_lock lock(mutex);
  auto found = allocations.find(address);
  if (found == allocations.end() || found->second.kind != kind)
    return CUDA_ERROR_INVALID_VALUE;
  if (kind != MemoryKind::Host && found->second.device != current()->device)
    return CUDA_ERROR_INVALID_CONTEXT;
  munmap(toHost(address), found->second.sizeBytes);
  if (found->second.fd >= 0)
    close(found->second.fd);
  allocations.erase(found);
  return CUDA_SUCCESS;
}

} // namespace

bool findAllocation(CUdeviceptr address, CUdeviceptr *base, Allocation *found) {
  std::scoped_lock lock(mutex);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin())
    return false;
  --after;
  if (address - after->first >= after->second.sizeBytes || !after->second.isAccessible)
    return false;
  *base = after->first, *found = after->second;
  return true;
}

bool isWhole(CUdeviceptr address, size_t sizeBytes) {
  std::scoped_lock lock(mutex);
  CUdeviceptr base;
  Allocation found;
  if (findAllocation(address, &base, &found))
    return sizeBytes <= found.sizeBytes - (address - base);
  auto after = allocations.lower_bound(address);
  return after == allocations.end() || after->first >= address + sizeBytes;
}

int64_t countLive() {
  std::scoped_lock lock(mutex);
  return static_cast<int64_t>(allocations.size());
}

} // namespace kolo::standin

using namespace kolo::standin;

extern "C" {

CUresult cuMemAlloc(CUdeviceptr *address, size_t sizeBytes) { return allocate(sizeBytes, MemoryKind::Device, address); }
CUresult cuMemFree(CUdeviceptr address) { return release(address, MemoryKind::Device); }

CUresult cuMemHostAlloc(void **memory, size_t sizeBytes, unsigned int flags) {
  CUdeviceptr address = 0;
  CUresult result =
      (flags & CU_MEMHOSTALLOC_PORTABLE) ? allocate(sizeBytes, MemoryKind::Host, &address) : CUDA_ERROR_INVALID_VALUE;
  *memory = toHost(address);
  return result;
}
CUresult cuMemFreeHost(void *memory) { return release(reinterpret_cast<CUdeviceptr>(memory), MemoryKind::Host); }

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *sizeBytes, CUdeviceptr address) {
  Allocation found;
  if (CUresult refused = checkContext())
    return refused;
  if (!findAllocation(address, base, &found))
    return CUDA_ERROR_NOT_FOUND;
  *sizeBytes = found.sizeBytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(address, &base, &found))
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *static_cast<CUmemorytype *>(value) = found.kind == MemoryKind::Host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *static_cast<int *>(value) = found.device;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    *static_cast<unsigned long long *>(value) = found.id;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(address, &base, &found) || base != address || found.kind != MemoryKind::Device)
    return CUDA_ERROR_INVALID_VALUE;
  IpcHandle opaque;
  opaque.pid = getpid(), opaque.fd = found.fd, opaque.sizeBytes = found.sizeBytes;
  std::memcpy(handle, &opaque, sizeof(opaque));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags) {
  if (CUresult refused = checkUnsafe())
    return refused;
  IpcHandle opaque, valid;
  std::memcpy(static_cast<void *>(&opaque), &handle, sizeof(opaque));
  if (opaque.magic != valid.magic || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (opaque.pid == getpid()) // as the real one: only for other processes
    return CUDA_ERROR_INVALID_CONTEXT;
  int fd =
      open(("/proc/" + std::to_string(opaque.pid) + "/fd/" + std::to_string(opaque.fd)).c_str(), O_RDWR | O_CLOEXEC);
  return fd < 0 ? CUDA_ERROR_INVALID_HANDLE : map(fd, opaque.sizeBytes, MemoryKind::Imported, address);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) { return release(address, MemoryKind::Imported); }

// Virtual memory: physical memory is a descriptor; a reserved range is an allocation that is not accessible yet.

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags) {
  *granularity = size_t(64) << 10;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t sizeBytes, const CUmemAllocationProp *properties,
                     unsigned long long) {
  if (CUresult refused = checkUnsafe())
    return refused;
  if (sizeBytes % (64 << 10) || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  int fd = makeFile(sizeBytes);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  return fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
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
  return munmap(toHost(address), sizeBytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr address, size_t sizeBytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  void *memory = mmap(toHost(address), sizeBytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  std::scoped_lock lock(mutex);
  int fd = fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 3); // the handle may be released before
  allocations[address] = {sizeBytes, current()->device, MemoryKind::Virtual, nextId(), fd, false};
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t sizeBytes, const CUmemAccessDesc *entries, size_t count) {
  std::scoped_lock lock(mutex);
  auto found = allocations.find(address);
  if (found == allocations.end() || found->second.sizeBytes != sizeBytes || count != static_cast<size_t>(numDevices()))
    return CUDA_ERROR_INVALID_VALUE;
  found->second.isAccessible = entries[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return mprotect(toHost(address), sizeBytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t sizeBytes) {
  std::scoped_lock lock(mutex);
  auto found = allocations.find(address);
  if (found == allocations.end() || found->second.kind != MemoryKind::Virtual || found->second.sizeBytes != sizeBytes)
    return CUDA_ERROR_INVALID_VALUE;
  close(found->second.fd);
  allocations.erase(found);
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

CUresult cuMemExportToShareableHandle(void *fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                                      unsigned long long) {
  *static_cast<int *>(fd) = fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 3);
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *fd, CUmemAllocationHandleType) {
  *handle = static_cast<CUmemGenericAllocationHandle>(
      fcntl(static_cast<int>(reinterpret_cast<intptr_t>(fd)), F_DUPFD_CLOEXEC, 3));
  return CUDA_SUCCESS;
}
}
