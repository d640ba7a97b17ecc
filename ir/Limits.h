// The largest mesh. For everything that takes one, with or without MLIR.
#pragma once

#include <cstdint>
#include <span>

namespace kolo {

/// tools/compile/Kinds.cpp ties it to KOLO_MAX_MESH_RANKS.
inline constexpr int64_t maxMeshRanks = 1048576;

/// Whether a mesh of these sizes, all positive, has at most `maxMeshRanks` ranks. Never overflows.
constexpr bool hasFewEnoughRanks(std::span<const int64_t> sizes) {
  int64_t most = maxMeshRanks;
  for (int64_t size : sizes)
    most /= size;
  return most > 0;
}

} // namespace kolo
