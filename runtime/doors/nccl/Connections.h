// Connections: how the ranks of a new communicator learn of each other, and what carries their calls.
#pragma once

#include "Members.h"

namespace kolo::nccl {

/// What this rank says of itself. `isNonBlocking`: its communicator.
Note ownNote(bool isNonBlocking);

/// Gives the member its carrier, or says in `whyNot` why it has none; the same on all ranks. Blocks until all ranks
/// have come here. `board`: null if this rank has none. Not Ok: ranks of several hosts could not compare themselves.
/// Then the real library has aborted the communicator.
runtime::Status connect(Member &member, Board *board);

} // namespace kolo::nccl
