// What a machine file says of the candidates of `kolo tune`: see Predictor.h.
#pragma once

#include "tools/tune/Candidates.h"
#include "tools/tune/Predictor.h"

#include "compiler/cost/machine/Machine.h"

namespace kolo::tools {

/// Simulates every candidate at all sizes, which are bytes of the larger buffer of one rank, with one lane per rank and
/// ranks on the machine's first devices. Published inputs cost a copy through a rank's lane beside it. The result
/// answers for these sizes. For windows, it gives all candidates. For ordinary memory, it gives the best of every way
/// in which ranks reach each other's data, since no model has the runtime's own copies and the kernel's. These ways
/// are: inputs are published; peers access inputs or outputs; they access scratch memory only. Throws ToolError (Usage)
/// where the mesh does not fit the machine.
Predictor predictorFor(const cost::Machine &machine, const Candidates &candidates, const runtime::Mesh &mesh,
                       const std::vector<int64_t> &sizes);

} // namespace kolo::tools
