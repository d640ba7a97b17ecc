// The moves of a choreography on one mesh, for an export.
#pragma once

#include "compiler/export/Moves.h"
#include "ir/Kolo.h"

namespace kolo::msccl {

/// Emits an error at the author's line, and fails, if the choreography does what RCCL's XML cannot say: a collective
/// with a root, one over a part of the mesh, buffers with a codec. The choreography has been checked on this mesh or a
/// smaller one.
mlir::FailureOr<Moves> collectMoves(ChoreographyOp choreography, llvm::ArrayRef<int64_t> mesh);

} // namespace kolo::msccl
