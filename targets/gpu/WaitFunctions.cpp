// Signals and waits of a block; see DeviceAbi.h for the counters. Thread 0 does a single one. Where a loop signals to
// many peers, or waits for them, every thread does it for some of them.
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Timeouts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

constexpr StringLiteral blockedWaitFunction = "kolo.wait.blocked", blockedWaitEndFunction = "kolo.wait.end.blocked",
                        waitNoteFunction = "kolo.wait.note";

class WaitFunctions {
public:
  explicit WaitFunctions(ModuleOp module)
      : module(module), builder(module.getContext()), loc(module.getLoc()), i64(builder.getI64Type()),
        i32(builder.getI32Type()), pointer(pointerType(builder)) {}

  void defineSignal();
  void defineSignalOne();
  void defineWaitOne();
  void defineWaitNote();
  void defineWait();
  void defineWaitEnd();
  void defineUniform(StringRef name, StringRef blocked);

private:
  struct Polled {
    Value value, code; // what the semaphore was last; 0, or why nothing is waited for any more
  };
  Polled poll(Value cell, Value target);

  /// The invocation is the first argument; a peer, a semaphore and the number of semaphores are three from `first` on.
  LLVM::LLVMFuncOp start(LLVM::LLVMFuncOp function, unsigned first) {
    invocation = function.getArgument(0), peer = function.getArgument(first);
    semaphore = function.getArgument(first + 1), numSemaphores = function.getArgument(first + 2);
    return function;
  }
  Value field(Type type, size_t offset) { return load(builder, loc, type, invocation, int64_t(offset)); }
  Value constant(int64_t value) { return constantI64(builder, loc, value); }
  Value code(KoloDeviceFailureCode value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  }
  /// Number of a counter in a table [lane][semaphore][rank].
  Value counterIndex(Value rank) {
    Value row = add(mul(call(builder, loc, laneFunction), numSemaphores), semaphore);
    return add(mul(row, field(i64, offsetof(KoloDeviceInvocation, numRanks))), rank);
  }
  Value entry(Value table, Value index) { return advance(builder, loc, table, mul(index, constant(8))); }
  /// Adds one to a counter that no other thread uses until the block meets, and gives the sum.
  Value increment(Value counter) {
    Value value = add(LLVM::LoadOp::create(builder, loc, i64, counter, 8), constant(1));
    LLVM::StoreOp::create(builder, loc, value, counter, 8);
    return value;
  }

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type i64, i32, pointer;
  Value invocation, peer, semaphore, numSemaphores; // of the function at hand
};

void WaitFunctions::defineSignalOne() {
  start(createFunction(builder, module, signalOneFunction, Type(), {pointer, i64, i64, i64}, Inlining::Never), 1);
  Value count = increment(entry(field(pointer, offsetof(KoloDeviceInvocation, sent)), counterIndex(peer)));
  Value cells = loadEntry(builder, loc, pointer, field(pointer, offsetof(KoloDeviceInvocation, peerSemaphores)), peer);
  Value me = field(i64, offsetof(KoloDeviceInvocation, rank));
  call(builder, loc, raiseFunction, {entry(cells, counterIndex(me)), count});
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void WaitFunctions::defineSignal() {
  auto function = createFunction(builder, module, signalFunction, Type(), {pointer, i64, i64, i64}, Inlining::Never);
  call(builder, loc, publishFunction);
  call(builder, loc, barrierFunction);
  buildForLeader(builder, loc, [&] { call(builder, loc, signalOneFunction, function.getArguments()); });
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// while (value < target && code == 0) { pause; turn += 1; code, since = ...; value = peek }
WaitFunctions::Polled WaitFunctions::poll(Value cell, Value target) {
  OpBuilder::InsertionGuard guard(builder);
  Value first = call(builder, loc, peekFunction, {cell});
  SmallVector<Type> types{i64, i64, i32, i64};
  SmallVector<Location> locations(types.size(), loc);
  auto loop =
      scf::WhileOp::create(builder, loc, types, ValueRange{first, constant(0), code(KOLO_DEVICE_OK), constant(0)});
  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locations);
  Value isMissing = compare(arith::CmpIPredicate::ult, before->getArgument(0), target);
  Value isWaiting = compare(arith::CmpIPredicate::eq, before->getArgument(2), code(KOLO_DEVICE_OK));
  scf::ConditionOp::create(builder, loc, arith::AndIOp::create(builder, loc, isMissing, isWaiting),
                           before->getArguments());
  Block *body = builder.createBlock(&loop.getAfter(), {}, types, locations);
  call(builder, loc, pauseFunction, {body->getArgument(1)});
  Value turn = add(body->getArgument(1), constant(1));
  Patience left = loseOrKeepPatience(builder, loc, invocation, turn, body->getArgument(3), /*pollersPerWarp=*/1);
  scf::YieldOp::create(builder, loc, ValueRange{call(builder, loc, peekFunction, {cell}), turn, left.code, left.since});
  return {loop.getResult(0), loop.getResult(2)};
}

void WaitFunctions::defineWaitOne() {
  start(createFunction(builder, module, waitOneFunction, i64, {pointer, i64, i64, i64}, Inlining::Never), 1);
  Value index = counterIndex(peer);
  Value target = increment(entry(field(pointer, offsetof(KoloDeviceInvocation, awaited)), index));
  Polled polled = poll(entry(field(pointer, offsetof(KoloDeviceInvocation, semaphores)), index), target);
  // A signal that came with the last poll counts.
  Value isReached = compare(arith::CmpIPredicate::uge, polled.value, target);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isReached).thenBlock());
    call(builder, loc, acquireFunction);
  }
  Value why = arith::ExtUIOp::create(builder, loc, i64, polled.code);
  LLVM::ReturnOp::create(builder, loc, arith::SelectOp::create(builder, loc, isReached, constant(0), why).getResult());
}

