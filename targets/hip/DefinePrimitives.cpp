// DefinePrimitives: gives the primitives of kernels their bodies for AMD devices of the gfx9 family.
//   Before:  llvm.func @kolo.barrier()
//   After:   llvm.func internal @kolo.barrier() { fence ; llvm.call_intrinsic "llvm.amdgcn.s.barrier"() ; fence }
// Runs right after LowerPrograms, which declares them.
//
// LLVM 22 leaves two things to this pass. A block barrier does not wait until the stores of its waves have arrived in
// the L2 cache. So every thread waits for them before the barrier of a signal (publish). The waves of a block
// share that cache, so thread 0 alone writes it back, when it raises the counter. LLVM may drop the wait between the
// write-back of a cache and the store of a flag: the pass writes that wait out.
#include "targets/gpu/DeviceFunctions.h"
#include "targets/hip/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::hip {
using namespace kolo::gpu;
#define GEN_PASS_DEF_DEFINEPRIMITIVES
#include "targets/hip/Passes.h.inc"

namespace {

constexpr StringLiteral sharedName = "kolo.shared";

/// Operand of s_waitcnt on gfx9: vmcnt(0), and no limit to the other counters.
constexpr int64_t waitForMemory = 0x0F70;

/// Where the hidden arguments of a kernel are, code object version 5 and later: blocks of the grid, threads of a block.
constexpr int64_t numBlocksOffset = 0, numThreadsOffset = 12;

class Primitives {
public:
  explicit Primitives(ModuleOp module) : module(module), builder(module.getContext()), loc(module.getLoc()) {}

  void defineNumbers();
  void defineBarrier();
  void defineTeams();
  void defineShare();
  void defineAny();
  void defineUniform();
  void defineCounters();
  void defineClock();
  void definePause();

private:
  LLVM::LLVMFuncOp define(StringRef name) { return definePrimitive(builder, module, name); }
  Value intrinsic(StringRef name, Type result, ValueRange arguments = {});
  void fence(LLVM::AtomicOrdering ordering, StringRef scope) { LLVM::FenceOp::create(builder, loc, ordering, scope); }
  void barrier();
  void giveBack(Value value = Value()) {
    LLVM::ReturnOp::create(builder, loc, value ? ValueRange(value) : ValueRange());
  }
  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value widen(Value number) { return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), number); }
  void waitForStores() { intrinsic("llvm.amdgcn.s.waitcnt", Type(), {constant(waitForMemory)}); }
  Value hiddenArgument(Type type, int64_t offset);

  ModuleOp module;
  OpBuilder builder;
  Location loc;
};

Value Primitives::intrinsic(StringRef name, Type result, ValueRange arguments) {
  auto attribute = builder.getStringAttr(name);
  if (result)
    return LLVM::CallIntrinsicOp::create(builder, loc, result, attribute, arguments).getResult(0);
  LLVM::CallIntrinsicOp::create(builder, loc, attribute, arguments);
  return Value();
}

Value Primitives::hiddenArgument(Type type, int64_t offset) {
  Value base = intrinsic("llvm.amdgcn.implicitarg.ptr", pointerType(builder, constantSpace));
  return LLVM::LoadOp::create(builder, loc, type, advance(builder, loc, base, constantI64(builder, loc, offset)),
                              type.getIntOrFloatBitWidth() / 8);
}

void Primitives::defineNumbers() {
  const std::pair<StringRef, StringRef> registers[] = {{laneFunction, "llvm.amdgcn.workgroup.id.x"},
                                                       {entryFunction, "llvm.amdgcn.workgroup.id.y"},
                                                       {threadFunction, "llvm.amdgcn.workitem.id.x"}};
  for (auto [primitive, name] : registers) {
    define(primitive);
    giveBack(widen(intrinsic(name, builder.getI32Type())));
  }
  define(numLanesFunction);
  giveBack(widen(hiddenArgument(builder.getI32Type(), numBlocksOffset)));
  define(numThreadsFunction);
  giveBack(widen(hiddenArgument(builder.getI16Type(), numThreadsOffset)));
}

void Primitives::barrier() {
  fence(LLVM::AtomicOrdering::release, "workgroup");
  intrinsic("llvm.amdgcn.s.barrier", Type());
  fence(LLVM::AtomicOrdering::acquire, "workgroup");
}

void Primitives::defineBarrier() {
  define(barrierFunction);
  barrier();
  giveBack();
}

/// A team is a wave, which runs in step: only the order of its accesses is to be kept.
void Primitives::defineTeams() {
  if (!module.lookupSymbol(meetFunction))
    return;
  define(meetFunction);
  fence(LLVM::AtomicOrdering::release, "workgroup");
  intrinsic("llvm.amdgcn.wave.barrier", Type());
  fence(LLVM::AtomicOrdering::acquire, "workgroup");
  giveBack();
}

