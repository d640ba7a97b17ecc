// Channel programs with one change each, for tests of what must notice the change. Used by the tests of this folder.
#pragma once

#include "ir/Kolo.h"

#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace kolo::mutation {

enum class MutantKind {
  DropSignal,       // one signal is gone
  DropWait,         // one wait is gone
  DropSemaphore,    // all signals and waits of one semaphore are gone: balanced, but nothing is ordered any more
  SignalBeforePut,  // a signal goes before the put that it announces
  LateWait,         // one wait runs one execution behind, the last one at the end of the program: still balanced
  SmallerScratch,   // a scratch buffer has one slot less along its first grid dimension; accesses wrap
  SharedSlot,       // slots 2k and 2k+1 of a scratch buffer become one
  OtherPeer,        // one put, signal, wait, get or pulled reduce is with the next rank
  OtherReceiver,    // all ops of one semaphore, and what moves under it, are with the receiver after the right one
  DoubleReduce,     // one reduce runs twice
  DropReduce,       // one reduce is gone
  DropCopy,         // one copy is gone
  DropPut,          // one put or get is gone
  DropFlush,        // one flush is gone
  DropDivide,       // one divide, which ends an average, is gone
  ShiftSource,      // a move reads one chunk further along one grid dimension
  ShiftDestination, // a move writes one chunk further along one grid dimension
  DropOnLastRank,   // one move or flush is gone on the last rank only, which breaks the symmetry of the ranks
  DropForLastRank,  // all signals of one semaphore to the last rank are gone, and its waits: balanced, not symmetric
};
inline constexpr size_t numMutantKinds = size_t(MutantKind::DropForLastRank) + 1;
/// The enumerator's own name.
llvm::StringRef nameOf(MutantKind kind);

struct Mutant {
  MutantKind kind;
  std::string what; // the number of the changed op in the program's order, the op, and where its author wrote it
  mlir::OwningOpRef<ProgramOp> program;
};

/// Every mutant of a program for any mesh, each with one change, in an order that only depends on the program. They
/// verify. On one mesh a mutant may do the same as the program, see `tracesOf`.
std::vector<Mutant> mutantsOf(ProgramOp program);

/// The lines that two programs do not have in common, as in a unified diff without context. Numbers of values are not
/// compared, since one change renumbers all that follow.
std::string differenceOf(ProgramOp before, ProgramOp after);

} // namespace kolo::mutation
