// LowerWaits: makes a program return at once when a wait fails.
//   Before:  %s = llvm.call @kolo.wait(...) ; ...
//   After:   %s = llvm.call @kolo.wait(...) ; cf.cond_br (%s != 0), ^failed(%s), ^next ; ^next: ...
// A rank whose peer is lost must not touch that peer's memory any more. Runs once loops are blocks and branches, since a
// structured loop cannot be left in the middle.
#include "targets/cpu/Passes.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

using namespace mlir;

namespace kolo::cpu {
#define GEN_PASS_DEF_LOWERWAITS
#include "targets/cpu/Passes.h.inc"

namespace {

struct LowerWaits : impl::LowerWaitsBase<LowerWaits> {
  void runOnOperation() override {
    SmallVector<LLVM::CallOp> waits;
    getOperation().walk([&](LLVM::CallOp call) {
      if (call.getCallee() == waitFunction)
        waits.push_back(call);
    });
    for (LLVM::CallOp wait : waits)
      leaveOnFailure(wait);
  }

  void leaveOnFailure(LLVM::CallOp wait) {
    auto function = wait->getParentOfType<LLVM::LLVMFuncOp>();
    Location loc = wait.getLoc();
    OpBuilder builder(wait.getContext());
    Block *&exit = exits[function];
    if (!exit) {
      exit = builder.createBlock(&function.getBody(), function.getBody().end(), builder.getI32Type(), loc);
      LLVM::ReturnOp::create(builder, loc, exit->getArgument(0));
    }
    Block *block = wait->getBlock();
    Block *next = block->splitBlock(std::next(wait->getIterator()));
    builder.setInsertionPointToEnd(block);
    Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
    Value isFailed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, wait.getResult(), zero);
    cf::CondBranchOp::create(builder, loc, isFailed, exit, ValueRange{wait.getResult()}, next, ValueRange{});
  }

  llvm::DenseMap<Operation *, Block *> exits; // of every function, where failed waits go
};

} // namespace
} // namespace kolo::cpu