/// Through a word of local memory; the second barrier keeps the next call from writing it before all have read it.
void Primitives::defineShare() {
  builder.setInsertionPointToStart(module.getBody());
  auto word = LLVM::GlobalOp::create(builder, loc, builder.getI32Type(), /*isConstant=*/false, LLVM::Linkage::Internal,
                                     sharedName, Attribute(), /*alignment=*/4, blockSpace);
  builder.createBlock(&word.getInitializerRegion());
  LLVM::ReturnOp::create(builder, loc, LLVM::PoisonOp::create(builder, loc, builder.getI32Type()).getResult());
  auto function = define(shareFunction);
  Value address = LLVM::AddressOfOp::create(builder, loc, pointerType(builder, blockSpace), sharedName);
  buildForLeader(builder, loc, [&] { LLVM::StoreOp::create(builder, loc, function.getArgument(0), address, 4); });
  barrier();
  Value value = LLVM::LoadOp::create(builder, loc, builder.getI32Type(), address, 4);
  barrier();
  giveBack(value);
}

/// In the same word, cleared first: whoever has something to say writes the same to it. Its readers are past the last
/// barrier before it is written again.
void Primitives::defineAny() {
  auto function = define(anyFunction);
  Value address = LLVM::AddressOfOp::create(builder, loc, pointerType(builder, blockSpace), sharedName);
  buildForLeader(builder, loc, [&] { LLVM::StoreOp::create(builder, loc, constant(0), address, 4); });
  barrier();
  Value isSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, function.getArgument(0), constant(0));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isSome).thenBlock());
    LLVM::StoreOp::create(builder, loc, constant(1), address, 4);
  }
  barrier();
  Value value = LLVM::LoadOp::create(builder, loc, builder.getI32Type(), address, 4);
  barrier();
  giveBack(value);
}

void Primitives::defineUniform() {
  auto uniform = define(uniformFunction);
  giveBack(intrinsic("llvm.amdgcn.readfirstlane", builder.getI64Type(), {uniform.getArgument(0)}));
}

void Primitives::defineCounters() {
  define(publishFunction);
  fence(LLVM::AtomicOrdering::release, "workgroup"); // keeps the order of what this thread does
  waitForStores();
  giveBack();

  auto raise = define(raiseFunction);
  fence(LLVM::AtomicOrdering::release, "");
  waitForStores();
  LLVM::StoreOp::create(builder, loc, raise.getArgument(1), raise.getArgument(0), 8, false, false, false,
                        LLVM::AtomicOrdering::monotonic, "");
  giveBack();

  // Relaxed, so that polling does not throw the caches away each time; the fence comes when the wait is over.
  auto peek = define(peekFunction);
  giveBack(LLVM::LoadOp::create(builder, loc, builder.getI64Type(), peek.getArgument(0), 8, false, false, false, false,
                                LLVM::AtomicOrdering::monotonic, ""));
  define(acquireFunction);
  fence(LLVM::AtomicOrdering::acquire, "");
  giveBack();
}

/// The counter of real time, whose rate is constant: 100 MHz on the gfx9 family.
void Primitives::defineClock() {
  constexpr int64_t nanosecondsPerTick = 10;
  define(clockFunction);
  Value ticks = intrinsic("llvm.amdgcn.s.memrealtime", builder.getI64Type());
  giveBack(arith::MulIOp::create(builder, loc, ticks, constantI64(builder, loc, nanosecondsPerTick)));
}

/// In units of 64 cycles, of which the instruction takes a constant: short at first, then a good half microsecond.
void Primitives::definePause() {
  constexpr int64_t numShort = 64, shortUnits = 1, moreUnits = 15;
  auto pause = define(pauseFunction);
  intrinsic("llvm.amdgcn.s.sleep", Type(), {constant(shortUnits)});
  Value isLong = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, pause.getArgument(0),
                                       constantI64(builder, loc, numShort));
  auto conditional = scf::IfOp::create(builder, loc, isLong);
  giveBack();
  builder.setInsertionPointToStart(conditional.thenBlock());
  intrinsic("llvm.amdgcn.s.sleep", Type(), {constant(moreUnits)});
}

struct DefinePrimitives : impl::DefinePrimitivesBase<DefinePrimitives> {
  void runOnOperation() override {
    Primitives primitives(getOperation());
    primitives.defineNumbers();
    primitives.defineBarrier();
    primitives.defineShare();
    primitives.defineAny();
    primitives.defineUniform();
    primitives.defineCounters();
    primitives.defineClock();
    primitives.definePause();
    primitives.defineTeams();
    defineBlockMemory(getOperation());
  }
};

} // namespace
} // namespace kolo::hip
