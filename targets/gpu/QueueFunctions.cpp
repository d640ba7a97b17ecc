// What a kernel hands to the host, for peers on other hosts: see KoloDeviceQueue. The block copies what it puts to a
// chunk of its outbox, and thread 0 writes the request; then the source is free. A peer of this host is written
// directly.
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Timeouts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

constexpr StringLiteral roomName = "kolo.net.room", blockedClaimName = "kolo.net.claim.blocked";

class QueueFunctions {
public:
  explicit QueueFunctions(ModuleOp module)
      : module(module), builder(module.getContext()), loc(module.getLoc()), i64(builder.getI64Type()),
        i32(builder.getI32Type()), pointer(pointerType(builder)) {}

  void defineRoom();
  void defineRequest();
  void defineClaim();
  void defineChunk();
  void defineCommit();
  void definePush();

private:
  Value field(Value invocation, Type type, size_t offset) {
    return load(builder, loc, type, invocation, int64_t(offset));
  }
  Value ofLane(Value table, size_t entryBytes) {
    Value offset = arith::MulIOp::create(builder, loc, call(builder, loc, laneFunction), constant(int64_t(entryBytes)));
    return advance(builder, loc, table, offset);
  }
  Value queueOf(Value invocation) {
    return ofLane(field(invocation, pointer, offsetof(KoloDeviceNetworkInvocation, queues)), sizeof(KoloDeviceQueue));
  }
  Value countOf(Value invocation, size_t field) {
    Value counts = ofLane(this->field(invocation, pointer, offsetof(KoloDeviceNetworkInvocation, queueCounts)),
                          sizeof(KoloDeviceQueueCounts));
    return at(counts, field);
  }
  Value at(Value base, size_t offset) { return advance(builder, loc, base, constant(int64_t(offset))); }
  Value constant(int64_t value) { return constantI64(builder, loc, value); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value read(Value address) { return LLVM::LoadOp::create(builder, loc, i64, address, 8); }
  void store(Value value, Value address) { LLVM::StoreOp::create(builder, loc, value, address, 8); }
  /// The count that the host must have reached, before entry `number` of `size` can be written.
  Value countBefore(Value number, int64_t size) {
    Value last = arith::MinUIOp::create(builder, loc, number, constant(size - 1));
    return arith::SubIOp::create(builder, loc, number, last);
  }
  Value entryOf(Value base, Value number, int64_t size, int64_t entryBytes) {
    Value entry = arith::RemUIOp::create(builder, loc, number, constant(size));
    return advance(builder, loc, base, arith::MulIOp::create(builder, loc, entry, constant(entryBytes)));
  }
  Value isZero(Value value) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, value, constant(0));
  }

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type i64, i32, pointer;
};

/// (invocation, counter of the host, target, peer, statement) -> i64: thread 0 waits until the host has come so far.
void QueueFunctions::defineRoom() {
  auto function = createFunction(builder, module, roomName, i64, {pointer, pointer, i64, i64, i64}, Inlining::Never);
  Value invocation = function.getArgument(0), counter = function.getArgument(1), target = function.getArgument(2);
  Polled polled = pollCounter(builder, loc, invocation, counter, target);
  Value isReached = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, polled.value, target);
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i64), isReached, /*withElseRegion=*/true);
  LLVM::ReturnOp::create(builder, loc, choice.getResult(0));
  builder.setInsertionPointToStart(choice.thenBlock());
  call(builder, loc, acquireFunction);
  scf::YieldOp::create(builder, loc, constant(KOLO_DEVICE_OK));
  builder.setInsertionPointToStart(choice.elseBlock());
  noteFailure(builder, loc, invocation,
              {polled.code, function.getArgument(3), constant(KOLO_DEVICE_QUEUE), function.getArgument(4), target,
               polled.value});
  scf::YieldOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, polled.code).getResult());
}

