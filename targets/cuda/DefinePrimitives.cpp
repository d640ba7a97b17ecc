// DefinePrimitives: gives the primitives of kernels their bodies for NVIDIA devices.
//   Before:  llvm.func @kolo.barrier()
//   After:   llvm.func internal @kolo.barrier() { llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"(...) }
// Runs right after LowerPrograms, which declares them. The counters follow the PTX memory model: a block barrier and a
// release at system scope are cumulative, so that one thread publishes what the whole block wrote, and an acquire before a
// block barrier serves the whole block.
#include "targets/cuda/Passes.h"
#include "targets/gpu/DeviceFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace kolo::cuda {
using namespace kolo::gpu;
#define GEN_PASS_DEF_DEFINEPRIMITIVES
#include "targets/cuda/Passes.h.inc"

namespace {

/// Longest pause between two polls, in nanoseconds; the first ones are shorter.
constexpr int64_t longestPauseNs = 256;

struct DefinePrimitives : impl::DefinePrimitivesBase<DefinePrimitives> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    defineNumbers(builder);
    defineBarriers(builder);
    defineCounters(builder);
    definePause(builder);
    defineList(getOperation());
  }

private:
  Value intrinsic(OpBuilder &builder, StringRef name, Type result, ValueRange arguments = {}) {
    auto attribute = builder.getStringAttr(name);
    if (result)
      return LLVM::CallIntrinsicOp::create(builder, getOperation().getLoc(), result, attribute, arguments).getResult(0);
    LLVM::CallIntrinsicOp::create(builder, getOperation().getLoc(), attribute, arguments);
    return Value();
  }
  void giveBack(OpBuilder &builder, Value value = Value()) {
    LLVM::ReturnOp::create(builder, getOperation().getLoc(), value ? ValueRange(value) : ValueRange());
  }

  void defineNumbers(OpBuilder &builder) {
    const std::pair<StringRef, StringRef> registers[] = {{laneFunction, "llvm.nvvm.read.ptx.sreg.ctaid.x"},
                                                         {numLanesFunction, "llvm.nvvm.read.ptx.sreg.nctaid.x"},
                                                         {entryFunction, "llvm.nvvm.read.ptx.sreg.ctaid.y"},
                                                         {threadFunction, "llvm.nvvm.read.ptx.sreg.tid.x"},
                                                         {numThreadsFunction, "llvm.nvvm.read.ptx.sreg.ntid.x"}};
    for (auto [primitive, name] : registers) {
      definePrimitive(builder, getOperation(), primitive);
      Value number = intrinsic(builder, name, builder.getI32Type());
      giveBack(builder, arith::ExtUIOp::create(builder, getOperation().getLoc(), builder.getI64Type(), number));
    }
  }

  void defineBarriers(OpBuilder &builder) {
    Location loc = getOperation().getLoc();
    auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    definePrimitive(builder, getOperation(), barrierFunction);
    intrinsic(builder, "llvm.nvvm.barrier.cta.sync.aligned.all", Type(), {constant(0)});
    giveBack(builder);
    // Whether there is a failure is all that anybody asks for: a barrier that combines one bit of every thread.
    for (StringRef name : {shareFunction, anyFunction}) {
      auto combine = definePrimitive(builder, getOperation(), name);
      Value isFailed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, combine.getArgument(0), constant(0));
      Value isAny = intrinsic(builder, "llvm.nvvm.barrier.cta.red.or.aligned.all", builder.getI1Type(), {constant(0), isFailed});
      giveBack(builder, arith::ExtUIOp::create(builder, loc, builder.getI32Type(), isAny));
    }
  }

  void defineCounters(OpBuilder &builder) {
    Location loc = getOperation().getLoc();
    for (StringRef nothing : {publishFunction, acquireFunction}) { // the barrier, the release and the acquire do it all
      definePrimitive(builder, getOperation(), nothing);
      giveBack(builder);
    }
    auto uniform = definePrimitive(builder, getOperation(), uniformFunction);
    giveBack(builder, uniform.getArgument(0));
    auto raise = definePrimitive(builder, getOperation(), raiseFunction);
    LLVM::StoreOp::create(builder, loc, raise.getArgument(1), raise.getArgument(0), 8, false, false, false,
                          LLVM::AtomicOrdering::release, "");
    giveBack(builder);
    auto peek = definePrimitive(builder, getOperation(), peekFunction);
    giveBack(builder, LLVM::LoadOp::create(builder, loc, builder.getI64Type(), peek.getArgument(0), 8, false, false, false,
                                           false, LLVM::AtomicOrdering::acquire, ""));
  }

  void definePause(OpBuilder &builder) {
    Location loc = getOperation().getLoc();
    auto pause = definePrimitive(builder, getOperation(), pauseFunction);
    Value longest = arith::ConstantIntOp::create(builder, loc, longestPauseNs, 64);
    Value time = arith::MinUIOp::create(builder, loc, pause.getArgument(0), longest);
    intrinsic(builder, "llvm.nvvm.nanosleep", Type(), {arith::TruncIOp::create(builder, loc, builder.getI32Type(), time)});
    giveBack(builder);
  }
};

} // namespace
} // namespace kolo::cuda
