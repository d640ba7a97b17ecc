// Signals and waits of a block; see DeviceAbi.h for the counters. Thread 0 does a single one. Where a loop signals to
// many peers, or waits for them, every thread does it for some of them. Over a staged network, thread 0 does all
// signals, because it alone writes requests.
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Timeouts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

class WaitFunctions {
public:
  WaitFunctions(ModuleOp module, const ExchangeFunctionNames &names)
      : module(module), names(names), isStaged(&names == &networkFunctions), builder(module.getContext()),
        loc(module.getLoc()), i64(builder.getI64Type()), i32(builder.getI32Type()), pointer(pointerType(builder)) {}

  void defineSignal();
  void defineSignalOne();
  void defineWaitOne();
  void defineWaitNote();
  void defineWait();
  void defineWaitEnd();
  void defineUniform(StringRef name, StringRef blocked);

private:
  /// A semaphore of this rank: where it is, and how many times its count is there.
  struct AwaitedCell {
    Value cell, scale;
  };
  AwaitedCell awaited(Value index);
  void signal(LLVM::LLVMFuncOp function, Value cells, Value count);
  SmallVector<Type> signalArguments() {
    SmallVector<Type> types{pointer, i64, i64, i64};
    if (isStaged)
      types.push_back(i64);
    return types;
  }

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
  Value row() { return add(mul(call(builder, loc, laneFunction), numSemaphores), semaphore); }
  /// Of a rank among the counters of this one.
  Value placeOf(Value rank) { return isStaged ? loadPlace(builder, loc, invocation, rank) : rank; }
  Value numHere() { return field(i64, offsetof(KoloDeviceNetworkInvocation, numHere)); }
  Value numFar() { return field(i64, offsetof(KoloDeviceNetworkInvocation, numFar)); }
  /// Number of a counter in `sent` or `awaited`.
  Value counterIndex(Value rank) {
    Value number = row();
    Value size = isStaged ? add(numHere(), numFar()) : field(i64, offsetof(KoloDeviceInvocation, numRanks));
    return add(mul(number, size), placeOf(rank));
  }
  /// Of one that a rank of this host raises, in the semaphores of a rank of this host.
  Value semaphoreIndex(Value place) { return add(mul(row(), numHere()), place); }
  Value entry(Value table, Value index) { return advance(builder, loc, table, mul(index, constant(8))); }
  /// Adds one to a counter that no other thread uses until the block meets, and gives the sum.
  Value increment(Value counter) {
    Value value = add(LLVM::LoadOp::create(builder, loc, i64, counter, 8), constant(1));
    LLVM::StoreOp::create(builder, loc, value, counter, 8);
    return value;
  }

  ModuleOp module;
  const ExchangeFunctionNames &names;
  const bool isStaged; // peers may be on other hosts
  OpBuilder builder;
  Location loc;
  Type i64, i32, pointer;
  Value invocation, peer, semaphore, numSemaphores; // of the function at hand
};