void QueueFunctions::defineRequest() {
  auto function = createFunction(builder, module, requestFunction, i64,
                                 {pointer, i64, i64, i64, i64, i64, i64, pointer}, Inlining::Never);
  Value invocation = function.getArgument(0), peer = function.getArgument(1);
  Value queue = queueOf(invocation), count = countOf(invocation, offsetof(KoloDeviceQueueCounts, requests));
  Value number = read(count);
  Value status = call(builder, loc, roomName,
                      {invocation, at(queue, offsetof(KoloDeviceQueue, taken)),
                       countBefore(number, KOLO_DEVICE_REQUESTS), peer, function.getArgument(2)});
  auto write = scf::IfOp::create(builder, loc, isZero(status));
  LLVM::ReturnOp::create(builder, loc, status);
  builder.setInsertionPointToStart(write.thenBlock());
  static_assert(offsetof(KoloDeviceRequest, kind) == 0 && offsetof(KoloDeviceRequest, semaphore) == 4);
  Value request = entryOf(queue, number, KOLO_DEVICE_REQUESTS, sizeof(KoloDeviceRequest));
  store(function.getArgument(3), request);
  store(peer, at(request, offsetof(KoloDeviceRequest, peer)));
  store(function.getArgument(4), at(request, offsetof(KoloDeviceRequest, agreement)));
  store(function.getArgument(5), at(request, offsetof(KoloDeviceRequest, offset)));
  store(function.getArgument(6), at(request, offsetof(KoloDeviceRequest, value)));
  store(function.getArgument(7), at(request, offsetof(KoloDeviceRequest, source)));
  Value next = add(number, constant(1));
  store(next, count);
  call(builder, loc, raiseFunction, {at(queue, offsetof(KoloDeviceQueue, written)), next});
}

/// Thread 0 waits for a free chunk, and all threads learn whether there is one.
void QueueFunctions::defineClaim() {
  auto blocked = createFunction(builder, module, blockedClaimName, i64, {pointer, i64, i64}, Inlining::Never);
  Value invocation = blocked.getArgument(0);
  Value isLeader = isZero(call(builder, loc, threadFunction));
  auto asked = scf::IfOp::create(builder, loc, TypeRange(i64), isLeader, /*withElseRegion=*/true);
  Value status = arith::TruncIOp::create(builder, loc, i32, asked.getResult(0));
  status = call(builder, loc, shareFunction, {status});
  LLVM::ReturnOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, status).getResult());
  builder.setInsertionPointToStart(asked.elseBlock());
  scf::YieldOp::create(builder, loc, constant(KOLO_DEVICE_OK));
  builder.setInsertionPointToStart(asked.thenBlock());
  Value number = read(countOf(invocation, offsetof(KoloDeviceQueueCounts, puts)));
  Value code = call(builder, loc, roomName,
                    {invocation, at(queueOf(invocation), offsetof(KoloDeviceQueue, freed)),
                     countBefore(number, KOLO_DEVICE_CHUNKS), blocked.getArgument(1), blocked.getArgument(2)});
  scf::YieldOp::create(builder, loc, code);

  auto function = createFunction(builder, module, claimFunction, i32, {pointer, i64, i64}, Inlining::Always);
  Value uniform = call(builder, loc, uniformFunction, {call(builder, loc, blockedClaimName, function.getArguments())});
  LLVM::ReturnOp::create(builder, loc, arith::TruncIOp::create(builder, loc, i32, uniform).getResult());
}

/// All threads read the number of puts before thread 0 changes it: there is a barrier between.
void QueueFunctions::defineChunk() {
  auto function = createFunction(builder, module, chunkFunction, pointer, {pointer}, Inlining::Never);
  Value invocation = function.getArgument(0);
  Value number = read(countOf(invocation, offsetof(KoloDeviceQueueCounts, puts)));
  Value outbox = load(builder, loc, pointer, queueOf(invocation), offsetof(KoloDeviceQueue, outbox));
  LLVM::ReturnOp::create(builder, loc, entryOf(outbox, number, KOLO_DEVICE_CHUNKS, KOLO_DEVICE_CHUNK_BYTES));
}