/// (invocation, code, peer, semaphore, numSemaphores, statement), by a thread that has given up.
void WaitFunctions::defineWaitNote() {
  auto function = start(
      createFunction(builder, module, waitNoteFunction, Type(), {pointer, i64, i64, i64, i64, i64}, Inlining::Never),
      2);
  Value why = arith::TruncIOp::create(builder, loc, i32, function.getArgument(1)), index = counterIndex(peer);
  Value awaited = entry(field(pointer, offsetof(KoloDeviceInvocation, awaited)), index);
  Value cell = entry(field(pointer, offsetof(KoloDeviceInvocation, semaphores)), index);
  Value expected = LLVM::LoadOp::create(builder, loc, i64, awaited, 8),
        found = call(builder, loc, peekFunction, {cell});
  noteFailure(builder, loc, invocation, {why, peer, semaphore, function.getArgument(5), expected, found});
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void WaitFunctions::defineWait() {
  auto function = start(
      createFunction(builder, module, blockedWaitFunction, i64, {pointer, i64, i64, i64, i64}, Inlining::Never), 1);
  Value isLeader = compare(arith::CmpIPredicate::eq, call(builder, loc, threadFunction), constant(0));
  auto asked = scf::IfOp::create(builder, loc, TypeRange(i32), isLeader, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(asked.elseBlock());
  scf::YieldOp::create(builder, loc, code(KOLO_DEVICE_OK));

  builder.setInsertionPointToStart(asked.thenBlock());
  Value why = call(builder, loc, waitOneFunction, {invocation, peer, semaphore, numSemaphores});
  auto failed = scf::IfOp::create(builder, loc, compare(arith::CmpIPredicate::ne, why, constant(0)));
  scf::YieldOp::create(builder, loc, arith::TruncIOp::create(builder, loc, i32, why).getResult());
  builder.setInsertionPointToStart(failed.thenBlock());
  call(builder, loc, waitNoteFunction, {invocation, why, peer, semaphore, numSemaphores, function.getArgument(4)});

  builder.setInsertionPointToEnd(&function.getBody().front());
  Value status = call(builder, loc, shareFunction, {asked.getResult(0)});
  LLVM::ReturnOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, status));
}

/// The threads that gave up write the record in turn: the first one fills it.
void WaitFunctions::defineWaitEnd() {
  auto function = start(
      createFunction(builder, module, blockedWaitEndFunction, i64, {pointer, i64, i64, i64, i64, i64}, Inlining::Never),
      2);
  Value isOwn = compare(arith::CmpIPredicate::ne, function.getArgument(1), constant(0));
  Value status = call(builder, loc, anyFunction, {arith::ExtUIOp::create(builder, loc, i32, isOwn)});
  auto failed = scf::IfOp::create(builder, loc, compare(arith::CmpIPredicate::ne, status, code(KOLO_DEVICE_OK)));
  LLVM::ReturnOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, status));
  builder.setInsertionPointToStart(failed.thenBlock());
  Value threads = toIndex(builder, loc, call(builder, loc, numThreadsFunction));
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0), one = arith::ConstantIndexOp::create(builder, loc, 1);
  auto turns = scf::ForOp::create(builder, loc, zero, threads, one);
  builder.setInsertionPointToStart(turns.getBody());
  call(builder, loc, barrierFunction);
  Value turn = toInteger(builder, loc, turns.getInductionVar());
  Value isTurn = compare(arith::CmpIPredicate::eq, call(builder, loc, threadFunction), turn);
  Value isNoted = arith::AndIOp::create(builder, loc, isTurn, isOwn);
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isNoted).thenBlock());
  call(builder, loc, waitNoteFunction, function.getArguments());
}

/// What a function gives counts as different from thread to thread, unless it is said that it is not.
void WaitFunctions::defineUniform(StringRef name, StringRef blocked) {
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(blocked);
  auto function =
      createFunction(builder, module, name, i32, llvm::to_vector(callee.getArgumentTypes()), Inlining::Always);
  Value status = call(builder, loc, uniformFunction, {call(builder, loc, blocked, function.getArguments())});
  LLVM::ReturnOp::create(builder, loc, arith::TruncIOp::create(builder, loc, i32, status));
}

} // namespace

void defineWaitAndSignal(ModuleOp module) {
  WaitFunctions functions(module);
  functions.defineSignalOne();
  functions.defineSignal();
  functions.defineWaitOne();
  functions.defineWaitNote();
  functions.defineWait();
  functions.defineUniform(waitFunction, blockedWaitFunction);
  functions.defineWaitEnd();
  functions.defineUniform(waitEndFunction, blockedWaitEndFunction);
}

} // namespace kolo::gpu
