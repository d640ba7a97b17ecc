// Runs programs of both phases on simulated ranks. The oracle of every test; shares no code with the compiler.
#pragma once

#include "ir/reference/SimulatedCall.h"

#include <functional>

namespace kolo::reference {

/// Runs every statement to completion on all ranks before the next. A statement reads all its sources before it writes
/// any destination. Senders that reduce into one place do so in increasing order of their ranks. An average's sum is
/// divided at the end. Results are in `simulated.outputs`. Any program gives an answer or an error that names the
/// op's location and the ranks; two messages of one statement that overwrite the same elements are such an error.
llvm::Error interpretChoreography(ChoreographyOp choreography, SimulatedCall &simulated);

/// The same for the call that ranks make: averages of f16 and bf16 are computed in f32, and rounded where they end.
llvm::Error interpretAsCalled(ChoreographyOp choreography, SimulatedCall &simulated);

/// Several invocations back to back. A rank starts the next one when all its own lanes ended the last, whatever others
/// do.
struct ChannelOptions {
  int64_t numInvocations = 1;
  /// At the moment when a rank ends an invocation, its output being what the application would see.
  std::function<void(int64_t rank, int64_t invocation, const Bytes &output)> atEnd;
  /// At some later moment, just before a rank starts invocation 1 or later: the application rewrites its buffers.
  std::function<void(int64_t rank, int64_t invocation, Bytes &input, Bytes &output)> beforeNext;
  /// Report signals that nobody waited for.
  bool requireBalance = true;
};

/// Runs N ranks of `simulated.numLanes` lanes in one legal interleaving, chosen by the seed. The memory model is that
/// of ir/README.md: puts and signals arrive at random later moments. Leaves in `simulated.outputs` what every rank's
/// output was when that rank ended its last invocation. Errors: as above, deadlock, and unbalanced signals.
llvm::Error interpretChannel(ProgramOp program, SimulatedCall &simulated, uint64_t seed,
                             const ChannelOptions &options = {});

} // namespace kolo::reference
