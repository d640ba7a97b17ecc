// Memory regions of the stand-in.
#include "StandIn.h"

#include <sys/mman.h>
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

int registerRegion(fid *handle, const void *memory, size_t sizeBytes, uint64_t access, uint64_t offset, uint64_t key,
                   uint64_t flags, fid_mr **opened, void *) {
  Domain &domain = *reinterpret_cast<Domain *>(handle);
  Inside inside(domain);
  const Provider &provider = *domain.provider;
  constexpr uint64_t anyAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  if (!memory || sizeBytes == 0 || offset != 0 || flags != 0 || access == 0 || (access & ~anyAccess))
    return -FI_EINVAL;
  if (provider.memoryModes & FI_MR_PROV_KEY)
    key = domain.nextKey += 0x10001;
  else if (key >> (8 * provider.keyBytes) != 0)
    return -FI_EKEYREJECTED;
  else if (key >= provider.numFastKeys)
    ++standInControl()->numSlowKeys;
  if (domain.regions.contains(key))
    return -FI_ENOKEY;
  if ((provider.memoryModes & FI_MR_ALLOCATED) && !isAllocated(memory, sizeBytes))
    return -FI_EFAULT;
  auto *region = new Region;
  region->provider = &provider;
  region->memory = static_cast<std::byte *>(const_cast<void *>(memory));
  region->sizeBytes = sizeBytes;
  region->access = access;
  region->domain = &domain;
  region->handle.fid.ops = &regionFidOps;
  region->handle.key = key;
  region->handle.mem_desc = region;
  domain.regions[key] = region;
  ++standInControl()->numRegions;
  standInControl()->numTargets += access & FI_REMOTE_WRITE ? 1 : 0;
  *opened = &region->handle;
  return 0;
}

} // namespace

fi_ops_mr *regionOps() {
  static fi_ops_mr ops = {sizeof(fi_ops_mr), registerRegion, nullptr, nullptr};
  return &ops;
}

} // namespace standin
