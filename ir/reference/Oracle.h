// What a collective must give, straight from its definition: input data for tests, and the outputs that belong to it.
#pragma once

#include "ir/reference/SimulatedCall.h"

#include <optional>

namespace kolo::reference {

/// Fills the inputs with positive integers that depend on rank, element and `salt`, and are never the same on every
/// rank of a group. Their sums and products are exact in any order and in each type, for groups of up to 64 ranks
/// (128 outside bf16), so results compare bitwise. 8-bit integers may wrap. Of floating-point types, an eighth of the
/// elements is special: all members have zeros of either sign, or integers of either sign, or some members have
/// infinities or NaNs. Their reductions are the same in any order, too.
void tagInput(SimulatedCall &simulated, uint64_t salt = 0);

/// The output of a rank, from all inputs, reducing in increasing order of member numbers. Nothing when the collective
/// leaves that output as it was: reduce and gather, except at the root, and exscan on the first rank of the group.
std::optional<Bytes> expectedOutput(const SimulatedCall &simulated, int64_t rank);

/// An error that names the first element, over all ranks, that differs from `expectedOutput`; where that gives nothing,
/// the output must still be poison.
llvm::Error checkOutputs(const SimulatedCall &simulated);
/// The same for one rank's output, `actual`.
llvm::Error checkOutput(const SimulatedCall &simulated, int64_t rank, const Bytes &actual);

} // namespace kolo::reference
