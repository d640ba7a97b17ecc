// How often a choreography goes through its loops on one mesh, counted without doing so where that can be. Asked before
// anything runs through one.
#pragma once

#include "compiler/model/IndexEvaluator.h"

namespace kolo {

/// Numbers that do not overflow: UINT64_MAX stands for all that are larger.
struct ExecutionCount {
  uint64_t executions = 0; // of statements; a round of a loop without any counts as one
  uint64_t moves = 0;      // of chunks, to the receivers of one rank if conditions hold; at least one per execution
  bool isWithin(const ExecutionCount &most) const { return executions <= most.executions && moves <= most.moves; }
};

struct TooManyExecutions {
  mlir::Operation *loop; // the innermost one with which there are more than allowed
  ExecutionCount count;
  bool isExact; // else there are so many at least
};

/// On the evaluator's mesh. Nothing where no more are needed, and where arithmetic fails, which whoever runs through
/// the choreography reports.
std::optional<TooManyExecutions> findTooManyExecutions(ChoreographyOp choreography, IndexEvaluator &evaluator,
                                                       const ExecutionCount &most);

/// Fails with a diagnostic at a loop where running through the choreography for all ranks, with each of so many roots,
/// would take more than some ten seconds.
mlir::LogicalResult checkExecutions(ChoreographyOp choreography, IndexEvaluator &evaluator, int64_t numRoots);

/// Rounds of a loop from `lower` to `upper`; `step` is positive.
uint64_t countRounds(int64_t lower, int64_t upper, int64_t step);

} // namespace kolo
