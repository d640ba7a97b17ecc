// Copies an op to another place in a program together with the loops, conditions and index arithmetic that it needs
// there. Private to the mutation engine.
#pragma once

#include "ir/Kolo.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace kolo::mutation {

class Replant {
public:
  /// Everything is built where `builder` stands.
  explicit Replant(mlir::OpBuilder &builder) : builder(builder) {}

  /// Computes with `replacement` what was computed with `value`.
  void replace(mlir::Value value, mlir::Value replacement) { mapping.map(value, replacement); }

  /// Of this loop, only the last iteration is copied, and nothing when there is none.
  void takeLastOf(mlir::scf::ForOp loop) { lastOf = loop; }

  /// Called once. Copies `nest`, an op around or equal to each of `leaves`, which share a block; of its body only what
  /// leads to them.
  void plant(mlir::Operation *nest, llvm::ArrayRef<mlir::Operation *> leaves);

  /// The value at the builder's place: the value itself where it is visible and nothing that it needs was replaced,
  /// else a copy of its computation.
  mlir::Value at(mlir::Value value);

private:
  bool isVisible(mlir::Operation *definition) const;
  void plantLoop(mlir::scf::ForOp loop, llvm::ArrayRef<mlir::Operation *> leaves);
  void plantLast(mlir::scf::ForOp loop, llvm::ArrayRef<mlir::Operation *> leaves);
  void plantBranch(mlir::scf::IfOp branch, llvm::ArrayRef<mlir::Operation *> leaves);
  void plantLeaves(llvm::ArrayRef<mlir::Operation *> leaves);

  mlir::OpBuilder &builder;
  mlir::IRMapping mapping;
  mlir::scf::ForOp lastOf;
};

} // namespace kolo::mutation
