// GpuAccess: how one device of libfabric reaches memory of GPUs.
#pragma once

#include "network/Transport.h"
#include "network/fabric/Library.h"
#include "network/fabric/ProviderRules.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>

namespace kolo::runtime::fabric {

/// How a region is registered.
struct KeyedAccess {
  uint64_t access = 0, key = 0;
};

class GpuAccess {
public:
  /// All three must live as long as this object.
  GpuAccess(const Library &lib, const ProviderRules &providerRules, const fi_info &ofDevice)
      : library(lib), rules(providerRules), info(ofDevice) {}

  bool isReached() const { return info.caps & FI_HMEM; }
  /// Whether this rank has it read, by its own address.
  bool readsBack() const { return isReached() && rules.gpu.read == GpuRead::BySelf; }
  /// Called before the endpoint is enabled.
  void setOptions(fid_ep &endpoint);
  /// InvalidArgument, SystemError: why such memory is not registered.
  Status check(const RegionOwner &owner) const;
  /// Of a GPU or of the host. Returns what libfabric does.
  int registerMemory(fid_domain &domain, const Region &region, const KeyedAccess &how, fid_mr **made) const;

  fi_addr_t self = FI_ADDR_UNSPEC; // this rank's own endpoint

private:
  Status set(fid_ep &endpoint, int option, const void *value, size_t sizeBytes) const;

  const Library &library;
  const ProviderRules &rules;
  const fi_info &info;
  Status ownCopies, cudaCopies; // not Ok: the provider would copy by itself, or by calls of CUDA
};

} // namespace kolo::runtime::fabric
