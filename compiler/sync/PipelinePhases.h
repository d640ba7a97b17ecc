// What InferSynchronisation changes in the pipeline that PlacePipeline has made: where ranks wait, which phase comes
// first in a round, and how many slices the checker looks at.
#pragma once

#include "compiler/sync/PlaceCredit.h"

namespace kolo {

/// Whether an op is the condition of a phase.
bool isPhase(mlir::Operation *op);

/// Moves the wait of a push from its phase to the beginning of the next phase. False, and nothing moves, if there is no
/// such phase.
bool deferWait(const ProjectedTransfer &transfer);

/// Lets every round begin with the first phase. False, and nothing moves, if there is no pipeline, or if one of its
/// phases waits for peers after it has moved something.
bool putEarlierPhasesFirst(ProgramOp program);

/// The number of slices; nothing where there is no pipeline.
std::optional<int64_t> numSlices(ProgramOp program);

/// So few slices that there are only a few rounds in which all phases have one. Of a pipeline only.
int64_t fewSlices(ProgramOp program);

/// Of a pipeline only.
void setNumSlices(ProgramOp program, int64_t number);

} // namespace kolo
