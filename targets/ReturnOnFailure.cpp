// Leaves a function early, from inside of loops.
#include "targets/ReturnOnFailure.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace kolo {

using Exits = llvm::DenseMap<Operation *, Block *>; // of every function, where failed calls go

static void branchOnFailure(LLVM::CallOp call, Exits &exits) {
  auto function = call->getParentOfType<LLVM::LLVMFuncOp>();
  Location loc = call.getLoc();
  OpBuilder builder(call.getContext());
  Block *&exit = exits[function];
  if (!exit) {
    exit = builder.createBlock(&function.getBody(), function.getBody().end(), builder.getI32Type(), loc);
    LLVM::ReturnOp::create(builder, loc, exit->getArgument(0));
  }
  Block *block = call->getBlock();
  Block *next = block->splitBlock(std::next(call->getIterator()));
  builder.setInsertionPointToEnd(block);
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  Value isFailed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, call.getResult(), zero);
  cf::CondBranchOp::create(builder, loc, isFailed, exit, ValueRange{call.getResult()}, next, ValueRange{});
}

void returnOnFailure(ModuleOp module, function_ref<bool(StringRef)> mayFail) {
  SmallVector<LLVM::CallOp> calls;
  module.walk([&](LLVM::CallOp call) {
    if (call.getCallee() && mayFail(*call.getCallee()))
      calls.push_back(call);
  });
  Exits exits;
  for (LLVM::CallOp call : calls)
    branchOnFailure(call, exits);
}

} // namespace kolo
