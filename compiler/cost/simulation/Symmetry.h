// Where all nodes do the same at the same time, one simulated node stands for all. Used by Simulator. No MLIR here.
#pragma once

#include "compiler/cost/simulation/Simulator.h"

namespace kolo::cost {

/// A symmetry of the network that is one of the workload too: ranks that it moves to each other have one program, and
/// their peers move with them. Then they do everything at the same times, for max-min fair rates are unique.
std::optional<NetworkSymmetry> findSymmetry(const Workload &workload, const SimulatedNetwork &network);

/// Puts what a transfer takes on the resources that stand for those that it uses, each of them once.
void fold(const NetworkSymmetry &symmetry, std::vector<ResourceUse> &uses);

} // namespace kolo::cost
