#include "network/fabric/GpuAccess.h"

#include "base/Error.h"

#include <sys/uio.h>

namespace kolo::runtime::fabric {
namespace {

/// FI_OPT_CUDA_API_PERMITTED and FI_MR_DMABUF, which older headers lack.
constexpr int cudaOption = 10;
constexpr uint64_t dmaBufFlag = uint64_t(1) << 40;

/// As libfabric 1.20 and later have it, whose header may be newer than the one at hand.
struct DmaBufOfRegion {
  int fd;
  uint64_t offset;
  size_t sizeBytes;
  void *base;
};

} // namespace

Status GpuAccess::set(fid_ep &endpoint, int option, const void *value, size_t sizeBytes) const {
  const int code = fi_setopt(&endpoint.fid, FI_OPT_ENDPOINT, option, value, sizeBytes);
  return code == 0 ? Status()
                   : error(StatusCode::SystemError, "provider {} would copy to memory of devices itself: {}",
                           rules.name, library.errorText(-code));
}

/// Such a copy may be a call of the GPU's library that waits for kernels, which wait for the copy.
void GpuAccess::setOptions(fid_ep &endpoint) {
  const int peerToPeer = FI_HMEM_P2P_REQUIRED;
  const bool isPermitted = false;
  if (isReached() && rules.gpu.hasPeerOption)
    ownCopies = set(endpoint, FI_OPT_FI_HMEM_P2P, &peerToPeer, sizeof(peerToPeer));
  if (isReached() && rules.gpu.hasCudaOption)
    cudaCopies = set(endpoint, cudaOption, &isPermitted, sizeof(isPermitted));
}

Status GpuAccess::check(const RegionOwner &owner) const {
  if (!isReached())
    return error(StatusCode::InvalidArgument, "provider {} was not opened for memory of devices", rules.name);
  return ownCopies.isOk() && owner.kind == RegionOwner::Kind::Cuda ? cudaCopies : ownCopies;
}

/// Of a GPU: by its dma-buf where that is possible, else by its address.
int GpuAccess::registerMemory(fid_domain &domain, const Region &region, const KeyedAccess &how, fid_mr **made) const {
  if (region.owner.kind == RegionOwner::Kind::Host)
    return fi_mr_reg(&domain, region.memory, region.sizeBytes, how.access, 0, how.key, 0, made, nullptr);
  fi_mr_attr attributes = {};
  attributes.iov_count = 1;
  attributes.access = how.access;
  attributes.requested_key = how.key;
  const bool isCuda = region.owner.kind == RegionOwner::Kind::Cuda;
  attributes.iface = isCuda ? FI_HMEM_CUDA : FI_HMEM_ROCR;
  attributes.device.cuda = isCuda ? region.owner.device : 0; // of ROCR the address tells the device
  const DmaBufOfRegion file = {region.owner.dmaBuf, 0, region.sizeBytes, region.memory};
  attributes.mr_iov = reinterpret_cast<const iovec *>(&file);
  if (region.owner.dmaBuf >= 0 && library.version() >= dmaBufVersion &&
      fi_mr_regattr(&domain, &attributes, dmaBufFlag, made) == 0)
    return 0;
  const iovec place = {region.memory, region.sizeBytes};
  attributes.mr_iov = &place;
  return fi_mr_regattr(&domain, &attributes, 0, made);
}

} // namespace kolo::runtime::fabric
