// From a structure that exploration found to a choreography, made of the building blocks that the shipped algorithms
// are made of.
#pragma once

#include "compiler/explore/Structure.h"
#include "kolo/dsl/Registry.h"

namespace kolo::tools {

/// Its body holds a copy of the structure. The collective is one that `explore::enumerate` has structures for.
dsl::Definition assemble(const explore::Structure &structure);

/// Rings as NCCL and RCCL run them, on a mesh of `node` and `gpu`: through the devices of a node in each of these
/// orders, then on to the next node, both ways. All-gather, reduce-scatter and all-reduce only.
dsl::Definition assembleRings(KoloCollective collective, std::vector<std::vector<int64_t>> rings);

} // namespace kolo::tools
