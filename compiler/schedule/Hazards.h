// Whether a statement reads memory that it also writes. Used by PlaceStaging.
#pragma once

#include "compiler/model/Unfold.h"

#include "llvm/ADT/SetVector.h"

namespace kolo {

/// The statements that, on one of the meshes, in one execution, write a chunk on some rank that they also read there.
///
/// Exact on every mesh for statements that do not depend on the root, if `maxMoves` moves, and ranks without a move,
/// are enough to tell. Along a dimension in which all ranks see the same statement, one rank stands for all. Statements
/// that depend on the root are run with every root on the mesh that CheckChoreography used: see representativeMesh.
mlir::FailureOr<llvm::SetVector<mlir::Operation *>> findHazards(ChoreographyOp choreography, int64_t maxMoves);

} // namespace kolo
