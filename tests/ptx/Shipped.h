// The shipped algorithms, compiled to PTX in this process and packed for devices of the executor.
#pragma once

#include "../gpu/Support.h"

#include "targets/DeviceCode.h"

namespace kolo::ptx {

/// An algorithm with a protocol, as in tests/gpu/Programs.h, for its meshes of 2, 4 and 8 ranks. "staged": in bulk,
/// over a staged network.
struct Shipped {
  std::string algorithm, protocol;
};

/// Every algorithm with every protocol that it has, with codecs or without.
std::vector<Shipped> allShipped();

/// By rank: on which host it is, of a program over a staged network, which is the slowest dimension. Empty for another
/// one.
std::vector<int> hostsFor(const Shipped &shipped, const runtime::Mesh &mesh, int ranksPerHost);

/// What `loadAlgorithm` compiles from now on; at first f32 and bf16, and sums.
void setDeviceOptions(const DeviceOptions &options);

} // namespace kolo::ptx
