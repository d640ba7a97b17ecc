// Whether a statement reads memory that it also writes. Used by PlaceStaging.
#pragma once

#include "compiler/model/Unfold.h"

#include "llvm/ADT/SetVector.h"

namespace kolo {

/// The statements that, on one of the meshes, in one execution, write a chunk on some rank that they also read there.
///
/// Exact on every mesh for statements that do not depend on the root, as long as `maxMoves` moves suffice to tell: it
/// looks at one rank only along dimensions in which the statement is the same from every rank's point of view. Other
/// statements are looked at with every root on the mesh that CheckChoreography looked at: see representativeMesh.
mlir::FailureOr<llvm::SetVector<mlir::Operation *>> findHazards(ChoreographyOp choreography, int64_t maxMoves);

} // namespace kolo
