// InferHandshake: makes every transfer wait for both sides.
//   Before:  put to %r; signal 0 to %r; ...; wait 0 from %s
//   After:   signal 1 to %s; ...; wait 1 from %r; put to %r; signal 0 to %r; ...; wait 0 from %s
//   Before:  signal 0 to %r; ...; wait 0 from %s; reduce from %s
//   After:   signal 0 to %r; ...; wait 0 from %s; reduce from %s; signal 1 to %s; ...; wait 1 from %r
// A put thus starts after everything before the statement is complete at the receiver, and a statement ends after every
// peer has read what it reads here: between statements nobody touches this rank's memory. Signals of a statement precede
// its waits on every rank, so that statement after statement completes. Plain, and sound for any program that Project
// makes; it needs one more semaphore per transfer. Requires channel form as Project leaves it, and leaves other programs
// alone: their authors wrote all of their synchronisation.
#include "compiler/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_INFERHANDSHAKE
#include "compiler/Passes.h.inc"

namespace {

/// The two ends of a transfer in one rank's text.
struct Ends {
  SignalOp signal;
  WaitOp wait;
};

/// The ops around and including `op` that are in the same block as the ancestor of `other`.
Operation *ancestorBeside(Operation *op, Operation *other) {
  for (; op; op = op->getParentOp())
    if (op->getBlock()->findAncestorOpInBlock(*other))
      return op;
  llvm_unreachable("both are in one program");
}

struct InferHandshake : impl::InferHandshakeBase<InferHandshake> {
  void runOnOperation() override {
    if (!getOperation()->removeAttr(needsHandshakeName))
      return;
    llvm::MapVector<uint64_t, Ends> transfers;
    getOperation().walk([&](Operation *op) {
      if (auto signal = dyn_cast<SignalOp>(op))
        transfers[signal.getSemaphore()].signal = signal;
      if (auto wait = dyn_cast<WaitOp>(op))
        transfers[wait.getSemaphore()].wait = wait;
    });
    uint64_t semaphores = getOperation().getSemaphores();
    for (auto &[semaphore, ends] : transfers)
      addCredit(ends, semaphores++);
    getOperation().setSemaphores(semaphores);
  }

  /// The receiver of the data gives the credit, so the loops around the wait give it and those around the signal take it.
  void addCredit(Ends ends, uint64_t credit) {
    OpBuilder builder(&getContext());
    if (auto put = dyn_cast_if_present<PutOp>(ends.signal->getPrevNode())) {
      builder.setInsertionPoint(ancestorBeside(put, ends.wait));
      cloneNest(builder, ancestorBeside(ends.wait, ends.signal), [&](OpBuilder &inner, Operation *wait) {
        SignalOp::create(inner, wait->getLoc(), credit, cast<WaitOp>(wait).getRank());
      });
      builder.setInsertionPoint(put);
      WaitOp::create(builder, put.getLoc(), credit, put.getRank());
      return;
    }
    auto reduce = cast<ChannelReduceOp>(ends.wait->getNextNode());
    builder.setInsertionPointAfter(ancestorBeside(reduce, ends.signal));
    cloneNest(builder, ancestorBeside(ends.signal, ends.wait), [&](OpBuilder &inner, Operation *signal) {
      WaitOp::create(inner, signal->getLoc(), credit, cast<SignalOp>(signal).getRank());
    });
    builder.setInsertionPointAfter(reduce);
    SignalOp::create(builder, reduce.getLoc(), credit, reduce.getRank());
  }

  /// Clones a nest of loops and conditions around one signal or wait, which may be that op alone, and puts something else
  /// in the place of the op.
  static void cloneNest(OpBuilder &builder, Operation *nest, function_ref<void(OpBuilder &, Operation *)> build) {
    IRMapping mapping;
    cloneOperands(builder, nest, mapping);
    Operation *leaf = nullptr;
    builder.clone(*nest, mapping)->walk([&](Operation *op) {
      if (isa<SignalOp, WaitOp>(op))
        leaf = op;
    });
    OpBuilder inner(leaf);
    build(inner, leaf);
    leaf->erase();
  }

  /// Clones the index arithmetic that `op` needs and that the insertion point does not see yet.
  static void cloneOperands(OpBuilder &builder, Operation *op, IRMapping &mapping) {
    llvm::SetVector<Value> needed(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), needed);
    for (Value value : needed) {
      Operation *definition = value.getDefiningOp();
      bool isLater = definition && definition->getBlock() == builder.getInsertionBlock() &&
                     !definition->isBeforeInBlock(&*builder.getInsertionPoint());
      if (!isLater || mapping.contains(value))
        continue;
      cloneOperands(builder, definition, mapping);
      builder.clone(*definition, mapping);
    }
  }
};

} // namespace
} // namespace kolo
