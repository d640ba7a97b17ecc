// The changes to channel programs that need more than erasing or moving one op. Private to the mutation engine.
#pragma once

#include "ir/Kolo.h"

namespace kolo::mutation {

/// The put that a signal announces: the last op before it, in the same block, that puts to or signals the same peer.
/// Null when that is no put.
PutOp putBefore(SignalOp signal);

/// Every execution of the wait takes the place of the next one for the same peer, in the innermost loop that is not
/// over peers. The last one runs at the end of the program or, inside of two such loops, after the inner one. Without
/// such a loop, all executions move to the end of the program.
void makeLate(WaitOp wait);

/// The op does nothing on the last rank.
void dropOnLastRank(mlir::Operation *op);
/// The same for a wait; a signal is dropped where it would go to the last rank.
void dropForLastRank(mlir::Operation *signalOrWait);

/// The peer of an op becomes the next rank, after the last one rank 0. False when the op has no peer.
bool shiftPeer(mlir::Operation *op);

/// What a rank signalled, put, or let be pulled under this semaphore with rank r, it does with rank r + 1; the
/// receivers wait and pull accordingly. Other semaphores, such as credits, stay. False when nothing is signalled or
/// waited for.
bool shiftReceivers(ProgramOp program, uint64_t semaphore);

} // namespace kolo::mutation
