#include "targets/gpu/ReceiveFunctions.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

static constexpr int64_t sequenceShift = 32;

Value ReceiveFunctions::sequenceIn(Value word) {
  return arith::ShRUIOp::create(builder, loc, word, constantI64(builder, loc, sequenceShift));
}

Value ReceiveFunctions::wordOf(Value ofSequence) {
  return arith::ShLIOp::create(builder, loc, ofSequence, constantI64(builder, loc, sequenceShift));
}

ReceiveFunctions::Polled ReceiveFunctions::poll(TypeRange dataTypes, Value status, function_ref<Attempt()> read,
                                                function_ref<Patience(Value turn, Value since)> giveUp) {
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Type> types = {i32, i64, i64, builder.getI1Type()};
  Value zero = constantI64(builder, loc, 0);
  SmallVector<Value> first = {status, zero, zero, boolean(false)};
  for (Type type : dataTypes) {
    types.push_back(type);
    first.push_back(arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type)));
  }
  SmallVector<Location> locations(types.size(), loc);
  auto loop = scf::WhileOp::create(builder, loc, types, first);
  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locations);
  Value isWaiting =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, before->getArgument(0), code(KOLO_DEVICE_OK));
  Value isMissing = arith::XOrIOp::create(builder, loc, before->getArgument(3), boolean(true));
  scf::ConditionOp::create(builder, loc, arith::AndIOp::create(builder, loc, isWaiting, isMissing),
                           before->getArguments());

  Block *body = builder.createBlock(&loop.getAfter(), {}, types, locations);
  Attempt attempt = read();
  Value turn = arith::AddIOp::create(builder, loc, body->getArgument(1), constantI64(builder, loc, 1));
  auto late = scf::IfOp::create(builder, loc, TypeRange{i32, i64}, attempt.areThere, /*withElseRegion=*/true);
  SmallVector<Value> next = {late.getResult(0), turn, late.getResult(1), attempt.areThere};
  llvm::append_range(next, attempt.data);
  scf::YieldOp::create(builder, loc, next);
  builder.setInsertionPointToStart(late.thenBlock());
  scf::YieldOp::create(builder, loc, ValueRange{code(KOLO_DEVICE_OK), body->getArgument(2)});
  builder.setInsertionPointToStart(late.elseBlock());
  call(builder, loc, pauseFunction, {turn});
  Patience left = giveUp(turn, body->getArgument(2));
  scf::YieldOp::create(builder, loc, ValueRange{left.code, left.since});
  return {llvm::to_vector_of<Value>(loop.getResults().drop_front(4)), loop.getResult(0)};
}

Value ReceiveFunctions::isAligned(Value address, int64_t bytes) {
  Value number = LLVM::PtrToIntOp::create(builder, loc, i64, address);
  Value low = arith::AndIOp::create(builder, loc, number, constantI64(builder, loc, bytes - 1));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, low, constantI64(builder, loc, 0));
}

Value ReceiveFunctions::bytesOf(Type integer, Value source, Value begin, Value end) {
  Value nothing = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(integer, 0));
  auto loop = scf::ForOp::create(builder, loc, begin, end, constant(1), ValueRange{nothing});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value position = loop.getInductionVar();
  Value byte = LLVM::LoadOp::create(builder, loc, builder.getI8Type(), at(source, position), 1);
  Value places =
      arith::IndexCastOp::create(builder, loc, integer, mul(createSub(builder, loc, position, begin), constant(8)));
  Value placed = arith::ShLIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, integer, byte), places);
  scf::YieldOp::create(builder, loc, arith::OrIOp::create(builder, loc, loop.getRegionIterArg(0), placed).getResult());
  return loop.getResult(0);
}

Value ReceiveFunctions::elementAt(Value integer, Value byte, Type stored) {
  Value places = arith::IndexCastOp::create(builder, loc, integer.getType(), mul(byte, constant(8)));
  Value low = arith::ShRUIOp::create(builder, loc, integer, places);
  unsigned bits = stored.getIntOrFloatBitWidth();
  if (bits < low.getType().getIntOrFloatBitWidth())
    low = arith::TruncIOp::create(builder, loc, builder.getIntegerType(bits), low);
  return low.getType() == stored ? low : Value(arith::BitcastOp::create(builder, loc, stored, low));
}

/// Which of them did is forgotten by then, and why; the host knows which packets by the statement.
Value ReceiveFunctions::shareStatus(Value status) {
  Value any = call(builder, loc, anyFunction, {status});
  Value isFailed = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, any, code(KOLO_DEVICE_OK));
  auto conditional = scf::IfOp::create(builder, loc, isFailed);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(conditional.thenBlock());
    buildForLeader(builder, loc, [&] {
      Value zero = constantI64(builder, loc, 0), packets = constantI64(builder, loc, KOLO_DEVICE_PACKETS);
      Value abort = load(builder, loc, pointer, invocation, offsetof(KoloDeviceInvocation, abort));
      Value flag = call(builder, loc, peekFunction, {abort});
      Value isAborted = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, flag, zero);
      Value why =
          arith::SelectOp::create(builder, loc, isAborted, code(KOLO_DEVICE_ABORTED), code(KOLO_DEVICE_TIMEOUT));
      noteFailure(builder, loc, invocation, {why, packets, packets, statement, sequence, zero});
    });
  }
  return any;
}

