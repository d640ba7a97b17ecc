// Credits: what makes a transfer wait until its peer is ready for it. Used by the passes that infer synchronisation.
#pragma once

#include "compiler/check/Verdict.h"

namespace kolo {

/// Kinds of credit, weakest first. A push has its receiver give the credit, a pull its reader.
///   Lag        before iteration k + D of a loop, a sender waits until its receiver is through with iteration k
///   Exit       before the end of the program, the owner of what is pulled waits until it has been read for the last
///   time Entry      before its first put, a sender waits until its receiver has entered this invocation Statement  a
///   put waits until all that precedes its statement is complete at the receiver; the owner of what is pulled
///              ends the statement when it has been read
enum class Credit { None, Lag, Exit, Entry, Statement };

struct CreditChoice {
  Credit kind = Credit::None;
  int64_t lag = 0; // of Lag: D, at least 1
  bool operator==(const CreditChoice &) const = default;
};
llvm::StringRef nameOf(Credit kind);

/// A transfer's ends in one rank's text, as Project leaves them.
struct ProjectedTransfer {
  uint64_t semaphore;
  SignalOp signal; // "the data is there"
  WaitOp wait;
  mlir::Operation *move; // a put, or a get or reduce that reads its peer's memory
  bool isPull() const { return !mlir::isa<PutOp>(move); }
};

/// All transfers of a program that Project made, by semaphore, whatever credits they have got.
llvm::SmallVector<ProjectedTransfer> findTransfers(ProgramOp program);

/// The credits that a transfer can have, weakest first; None and Statement are always among them.
llvm::SmallVector<CreditChoice> possibleCredits(const ProjectedTransfer &transfer);

/// Erases an op, and the loops and conditions around it that do nothing without it.
void eraseWithEmptyNest(mlir::Operation *op);

/// Where a program's part begins that has to do with peers.
mlir::Block::iterator afterEnter(ProgramOp program);

/// The end of a program, but for the division of an average, which overwrites what peers may still read.
mlir::Block::iterator endBeforeDivision(ProgramOp program);

/// Rebuilds the loops and conditions around a wait, inside of `outer`, in front of `place`, with the wait in them, and
/// erases the wait where it was.
void moveWait(WaitOp wait, mlir::Operation *outer, mlir::Operation *place);

/// Adds one of its possible credits to a transfer, on a semaphore that nothing else uses.
void placeCredit(const ProjectedTransfer &transfer, const CreditChoice &choice, uint64_t semaphore);

} // namespace kolo
