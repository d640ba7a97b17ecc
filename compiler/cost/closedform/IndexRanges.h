// What index arithmetic gives for a range of a loop's indices, or of ranks' coordinates, without executing it for each
// of them. Private to the closed form.
#pragma once

#include "compiler/model/IndexEvaluator.h"

namespace kolo::cost {

/// Bounds of values, by arithmetic on intervals and on remainders. They hold for all indices; they may be wider than
/// the values are.
class IndexRanges {
public:
  struct Range {
    int64_t least = INT64_MIN, most = INT64_MAX; // as wide as this: nothing is known
    int64_t step = 1;                            // values are the least one and multiples of this
    bool isOne() const { return least == most; }
    bool isKnown() const { return least != INT64_MIN && most != INT64_MAX; }
  };

  /// Values that are not executed here have the number that the evaluator has for them.
  IndexRanges(IndexEvaluator &evaluator, mlir::Value index, Range range)
      : evaluator(evaluator), index(evaluator.registerNumber(index)), ranges(evaluator.numRegisters()),
        rounds(evaluator.numRegisters()) {
    restart(range);
  }
  /// As a new one for another range of the same indices.
  void restart(Range range) {
    cut = 1;
    ++round;
    put(index, range);
  }

  /// Executes one arithmetic op; does nothing for an op that computes no index. What is wrong in it for some index is
  /// not reported: nothing is known of its result then.
  void execute(mlir::Operation *op);
  void execute(const IndexEvaluator::Instruction &instruction);
  bool isOne(mlir::Value value) const { return of(value).isOne(); }
  Range of(mlir::Value value) const { return of(evaluator.registerNumber(value)); }
  /// In how many classes, by their remainders, the indices would have to be cut for a remainder or quotient to be known
  /// better; a prime. 1: that would not help.
  int64_t helpfulCut() const { return cut; }

private:
  Range of(unsigned number) const;
  void put(unsigned number, Range range) {
    ranges[number] = range;
    rounds[number] = round;
  }
  Range compute(const IndexEvaluator::Instruction &instruction);
  void noteCut(Range value, int64_t divisor);

  IndexEvaluator &evaluator;
  unsigned index;            // its register
  std::vector<Range> ranges; // by register
  std::vector<unsigned> rounds;
  unsigned round = 0; // those of this one are known
  int64_t cut = 1;
};

} // namespace kolo::cost