void WaitFunctions::defineSignalOne() {
  auto function =
      start(createFunction(builder, module, names.signalOne, Type(), signalArguments(), Inlining::Never), 1);
  Value count = increment(entry(field(pointer, offsetof(KoloDeviceInvocation, sent)), counterIndex(peer)));
  Value table = field(pointer, offsetof(KoloDeviceInvocation, peerSemaphores));
  Value number = isStaged ? loadEntryNumber(builder, loc, invocation, peer) : peer;
  Value cells = loadEntry(builder, loc, pointer, table, number);
  signal(function, cells, count);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Of a peer that has cells here, or else by the host.
void WaitFunctions::signal(LLVM::LLVMFuncOp function, Value cells, Value count) {
  OpBuilder::InsertionGuard guard(builder);
  if (isStaged) {
    auto choice = scf::IfOp::create(builder, loc, isNull(builder, loc, cells), /*withElseRegion=*/true);
    builder.setInsertionPointToStart(choice.thenBlock());
    Value shifted = arith::ShLIOp::create(builder, loc, semaphore, constant(32));
    Value kind = arith::OrIOp::create(builder, loc, shifted, constant(KOLO_DEVICE_SIGNAL));
    Value agreement = field(i64, offsetof(KoloDeviceNetworkInvocation, cellsAgreement));
    call(builder, loc, requestFunction,
         {invocation, peer, function.getArgument(4), kind, agreement, constant(0), count,
          LLVM::ZeroOp::create(builder, loc, pointer)});
    builder.setInsertionPointToStart(choice.elseBlock());
  }
  Value me = field(i64, offsetof(KoloDeviceInvocation, rank));
  Value index = isStaged ? semaphoreIndex(placeOf(me)) : counterIndex(me);
  call(builder, loc, raiseFunction, {entry(cells, index), count});
}

void WaitFunctions::defineSignal() {
  auto function = createFunction(builder, module, names.signal, Type(), signalArguments(), Inlining::Never);
  call(builder, loc, publishFunction);
  call(builder, loc, barrierFunction);
  buildForLeader(builder, loc, [&] { call(builder, loc, names.signalOne, function.getArguments()); });
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Peers of other hosts raise a cell in memory of the host, which has twice the count.
WaitFunctions::AwaitedCell WaitFunctions::awaited(Value index) {
  Value semaphores = field(pointer, offsetof(KoloDeviceInvocation, semaphores));
  if (!isStaged)
    return {entry(semaphores, index), Value()};
  Value place = placeOf(peer), here = numHere();
  Value isElsewhere = compare(arith::CmpIPredicate::uge, place, here);
  Value cell = entry(semaphores, semaphoreIndex(place));
  Value number = add(mul(row(), numFar()), arith::SubIOp::create(builder, loc, place, here));
  Value raised = advance(builder, loc, field(pointer, offsetof(KoloDeviceNetworkInvocation, cells)),
                         mul(number, constant(KOLO_DEVICE_CELL_BYTES)));
  return {arith::SelectOp::create(builder, loc, isElsewhere, raised, cell),
          arith::SelectOp::create(builder, loc, isElsewhere, constant(2), constant(1))};
}

void WaitFunctions::defineWaitOne() {
  start(createFunction(builder, module, names.waitOne, i64, {pointer, i64, i64, i64}, Inlining::Never), 1);
  Value index = counterIndex(peer);
  Value target = increment(entry(field(pointer, offsetof(KoloDeviceInvocation, awaited)), index));
  auto [cell, scale] = awaited(index);
  target = scale ? mul(target, scale) : target;
  Polled polled = pollCounter(builder, loc, invocation, cell, target);
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
      createFunction(builder, module, names.waitNote, Type(), {pointer, i64, i64, i64, i64, i64}, Inlining::Never), 2);
  Value why = arith::TruncIOp::create(builder, loc, i32, function.getArgument(1)), index = counterIndex(peer);
  Value target = entry(field(pointer, offsetof(KoloDeviceInvocation, awaited)), index);
  auto [cell, scale] = awaited(index);
  Value expected = LLVM::LoadOp::create(builder, loc, i64, target, 8), found = call(builder, loc, peekFunction, {cell});
  if (scale)
    found = arith::DivUIOp::create(builder, loc, found, scale);
  noteFailure(builder, loc, invocation, {why, peer, semaphore, function.getArgument(5), expected, found});
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void WaitFunctions::defineWait() {
  auto function =
      start(createFunction(builder, module, names.blockedWait, i64, {pointer, i64, i64, i64, i64}, Inlining::Never), 1);
  Value isLeader = compare(arith::CmpIPredicate::eq, call(builder, loc, threadFunction), constant(0));
  auto asked = scf::IfOp::create(builder, loc, TypeRange(i32), isLeader, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(asked.elseBlock());
  scf::YieldOp::create(builder, loc, code(KOLO_DEVICE_OK));

  builder.setInsertionPointToStart(asked.thenBlock());
  Value why = call(builder, loc, names.waitOne, {invocation, peer, semaphore, numSemaphores});
  auto failed = scf::IfOp::create(builder, loc, compare(arith::CmpIPredicate::ne, why, constant(0)));
  scf::YieldOp::create(builder, loc, arith::TruncIOp::create(builder, loc, i32, why).getResult());
  builder.setInsertionPointToStart(failed.thenBlock());
  call(builder, loc, names.waitNote, {invocation, why, peer, semaphore, numSemaphores, function.getArgument(4)});

  builder.setInsertionPointToEnd(&function.getBody().front());
  Value status = call(builder, loc, shareFunction, {asked.getResult(0)});
  LLVM::ReturnOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, status));
}

/// The threads that gave up write the record in turn: the first one fills it.
void WaitFunctions::defineWaitEnd() {
  auto function = start(
      createFunction(builder, module, names.blockedWaitEnd, i64, {pointer, i64, i64, i64, i64, i64}, Inlining::Never),
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
  call(builder, loc, names.waitNote, function.getArguments());
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

void defineWaitAndSignal(ModuleOp module, const ExchangeFunctionNames &names) {
  WaitFunctions functions(module, names);
  functions.defineSignalOne();
  functions.defineSignal();
  functions.defineWaitOne();
  functions.defineWaitNote();
  functions.defineWait();
  functions.defineUniform(names.wait, names.blockedWait);
  functions.defineWaitEnd();
  functions.defineUniform(names.waitEnd, names.blockedWaitEnd);
}

} // namespace kolo::gpu