/// A failure is one of a wait for room. It is noted, and the next wait of this lane fails.
void QueueFunctions::defineCommit() {
  auto function =
      createFunction(builder, module, commitFunction, Type(), {pointer, i64, i64, i64, i64}, Inlining::Never);
  Value invocation = function.getArgument(0);
  call(builder, loc, publishFunction);
  call(builder, loc, barrierFunction);
  buildForLeader(builder, loc, [&] {
    Value chunk = call(builder, loc, chunkFunction, {invocation});
    Value count = countOf(invocation, offsetof(KoloDeviceQueueCounts, puts));
    store(add(read(count), constant(1)), count);
    Value inbox = field(invocation, i64, offsetof(KoloDeviceNetworkInvocation, inboxOffset));
    Value agreement = field(invocation, i64, offsetof(KoloDeviceNetworkInvocation, inboxAgreement));
    call(builder, loc, requestFunction,
         {invocation, function.getArgument(1), function.getArgument(2), constant(KOLO_DEVICE_PUT), agreement,
          add(inbox, function.getArgument(3)), function.getArgument(4), chunk});
  });
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// if (the inbox is mapped) copy; else for (begin = 0; begin < sizeBytes; begin += chunk) { claim; copy; commit }
void QueueFunctions::definePush() {
  auto function =
      createFunction(builder, module, pushFunction, i32, {pointer, i64, i64, i64, pointer, i64}, Inlining::Never);
  auto uniform = [&](unsigned argument) {
    return call(builder, loc, uniformFunction, {function.getArgument(argument)});
  };
  Value invocation = function.getArgument(0), source = function.getArgument(4);
  Value peer = uniform(1), statement = uniform(2), offset = uniform(3), size = uniform(5);
  Value inboxes = field(invocation, pointer, offsetof(KoloDeviceNetworkInvocation, peerInboxes));
  Value inbox = loadEntry(builder, loc, pointer, inboxes, loadEntryNumber(builder, loc, invocation, peer));
  auto choice = scf::IfOp::create(builder, loc, isNull(builder, loc, inbox), /*withElseRegion=*/true);
  LLVM::ReturnOp::create(builder, loc, arith::ConstantIntOp::create(builder, loc, KOLO_DEVICE_OK, 32).getResult());
  builder.setInsertionPointToStart(choice.elseBlock());
  call(builder, loc, copyFunction, {advance(builder, loc, inbox, offset), source, size});
  builder.setInsertionPointToStart(choice.thenBlock());
  auto index = [&](Value value) { return toIndex(builder, loc, value); };
  auto loop =
      scf::ForOp::create(builder, loc, index(constant(0)), index(size), index(constant(KOLO_DEVICE_CHUNK_BYTES)));
  builder.setInsertionPointToStart(loop.getBody());
  Value begin = toInteger(builder, loc, loop.getInductionVar());
  Value rest = arith::SubIOp::create(builder, loc, size, begin);
  Value length = arith::MinUIOp::create(builder, loc, rest, constant(KOLO_DEVICE_CHUNK_BYTES));
  call(builder, loc, claimFunction, {invocation, peer, statement});
  Value chunk = call(builder, loc, chunkFunction, {invocation});
  call(builder, loc, copyFunction, {chunk, advance(builder, loc, source, begin), length});
  call(builder, loc, commitFunction, {invocation, peer, statement, add(offset, begin), length});
}

} // namespace

void defineQueues(ModuleOp module) {
  QueueFunctions functions(module);
  functions.defineRoom();
  functions.defineRequest();
  functions.defineClaim();
  functions.defineChunk();
  functions.defineCommit();
  functions.definePush();
}

} // namespace kolo::gpu
