// Credits: signals that tell a rank that its peer is ready for a transfer. Used by the passes that infer
// synchronisation.
#pragma once

#include "ir/Kolo.h"

#include <optional>

namespace kolo {

struct CreditChoice {
  std::optional<CreditKind> kind = {}; // none: the weakest choice
  int64_t lag = 0;                     // of CreditKind::Lag: D, at least 1
  bool operator==(const CreditChoice &) const = default;
};

/// The two ends of a transfer in one rank's text, as VerifyProjected states them (projected_c3, projected_c4).
struct ProjectedTransfer {
  uint64_t semaphore;
  SignalOp signal; // "the data is there"
  WaitOp wait;
  mlir::Operation *move; // a put, or a get or reduce that reads its peer's memory
  bool isPull() const { return !mlir::isa<PutOp>(move); }
};

/// All transfers of a program that Project made, by semaphore, with or without credits.
llvm::SmallVector<ProjectedTransfer> findTransfers(ProgramOp program);

/// The credits that a transfer can have, weakest first. No credit and CreditKind::Statement are always among them.
llvm::SmallVector<CreditChoice> possibleCredits(const ProjectedTransfer &transfer);

/// Removes the marks of PlacePipeline, once synchronisation is settled.
void removePipelinePhases(ProgramOp program);

/// Erases an op, and the loops and conditions around it that do nothing without it.
void eraseWithEmptyNest(mlir::Operation *op);

/// The first op after `enter`; without one, the first op of the program.
mlir::Block::iterator afterEnter(ProgramOp program);

/// The end of a program, before the division of an average, which overwrites memory that peers may still read.
mlir::Block::iterator endBeforeDivision(ProgramOp program);

/// Moves a wait in front of `place`, with the loops and conditions around it that are inside of `outer`.
void moveWait(WaitOp wait, mlir::Operation *outer, mlir::Operation *place);

/// Adds one of its possible credits, not none, to a transfer, on a semaphore that nothing else uses.
void placeCredit(const ProjectedTransfer &transfer, const CreditChoice &choice, uint64_t semaphore);

} // namespace kolo
