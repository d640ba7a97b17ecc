// What index arithmetic gives for a range of a loop's indices, without executing it for each of them. Private to the
// closed form.
#pragma once

#include "compiler/model/IndexEvaluator.h"

namespace kolo::cost {

/// Bounds of values, by interval arithmetic. A value's bounds hold for all indices of the loop; they may be wider than
/// the values are.
class IndexRanges {
public:
  struct Range {
    int64_t least = INT64_MIN, most = INT64_MAX; // as wide as this: nothing is known
    bool isOne() const { return least == most; }
    bool isKnown() const { return least != INT64_MIN && most != INT64_MAX; }
  };

  /// Values that are not executed here have the number that the evaluator has for them.
  IndexRanges(IndexEvaluator &evaluator, mlir::Value index, Range range) : evaluator(evaluator) {
    ranges[evaluator.registerNumber(index)] = range;
  }

  /// Executes one arithmetic op; does nothing for an op that computes no index. What is wrong in it for some index is
  /// not reported: nothing is known of its result then.
  void execute(mlir::Operation *op);
  bool isOne(mlir::Value value) const { return of(evaluator.registerNumber(value)).isOne(); }

private:
  Range of(unsigned number) const;
  Range compute(const IndexEvaluator::Instruction &instruction) const;

  IndexEvaluator &evaluator;
  llvm::DenseMap<unsigned, Range> ranges; // by register
};

} // namespace kolo::cost
