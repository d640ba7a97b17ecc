// Whether a statement reads memory that it also writes. Used by PlaceStaging.
#ifndef KOLO_COMPILER_SCHEDULE_HAZARDS_H
#define KOLO_COMPILER_SCHEDULE_HAZARDS_H

#include "compiler/check/Unfold.h"

#include "llvm/ADT/SetVector.h"

namespace kolo {

/// The statements that, on one of the meshes, in one execution, write a chunk on some rank that they also read there.
///
/// Looks at every rank, or, along dimensions in which the statement is the same from every rank's point of view, at one. A
/// statement that would take more than `maxMoves` moves to look at counts as having a hazard.
mlir::FailureOr<llvm::SetVector<mlir::Operation *>> findHazards(ChoreographyOp choreography, int64_t maxMoves);

} // namespace kolo

#endif
