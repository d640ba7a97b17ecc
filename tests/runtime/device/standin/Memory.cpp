// Memory of the stand-in driver. It lies in memfds, so that other processes can map it, and starts filled with bytes
// 0xa5.
#include "../../../support/Sanitizers.h"
#include "Kernel.h"
#include "StandIn.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

struct CUmemPoolHandle_st {
  int device = 0;
  std::set<int> devices; // whose kernels may access its memory, beside the owner's
};

namespace kolo::standin {

std::recursive_mutex memoryMutex;

std::map<CUdeviceptr, Allocation> &allocations() {
  static auto *all = new std::map<CUdeviceptr, Allocation>;
  return *all;
}

unsigned long long nextId() {
  static std::atomic<unsigned long long> last = 0;
  return ++last;
}

namespace {

/// Smaller allocations lie in blocks of this size together, and a handle for other processes is of a whole block.
constexpr size_t blockBytes = size_t(2) << 20, pageBytes = 4096;

/// The block that the next small allocation lies in, by device; under memoryMutex.
struct OpenBlock {
  int fd = -1;
  size_t used = 0;
};
std::map<int, OpenBlock> openBlocks;

/// What a process has of another's block: CUDA maps it once, and counts.
struct Import {
  CUdeviceptr base = 0;
  int count = 0;
};
std::map<std::pair<int, ino_t>, Import> imports; // by device and file; under memoryMutex

struct IpcHandle {
  uint64_t magic = 0x53544e44494e4950;
  int pid = 0, fd = -1; // of the whole block
  uint64_t offset = 0;  // of the memory in it
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

void *toHost(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

CUresult map(int fd, size_t offset, size_t sizeBytes, MemoryKind kind, CUdeviceptr *address) {
  auto mapOnce = [&] {
    return mmap(nullptr, sizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  };
  void *memory = mapOnce(), *alias = kind == MemoryKind::Host ? nullptr : mapOnce();
  if (memory == MAP_FAILED || alias == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  Allocation made;
  made.sizeBytes = sizeBytes, made.device = current()->device, made.kind = kind, made.id = nextId();
  made.fd = fd, made.fileOffset = offset, made.alias = alias;
  std::scoped_lock lock(memoryMutex);
  allocations()[*address] = made;
  if (alias)
    protect(*address, sizeBytes);
  return CUDA_SUCCESS;
}

int makeFile(size_t sizeBytes) {
  int fd = memfd_create("standin", MFD_CLOEXEC);
  return fd >= 0 && ftruncate(fd, static_cast<off_t>(sizeBytes)) == 0 ? fd : -1;
}

/// A place for so many bytes: in a file of its own, or in the block of the device.
std::pair<int, size_t> place(size_t sizeBytes, MemoryKind kind) {
  if (kind != MemoryKind::Device || sizeBytes >= blockBytes)
    return {makeFile(sizeBytes), 0};
  std::scoped_lock lock(memoryMutex);
  OpenBlock &block = openBlocks[current()->device];
  size_t rounded = (sizeBytes + pageBytes - 1) / pageBytes * pageBytes;
  if (block.fd < 0 || block.used + rounded > blockBytes) {
    if (block.fd >= 0)
      close(block.fd);
    block = {makeFile(blockBytes), 0};
  }
  size_t offset = std::exchange(block.used, block.used + rounded);
  return {block.fd < 0 ? -1 : fcntl(block.fd, F_DUPFD_CLOEXEC, 3), offset};
}

/// Without a mapping, whose page faults take longer than the bytes.
bool fillFile(int fd, size_t offset, std::byte value, size_t sizeBytes) {
  const std::vector<std::byte> pattern(std::min(sizeBytes, size_t(64) << 10), value);
  for (size_t end = offset + sizeBytes; offset < end;) {
    ssize_t written = pwrite(fd, pattern.data(), std::min(pattern.size(), end - offset), static_cast<off_t>(offset));
    if (written <= 0)
      return false;
    offset += static_cast<size_t>(written);
  }
  return true;
}

CUresult allocate(size_t sizeBytes, MemoryKind kind, CUdeviceptr *address) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  if (sizeBytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (sizeBytes > size_t(1) << 30)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto [fd, offset] = place(sizeBytes, kind);
  if (fd < 0 || !fillFile(fd, offset, std::byte(0xa5), sizeBytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  return map(fd, offset, sizeBytes, kind, address);
}

void unmap(std::map<CUdeviceptr, Allocation>::iterator found) {
  forgetArrived(found->first, found->second.sizeBytes);
  munmap(toHost(found->first), found->second.sizeBytes);
  if (found->second.alias)
    munmap(found->second.alias, found->second.sizeBytes);
  if (found->second.fd >= 0)
    close(found->second.fd);
  allocations().erase(found);
}

/// Only what lies at this very address, and is of this kind. As the real one, waits for all work of the device before,
/// and keeps all other threads from calls with this context meanwhile.
CUresult release(CUdeviceptr address, MemoryKind kind) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  waitForDevice(current()->device);
  std::scoped_lock lock(memoryMutex);
  auto found = allocations().find(address);
  if (found == allocations().end() || found->second.kind != kind)
    return CUDA_ERROR_INVALID_VALUE;
  if (kind != MemoryKind::Host && found->second.device != current()->device)
    return CUDA_ERROR_INVALID_CONTEXT;
  unmap(found);
  return CUDA_SUCCESS;
}

} // namespace

bool findAllocation(CUdeviceptr address, CUdeviceptr *base, Allocation *found) {
  std::scoped_lock lock(memoryMutex);
  auto after = allocations().upper_bound(address);
  if (after == allocations().begin())
    return false;
  --after;
  bool isClosed = after->second.kind == MemoryKind::Virtual && after->second.devices.empty();
  if (address - after->first >= after->second.sizeBytes || isClosed)
    return false;
  *base = after->first, *found = after->second;
  return true;
}

bool isWhole(CUdeviceptr address, size_t sizeBytes) {
  std::scoped_lock lock(memoryMutex);
  CUdeviceptr base;
  Allocation found;
  if (findAllocation(address, &base, &found))
    return sizeBytes <= found.sizeBytes - (address - base);
  auto after = allocations().lower_bound(address);
  return after == allocations().end() || after->first >= address + sizeBytes;
}

void *toAlias(CUdeviceptr address) {
  CUdeviceptr base;
  Allocation found;
  bool isProtected = findAllocation(address, &base, &found) && found.alias;
  return isProtected ? static_cast<std::byte *>(found.alias) + (address - base) : toHost(address);
}

void setMemory(CUdeviceptr dst, unsigned char value, size_t sizeBytes) {
  CUdeviceptr base;
  Allocation found;
  const bool isLarge = sizeBytes >= size_t(64) << 10;
  // The thread sanitizer sees writes to mapped memory only.
  if (!test::isThreadSanitized && isLarge && findAllocation(dst, &base, &found) && found.fd >= 0 &&
      fillFile(found.fd, found.fileOffset + (dst - base), std::byte(value), sizeBytes))
    return;
  std::memset(toAlias(dst), value, sizeBytes);
}

bool mayAccess(int device, const Allocation &allocation) {
  switch (allocation.kind) {
  case MemoryKind::Device: // what peers of a context may access
    return device == allocation.device || primaryContext(device)->peers.contains(allocation.device);
  case MemoryKind::Imported: // mapped for the context that opened it
    return device == allocation.device;
  case MemoryKind::Virtual:
    return allocation.devices.contains(device);
  case MemoryKind::Pool:
    return device == allocation.device || allocation.pool->devices.contains(device);
  case MemoryKind::Host:
    return true;
  }
  return false;
}

int64_t countLive() {
  std::scoped_lock lock(memoryMutex);
  return static_cast<int64_t>(allocations().size()) + countPinned();
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
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    *static_cast<CUmemoryPool *>(value) = found.pool;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Not of pool memory, as the real one.
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(address, &base, &found) || base != address || found.kind != MemoryKind::Device)
    return CUDA_ERROR_INVALID_VALUE;
  IpcHandle opaque;
  opaque.pid = getpid(), opaque.fd = found.fd, opaque.offset = found.fileOffset;
  std::memcpy(handle, &opaque, sizeof(opaque));
  return CUDA_SUCCESS;
}

/// A second opening of one block gives the same mapping.
CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags) {
  Busy busy;
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
  struct stat file = {};
  if (fd < 0 || fstat(fd, &file) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  std::scoped_lock lock(memoryMutex);
  Import &import = imports[{current()->device, file.st_ino}];
  CUresult result = CUDA_SUCCESS;
  if (import.count > 0)
    close(fd);
  else
    result = map(fd, 0, static_cast<size_t>(file.st_size), MemoryKind::Imported, &import.base);
  if (result != CUDA_SUCCESS)
    return result;
  ++import.count;
  *address = import.base + opaque.offset;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  std::unique_lock lock(memoryMutex);
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(address, &base, &found) || found.kind != MemoryKind::Imported)
    return CUDA_ERROR_INVALID_VALUE;
  auto import = std::ranges::find_if(imports, [&](const auto &each) { return each.second.base == base; });
  if (--import->second.count > 0)
    return CUDA_SUCCESS;
  imports.erase(import);
  lock.unlock();
  return release(base, MemoryKind::Imported);
}

// Pools: memory of streams, whose accesses by other devices follow no context.

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  *pool = new CUmemPoolHandle_st{properties->location.id, {}};
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) { return delete pool, CUDA_SUCCESS; }

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *entries, size_t count) {
  std::scoped_lock lock(memoryMutex);
  for (size_t i = 0; i < count; ++i)
    if (entries[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      pool->devices.insert(entries[i].location.id);
    else
      pool->devices.erase(entries[i].location.id);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
  std::scoped_lock lock(memoryMutex);
  bool isGiven = location->id == pool->device || pool->devices.contains(location->id);
  *flags = isGiven ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t sizeBytes, CUmemoryPool pool, CUstream) {
  CUresult result = allocate(sizeBytes, MemoryKind::Pool, address);
  std::scoped_lock lock(memoryMutex);
  if (result == CUDA_SUCCESS)
    allocations()[*address].pool = pool;
  return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) { return release(address, MemoryKind::Pool); }

/// For tests: memory that counts as device 1's for who asks, and is not open to it.
void standInBecomesMemoryOf1(const void *address) {
  std::scoped_lock lock(memoryMutex);
  allocations().at(reinterpret_cast<CUdeviceptr>(address)).device = 1;
}

/// For tests: where in which block memory lies; other processes map the whole of it.
uint64_t standInBlock(const void *address) {
  CUdeviceptr base;
  Allocation found;
  struct stat file = {};
  if (!findAllocation(reinterpret_cast<CUdeviceptr>(address), &base, &found) || fstat(found.fd, &file) != 0)
    return 0;
  return file.st_ino;
}

/// For tests: what is allocated now, in the order of addresses; at most `most`. Gives how many there are.
int64_t standInListMemory(StandInMemory *out, int64_t most) {
  std::scoped_lock lock(memoryMutex);
  for (int64_t number = 0; const auto &[address, allocation] : allocations())
    if (number++ < most)
      *out++ = {address, allocation.sizeBytes, allocation.device, toAlias(address)};
  return int64_t(allocations().size());
}
}
