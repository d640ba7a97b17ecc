// DefinePrimitives: gives the primitives of kernels their bodies for NVIDIA devices.
//   Before:  llvm.func @kolo.barrier()
//   After:   llvm.func internal @kolo.barrier() { llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"(...) }
// Runs right after LowerPrograms, which declares them. The counters follow the PTX memory model: a block barrier and a
// release at system scope are cumulative. One thread therefore publishes what the whole block wrote, and an acquire
// before a block barrier serves the whole block.
//
// LL128 needs 128 aligned bytes, stored by one instruction of a warp, to arrive at once, and to be loaded at once by
// one instruction. PTX does not promise this; NVIDIA's hardware does it within a device and over NVLink. The threads of
// a group meet right before each of these instructions. The runtime refuses LL128 over other connections.
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
    defineClock(builder);
    definePause(builder);
    defineLines(builder);
    defineTeams(builder);
    defineBlockMemory(getOperation());
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
      Value isFailed =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, combine.getArgument(0), constant(0));
      Value isAny =
          intrinsic(builder, "llvm.nvvm.barrier.cta.red.or.aligned.all", builder.getI1Type(), {constant(0), isFailed});
      giveBack(builder, arith::ExtUIOp::create(builder, loc, builder.getI32Type(), isAny));
    }
  }

  /// A team has two warps or more, and each its own barrier. Barrier 0 is the block's.
  void defineTeams(OpBuilder &builder) {
    if (!getOperation().lookupSymbol(meetFunction))
      return;
    Location loc = getOperation().getLoc();
    auto meet = definePrimitive(builder, getOperation(), meetFunction);
    Value teamThreads = arith::TruncIOp::create(builder, loc, builder.getI32Type(), meet.getArgument(0));
    Value thread = intrinsic(builder, "llvm.nvvm.read.ptx.sreg.tid.x", builder.getI32Type());
    Value team = arith::DivUIOp::create(builder, loc, thread, teamThreads);
    Value number = arith::AddIOp::create(builder, loc, team, arith::ConstantIntOp::create(builder, loc, 1, 32));
    intrinsic(builder, "llvm.nvvm.barrier.cta.sync.count", Type(), {number, teamThreads});
    giveBack(builder);
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
    giveBack(builder, LLVM::LoadOp::create(builder, loc, builder.getI64Type(), peek.getArgument(0), 8, false, false,
                                           false, false, LLVM::AtomicOrdering::acquire, ""));
  }

  /// The threads of this one's group, as bits of its warp.
  Value groupMask(OpBuilder &builder) {
    constexpr int64_t warpThreads = 32, groupBits = (1 << threadsPerLine) - 1;
    Location loc = getOperation().getLoc();
    auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    Value thread = intrinsic(builder, "llvm.nvvm.read.ptx.sreg.tid.x", builder.getI32Type());
    Value first = arith::AndIOp::create(builder, loc, thread, constant(warpThreads - threadsPerLine));
    return arith::ShLIOp::create(builder, loc, constant(groupBits), first);
  }

  void defineLines(OpBuilder &builder) {
    Location loc = getOperation().getLoc();
    Type i32 = builder.getI32Type(), i64 = builder.getI64Type(), part = VectorType::get({2}, i64);
    constexpr unsigned partBytes = 16;
    auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    auto meet = [&] { intrinsic(builder, "llvm.nvvm.bar.warp.sync", Type(), {groupMask(builder)}); };
    auto store = definePrimitive(builder, getOperation(), storeLineFunction);
    Value halves = LLVM::PoisonOp::create(builder, loc, part);
    for (int64_t half : {0, 1})
      halves =
          LLVM::InsertElementOp::create(builder, loc, halves, store.getArgument(unsigned(1 + half)), constant(half));
    meet();
    LLVM::StoreOp::create(builder, loc, halves, store.getArgument(0), partBytes, /*isVolatile=*/true);
    giveBack(builder);

    auto load = definePrimitive(builder, getOperation(), loadLineFunction);
    meet();
    halves = LLVM::LoadOp::create(builder, loc, part, load.getArgument(0), partBytes, /*isVolatile=*/true);
    Value result = LLVM::PoisonOp::create(builder, loc, LLVM::LLVMStructType::getLiteral(&getContext(), {i64, i64}));
    for (int64_t half : {0, 1})
      result = LLVM::InsertValueOp::create(builder, loc, result,
                                           LLVM::ExtractElementOp::create(builder, loc, halves, constant(half)), half);
    giveBack(builder, result);

    // From the last of every eight lanes: the lane of the first of them is kept, the other bits are those of 7.
    constexpr int64_t keptLanes = 32 - threadsPerLine, lastLane = threadsPerLine - 1, bounds = keptLanes << 8 | 31;
    auto fromLast = definePrimitive(builder, getOperation(), fromLastFunction);
    Value arguments[] = {groupMask(builder), fromLast.getArgument(0), constant(lastLane), constant(bounds)};
    giveBack(builder, intrinsic(builder, "llvm.nvvm.shfl.sync.idx.i32", i32, arguments));
  }

  void defineClock(OpBuilder &builder) {
    definePrimitive(builder, getOperation(), clockFunction);
    giveBack(builder, intrinsic(builder, "llvm.nvvm.read.ptx.sreg.globaltimer", builder.getI64Type()));
  }

  void definePause(OpBuilder &builder) {
    Location loc = getOperation().getLoc();
    auto pause = definePrimitive(builder, getOperation(), pauseFunction);
    Value longest = arith::ConstantIntOp::create(builder, loc, longestPauseNs, 64);
    Value time = arith::MinUIOp::create(builder, loc, pause.getArgument(0), longest);
    intrinsic(builder, "llvm.nvvm.nanosleep", Type(),
              {arith::TruncIOp::create(builder, loc, builder.getI32Type(), time)});
    giveBack(builder);
  }
};

} // namespace
} // namespace kolo::cuda
