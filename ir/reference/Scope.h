// The integer values that one simulated rank (or, in a choreography, all of them together) has computed so far.
#pragma once

#include "ir/reference/SimulatedCall.h"

#include "llvm/ADT/DenseMap.h"

namespace kolo::reference {

/// An error that names where the op came from, the op, and, if one is given, the rank.
llvm::Error errorAt(mlir::Operation *op, const llvm::Twine &message);

class Scope {
public:
  /// `rank` and `lane` are what kolo.chan.coord and kolo.chan.lane are about; -1 in a choreography. Invocations are
  /// numbered from 0.
  explicit Scope(const SimulatedCall &simulated, int64_t rank = -1, int64_t lane = -1, int64_t invocation = 0)
      : invocation(invocation), simulated(simulated), rank(rank), lane(lane),
        coordinates(rank < 0 ? std::vector<int64_t>() : coordinatesOf(simulated, rank)) {}

  /// Computes the results of a pure op on integers. False, and nothing done, when the op is not one.
  llvm::Expected<bool> evaluate(mlir::Operation *op);

  /// Integers are kept sign-extended from their type's width; index has 64 bits.
  int64_t operator[](mlir::Value value) const { return values.lookup(value); }
  std::vector<int64_t> operator[](mlir::ValueRange range) const;
  void bind(mlir::Value value, int64_t integer);

  /// `errorAt`, with this scope's rank and lane.
  llvm::Error fail(mlir::Operation *op, const llvm::Twine &message) const;

  const int64_t invocation;

private:
  llvm::Expected<bool> evaluateKolo(mlir::Operation *op);
  llvm::Expected<bool> evaluateArithmetic(mlir::Operation *op);

  const SimulatedCall &simulated;
  int64_t rank, lane;
  std::vector<int64_t> coordinates;
  llvm::DenseMap<mlir::Value, int64_t> values;
};

} // namespace kolo::reference
