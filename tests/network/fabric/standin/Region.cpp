// Memory regions of the stand-in.
#include "StandIn.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace standin {
namespace {

/// Whether every page of the memory exists.
bool isAllocated(const void *memory, size_t sizeBytes) {
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory) & ~(page - 1);
  uintptr_t end = reinterpret_cast<uintptr_t>(memory) + sizeBytes;
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  if (mincore(reinterpret_cast<void *>(begin), end - begin, pages.data()) != 0)
    return false;
  for (unsigned char one : pages)
    if (!(one & 1))
      return false;
  return true;
}

/// Whether a device still reads a source in the region.
bool isInUse(const Region &region) {
  for (const auto &[address, target] : endpoints())
    for (const Transfer &transfer : target->arriving)
      if (transfer.described == &region && !transfer.isCopied)
        return true;
  return false;
}

int closeRegion(fid *handle) {
  auto *region = reinterpret_cast<Region *>(handle);
  {
    Inside inside(*region->domain);
    standInControl()->numClosedInUse += isInUse(*region) ? 1 : 0;
    if (region->endpoint)
      --region->endpoint->numBound;
    region->domain->regions.erase(region->handle.key);
    --standInControl()->numRegions;
    standInControl()->numTargets -= region->access & FI_REMOTE_WRITE ? 1 : 0;
  }
  delete region;
  return 0;
}

int bindRegion(fid *handle, fid *endpoint, uint64_t flags) {
  auto *region = reinterpret_cast<Region *>(handle);
  if (!(region->provider->memoryModes & FI_MR_ENDPOINT) || region->isEnabled || region->endpoint || flags != 0)
    return -FI_EINVAL;
  region->endpoint = reinterpret_cast<Endpoint *>(endpoint);
  ++region->endpoint->numBound;
  return 0;
}

int enableRegion(fid *handle, int command, void *) {
  auto *region = reinterpret_cast<Region *>(handle);
  if (command != FI_ENABLE || !region->endpoint || region->isEnabled)
    return -FI_EINVAL;
  region->isEnabled = true;
  return 0;
}

fi_ops regionFidOps = {sizeof(fi_ops), closeRegion, bindRegion, enableRegion, nullptr, nullptr, nullptr};

/// What is asked for, in one of two ways.
struct Wanted {
  const void *memory = nullptr;
  size_t sizeBytes = 0;
  uint64_t access = 0, key = 0;
  int gpu = -1;
};

int registerWanted(Domain &domain, Wanted wanted, fid_mr **opened) {
  const Provider &provider = *domain.provider;
  constexpr uint64_t anyAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  if (!wanted.memory || wanted.sizeBytes == 0 || wanted.access == 0 || (wanted.access & ~anyAccess))
    return -FI_EINVAL;
  if (provider.memoryModes & FI_MR_PROV_KEY)
    wanted.key = domain.nextKey += 0x10001;
  else if (wanted.key >> (8 * provider.keyBytes) != 0)
    return -FI_EKEYREJECTED;
  else if (wanted.key >= provider.numFastKeys)
    ++standInControl()->numSlowKeys;
  if (domain.regions.contains(wanted.key))
    return -FI_ENOKEY;
  if (wanted.gpu < 0 && domain.hasGpus && gpus().deviceAt(wanted.memory, wanted.sizeBytes) >= 0)
    return -FI_EFAULT;
  if (wanted.gpu < 0 && (provider.memoryModes & FI_MR_ALLOCATED) && !isAllocated(wanted.memory, wanted.sizeBytes))
    return -FI_EFAULT;
  auto *region = new Region;
  region->provider = &provider;
  region->memory = static_cast<std::byte *>(const_cast<void *>(wanted.memory));
  region->sizeBytes = wanted.sizeBytes;
  region->access = wanted.access;
  region->gpu = wanted.gpu;
  region->domain = &domain;
  region->handle.fid.ops = &regionFidOps;
  region->handle.key = wanted.key;
  region->handle.mem_desc = region;
  domain.regions[wanted.key] = region;
  ++standInControl()->numRegions;
  standInControl()->numTargets += wanted.access & FI_REMOTE_WRITE ? 1 : 0;
  *opened = &region->handle;
  return 0;
}

int registerRegion(fid *handle, const void *memory, size_t sizeBytes, uint64_t access, uint64_t offset, uint64_t key,
                   uint64_t flags, fid_mr **opened, void *) {
  Domain &domain = *reinterpret_cast<Domain *>(handle);
  Inside inside(domain);
  return offset == 0 && flags == 0 ? registerWanted(domain, {memory, sizeBytes, access, key}, opened) : -FI_EINVAL;
}

/// As in libfabric's headers from 1.20 on.
struct DmaBuf {
  int fd;
  uint64_t offset;
  size_t sizeBytes;
  void *base;
};

/// Whether the memory is a GPU's, and may be registered.
int checkGpu(const Wanted &wanted) {
  const char *refused = std::getenv("STAND_IN_REFUSED_GPU");
  bool isRefused = wanted.gpu == standInControl()->refusedGpu || (refused && wanted.gpu == std::atoi(refused));
  return isRefused ? -FI_EIO : wanted.gpu < 0 ? -FI_EFAULT : 0;
}

/// Memory of GPUs: by its address, of the interface and the device that it says, or by a dma-buf.
int registerByAttributes(fid *handle, const fi_mr_attr *attributes, uint64_t flags, fid_mr **opened) {
  constexpr uint64_t byDmaBuf = uint64_t(1) << 40;
  Domain &domain = *reinterpret_cast<Domain *>(handle);
  Inside inside(domain);
  if (!domain.hasGpus || attributes->iov_count != 1 || attributes->offset != 0 || (flags & ~byDmaBuf))
    return -FI_EINVAL;
  if (flags && !domain.takesDmaBufs)
    return -FI_EINVAL;
  Wanted wanted = {attributes->mr_iov->iov_base, attributes->mr_iov->iov_len, attributes->access,
                   attributes->requested_key};
  if (flags) {
    const auto &file = *reinterpret_cast<const DmaBuf *>(attributes->mr_iov);
    wanted.memory = static_cast<const std::byte *>(file.base) + file.offset;
    wanted.sizeBytes = file.sizeBytes;
    struct stat info = {};
    if (fstat(file.fd, &info) != 0 || info.st_ino != gpus().fileOf(wanted.memory))
      return -FI_EBADF;
  }
  wanted.gpu = gpus().deviceAt(wanted.memory, wanted.sizeBytes);
  const bool isDevice =
      attributes->iface == FI_HMEM_CUDA ? wanted.gpu == attributes->device.cuda : attributes->iface == FI_HMEM_ROCR;
  if (!isDevice)
    return -FI_EINVAL;
  if (int refused = checkGpu(wanted))
    return refused;
  ++(flags ? standInControl()->numDmaBufs : standInControl()->numByAddress);
  return registerWanted(domain, wanted, opened);
}

} // namespace

fi_ops_mr *regionOps() {
  static fi_ops_mr ops = {sizeof(fi_ops_mr), registerRegion, nullptr, registerByAttributes};
  return &ops;
}

} // namespace standin
