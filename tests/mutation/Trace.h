// What a channel program does on a mesh, to see whether two programs do the same. Used by the tests of this folder.
#pragma once

#include "ir/Kolo.h"

#include <vector>

namespace kolo::mutation {

/// A number for all that the ranks signal, wait for, make and move, with every root, without the arithmetic that leads
/// to it. Two programs of one context that have the same trace run alike. Looks at one lane of two: of programs whose
/// lanes differ only in the part that they move.
using TraceHash = std::pair<uint64_t, uint64_t>;
TraceHash traceOf(ProgramOp program, llvm::ArrayRef<int64_t> mesh);

} // namespace kolo::mutation