void ReceiveFunctions::finishReceive(Value status) { giveBack(shareStatus(status)); }

/// (invocation, sequence, statement, dst, packets, sizeBytes)
void ReceiveFunctions::defineReceive(Receive receive) {
  function = createFunction(builder, module, names.blockedReceive, i64, {pointer, i64, i64, pointer, pointer, i64},
                            Inlining::Never);
  invocation = function.getArgument(0), sequence = function.getArgument(1), statement = function.getArgument(2);
  finishReceive(receive(function.getArgument(3), function.getArgument(4),
                        toIndex(builder, loc, function.getArgument(5)), builder.getI8Type(),
                        [](Value arrived, Value, int64_t) { return arrived; }));
  defineUniform(names.receive, names.blockedReceive);
}

/// (invocation, sequence, statement, dst, packets, numElements, type, reduction)
void ReceiveFunctions::defineReceiveReduce(const DeviceOptions &options, Receive receive) {
  function = createFunction(builder, module, names.blockedReceiveReduce, i64,
                            {pointer, i64, i64, pointer, pointer, i64, i64, i64}, Inlining::Never);
  invocation = function.getArgument(0), sequence = function.getArgument(1), statement = function.getArgument(2);
  Value count = toIndex(builder, loc, function.getArgument(5));
  Value chosenType = function.getArgument(6), chosenReduction = function.getArgument(7);
  finishReceive(chooseReduction(options, chosenType, chosenReduction, [&](KoloType type, KoloReduction reduction) {
    auto combine = [&](Value arrived, Value place, int64_t alignment) -> Value {
      Value old = LLVM::LoadOp::create(builder, loc, arrived.getType(), place, unsigned(alignment));
      return createReduction(builder, loc, type, reduction, old, arrived, options.accumulation);
    };
    return receive(function.getArgument(3), function.getArgument(4), count, storedType(builder, type), combine);
  }));
  defineUniform(names.receiveReduce, names.blockedReceiveReduce);
}

/// An average is a sum that is divided at the end.
Value ReceiveFunctions::chooseReduction(const DeviceOptions &options, Value type, Value reduction,
                                        function_ref<Value(KoloType, KoloReduction)> build) {
  OpBuilder::InsertionGuard guard(builder);
  std::vector<std::pair<KoloType, KoloReduction>> pairs;
  SmallVector<int64_t> numbers;
  for (KoloType known : options.types)
    for (KoloReduction one : options.reductions) {
      KoloReduction combining = one == KOLO_AVERAGE ? KOLO_SUM : one;
      int64_t number = int64_t(known) * int64_t(KOLO_NUM_REDUCTIONS) + int64_t(combining);
      if (llvm::is_contained(numbers, number))
        continue;
      pairs.emplace_back(known, combining);
      numbers.push_back(number);
    }
  Value isAverage =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, reduction, constantI64(builder, loc, KOLO_AVERAGE));
  Value combined = arith::SelectOp::create(builder, loc, isAverage, constantI64(builder, loc, KOLO_SUM), reduction);
  Value row = arith::MulIOp::create(builder, loc, type, constantI64(builder, loc, KOLO_NUM_REDUCTIONS));
  Value chosen = toIndex(builder, loc, arith::AddIOp::create(builder, loc, row, combined));
  auto choice = scf::IndexSwitchOp::create(builder, loc, TypeRange(i32), chosen, numbers, numbers.size());
  for (auto [pair, region] : llvm::zip_equal(pairs, choice.getCaseRegions())) {
    Block *block = builder.createBlock(&region);
    Value status = build(pair.first, pair.second);
    builder.setInsertionPointToEnd(block);
    scf::YieldOp::create(builder, loc, status);
  }
  builder.createBlock(&choice.getDefaultRegion());
  LLVM::Trap::create(builder, loc);
  scf::YieldOp::create(builder, loc, code(KOLO_DEVICE_OK));
  return choice.getResult(0);
}

/// What a function gives counts as different from thread to thread, unless it is said that it is not.
void ReceiveFunctions::defineUniform(StringRef name, StringRef blocked) {
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(blocked);
  auto uniform =
      createFunction(builder, module, name, i32, llvm::to_vector(callee.getArgumentTypes()), Inlining::Always);
  Value status = call(builder, loc, uniformFunction, {call(builder, loc, blocked, uniform.getArguments())});
  LLVM::ReturnOp::create(builder, loc, arith::TruncIOp::create(builder, loc, i32, status));
}

} // namespace kolo::gpu
