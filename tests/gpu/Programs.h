// The compiled algorithms that the tests run on devices. They come from the compiler in this process
// (CompiledPrograms.cpp) or, where there is no compiler, from files that were packed elsewhere (PackedPrograms.cpp).
#pragma once

#include "kolo/runtime/Plugin.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::test {

/// Those that there are with a protocol: "bulk", "ll" or "ll128"; those with codecs: "coded" in bulk, "coded-ll" or
/// "coded-ll128"; or in bulk "stochastic": one whose codec is. In an order that does not change.
std::vector<std::string> algorithmNames(const std::string &protocol);

/// One of them, for its meshes of 2, 4 and 8 ranks, all types and all reductions. It is for the device that there is
/// or, if that must not be touched yet, for an architecture of which it runs the code. Throws.
runtime::Plugin loadAlgorithm(const std::string &name, const std::string &protocol,
                              const std::string &architecture = "");

/// The sizes of these meshes, slowest dimension first, for an algorithm with so many dimensions.
inline std::vector<std::vector<int64_t>> deviceMeshes(size_t numDims) {
  switch (numDims) {
  case 1:
    return {{2}, {4}, {8}};
  case 2:
    return {{1, 2}, {2, 2}, {2, 4}};
  case 3:
    return {{1, 1, 2}, {1, 2, 2}, {2, 2, 2}};
  default:
    return {{1, 1, 1, 2}, {1, 1, 2, 2}, {1, 2, 2, 2}};
  }
}

} // namespace kolo::test
