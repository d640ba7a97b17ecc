// Steps through a program: does its arithmetic and control flow, and stops at every op that does something.
#pragma once

#include "ir/reference/Scope.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kolo::reference {

class Walker {
public:
  Walker(mlir::Block &body, Scope &scope) : scope(scope) { frames.push_back({&body, body.begin(), 0, 0, 0}); }

  /// The next op that is neither arithmetic nor control flow, null at the end. Its operands are in the scope then.
  llvm::Expected<mlir::Operation *> next();

private:
  struct Frame {
    mlir::Block *block;
    mlir::Block::iterator next;
    int64_t counter, end, step; // of a loop's body
  };
  llvm::Error enter(mlir::scf::ForOp loop);
  void enter(mlir::scf::IfOp branch);
  void leave(mlir::scf::YieldOp yield);
  void bind(mlir::ValueRange targets, mlir::ValueRange sources);

  Scope &scope;
  std::vector<Frame> frames;
  int64_t numSteps = 0;
};

} // namespace kolo::reference
