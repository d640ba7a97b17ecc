// What a program moves: functions over byte ranges, one per move, and calls of them.
#include "targets/gpu/KernelLowering.h"
#include "targets/gpu/LowerFuse.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace kolo::gpu {

Value KernelLowering::baseOf(const MoveValues::Side &side) {
  size_t entry = size_t(side.role) * sizeof(void *);
  if (!side.peer)
    return pointerField(offsetof(KoloDeviceInvocation, local) + entry);
  Value table = pointerField(offsetof(KoloDeviceInvocation, peers) + entry);
  return loadEntry(builder, loc, pointerType(builder), table, integer(side.peer));
}

SliceValues KernelLowering::sliceOf(Value buffer, OperandRange offsets, OperandRange sizes) {
  const BufferValues &values = buffers.find(buffer)->second;
  auto map = [&](Value value) { return mapped(value); };
  return {values.shape, llvm::map_to_vector<6>(offsets, map), llvm::map_to_vector<6>(sizes, map)};
}

void KernelLowering::lowerMove(MoveInterface move) {
  const BufferValues &source = buffers.find(move.getSource())->second;
  const BufferValues &destination = buffers.find(move.getDestination())->second;
  bool isPut = bool(move.getDestinationRank());
  settle(unsettled.writes || (!isPut && unsettled.reads));
  MoveValues values = {{sliceOf(move.getSource(), move.getSourceOffsets(), move.getSourceSizes()), source.role,
                        source.offset, mapped(move.getSourceRank()), Value()},
                       {sliceOf(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes()),
                        destination.role, destination.offset, mapped(move.getDestinationRank()), Value()},
                       {mapped(move.getPart()), mapped(move.getParts())},
                       Value(),
                       source.role == KOLO_PACKETS || destination.role == KOLO_PACKETS ? sequence : Value()};
  if (source.role == KOLO_PACKETS)
    return lowerReceive(move, values);
  outlineMove(values, /*mayFail=*/false, [&](const MoveValues &inner) {
    buildRangeLoops(builder, loc, callValues, inner.source.slice, inner.destination.slice, inner.part,
                    [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
                      Value from = addressIn(inner.source, sourceBegin), to = addressIn(inner.destination, destinationBegin);
                      if (inner.sequence)
                        call(builder, loc, functionsOf(*destination.shape.packets).send,
                             {to, from, integer(bytesOf(length)), integer(inner.sequence)});
                      else
                        buildRange(move, from, to, length);
                    });
  });
  unsettled.reads = true;
  unsettled.writes |= !isPut;
}

/// Its threads have met when it is over.
void KernelLowering::lowerReceive(MoveInterface move, const MoveValues &values) {
  bool isReducing = isa<ChannelReduceOp>(move.getOperation());
  const PacketFunctionNames &names = functionsOf(*values.source.slice.buffer.packets);
  outlineMove(values, /*mayFail=*/true, [&](const MoveValues &inner) {
    Value number = constantI64(builder, loc, statements.numberOf(move.getLoc()));
    buildRangeLoops(builder, loc, callValues, inner.source.slice, inner.destination.slice, inner.part,
                    [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
                      SmallVector<Value> arguments{invocation, integer(inner.sequence), number,
                                                   addressIn(inner.destination, destinationBegin),
                                                   addressIn(inner.source, sourceBegin)};
                      arguments.push_back(integer(isReducing ? length : bytesOf(length)));
                      if (isReducing)
                        llvm::append_values(arguments, type, reduction);
                      call(builder, loc, isReducing ? names.receiveReduce : names.receive, arguments);
                    });
  });
  unsettled = {};
}

Value KernelLowering::addressIn(const MoveValues::Side &side, Value firstElement) {
  return advance(builder, loc, side.base, integer(createAdd(builder, loc, side.offset, placeOf(side.slice.buffer, firstElement))));
}

void KernelLowering::buildRange(MoveInterface move, Value from, Value to, Value length) {
  OpBuilder::InsertionGuard guard(builder);
  if (isa<ChannelReduceOp>(move.getOperation())) {
    call(builder, loc, reduceFunction, {to, from, integer(length), type, reduction});
    return;
  }
  if (!move.getSourceRank() && !move.getDestinationRank()) {
    // An in-place call finds its input where it belongs already.
    Value isElsewhere = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, to, from);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isElsewhere).thenBlock());
  }
  call(builder, loc, copyFunction, {to, from, integer(bytesOf(length))});
}

void KernelLowering::lowerDivide(DivideOp divide) {
  settle(unsettled.reads || unsettled.writes);
  const BufferValues &buffer = buffers.find(divide.getBuffer())->second;
  Value numRanks = constant(1);
  for (int64_t dim : program.getCollective().getGroupDims())
    numRanks = createMul(builder, loc, numRanks, dimSizes[size_t(dim)]);
  MoveValues::Side side = {sliceOf(divide.getBuffer(), divide.getOffsets(), divide.getSizes()), buffer.role, buffer.offset,
                           Value(), Value()};
  MoveValues values = {side, side, {mapped(divide.getPart()), mapped(divide.getParts())}, numRanks, Value()};
  OpBuilder::InsertionGuard guard(builder);
  // Read here, not kept since the beginning.
  Value isAverage = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, readField(offsetof(KoloDeviceInvocation, reduction)),
                                          constantI64(builder, loc, KOLO_AVERAGE));
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isAverage).thenBlock());
  outlineMove(values, /*mayFail=*/false, [&](const MoveValues &inner) {
    buildRangeLoops(builder, loc, callValues, inner.source.slice, inner.source.slice, inner.part,
                    [&](OpBuilder &, Value begin, Value, Value length) {
                      call(builder, loc, divideFunction,
                           {addressIn(inner.source, begin), integer(length), type, integer(inner.numRanks)});
                    });
  });
  unsettled = {true, true};
}

void KernelLowering::MoveValues::forEach(function_ref<void(Value &)> visit) {
  for (Value *value : {&part.part, &part.parts, &numRanks, &sequence})
    visit(*value);
  for (Side *side : {&source, &destination}) {
    for (SmallVectorImpl<Value> *values : {static_cast<SmallVectorImpl<Value> *>(&side->slice.buffer.grid),
                                           static_cast<SmallVectorImpl<Value> *>(&side->slice.offsets),
                                           static_cast<SmallVectorImpl<Value> *>(&side->slice.sizes)})
      llvm::for_each(*values, visit);
    for (Value *value : {&side->slice.buffer.cut, &side->slice.buffer.stride, &side->offset, &side->peer})
      visit(*value);
  }
}

/// What every function finds out by itself.
SmallVector<Value> KernelLowering::shapeValues() {
  SmallVector<Value> values{lane, numLanes};
  values.append(dimSizes.begin(), dimSizes.end());
  values.append(coordinates.begin(), coordinates.end());
  return values;
}

/// Puts what is built into a function of its own, and a call of it here: a program with many moves would otherwise keep more
/// numbers alive than there are registers. What is built from is replaced by what the function gets; constants, and which values
/// are the same, stay known in it, and fields of the invocation are read there again. One that may fail gives a status, like a wait.
void KernelLowering::outline(bool mayFail, function_ref<void(function_ref<void(Value &)>)> forEachValue, function_ref<void()> build) {
  SmallVector<Value> shape = shapeValues();
  llvm::SetVector<Value> passed;
  forEachValue([&](Value &value) {
    if (value && !getConstantIntValue(value) && !llvm::is_contained(shape, value))
      passed.insert(value);
  });
  SmallVector<Value> operands{invocation};
  for (Value value : passed)
    operands.push_back(value.getType().isIndex() ? integer(value) : value);
  StringRef prefix = mayFail ? StringRef(fallibleMovePrefix) : StringRef("move.");
  std::string name = (prefix + program.getSymName() + "." + Twine(numMoves++)).str();
  {
    OpBuilder::InsertionGuard guard(builder);
    auto function = createFunction(builder, module, name, mayFail ? builder.getI32Type() : Type(),
                                   llvm::to_vector(ValueRange(operands).getTypes()), Inlining::Never);
    llvm::SaveAndRestore outside(invocation, Value(function.getArgument(0)));
    llvm::SaveAndRestore outsideCall(callValues, callValues);
    llvm::SaveAndRestore outsideBytes(elementBytes, elementBytes), outsideType(type, type);
    llvm::SaveAndRestore outsideReduction(reduction, reduction), outsideStride(packetStride, packetStride);
    llvm::SaveAndRestore outsideSizes(dimSizes, dimSizes), outsideCoordinates(coordinates, coordinates);
    llvm::SaveAndRestore outsideLane(lane, lane), outsideLanes(numLanes, numLanes);
    readShape();
    readCall();
    IRMapping inside;
    inside.map(shape, shapeValues());
    for (auto [value, argument] : llvm::zip_equal(passed, function.getArguments().drop_front()))
      inside.map(value, value.getType().isIndex() ? toIndex(builder, loc, call(builder, loc, uniformFunction, {argument}))
                                                  : Value(argument));
    forEachValue([&](Value &value) {
      if (std::optional<int64_t> known = value ? getConstantIntValue(value) : std::nullopt)
        value = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(value.getType(), *known));
      else if (value)
        value = inside.lookup(value);
    });
    build();
    LLVM::ReturnOp::create(builder, loc, mayFail ? ValueRange(arith::ConstantIntOp::create(builder, loc, KOLO_DEVICE_OK, 32))
                                                 : ValueRange());
  }
  call(builder, loc, name, operands);
}

void KernelLowering::outlineMove(const MoveValues &values, bool mayFail, function_ref<void(const MoveValues &)> build) {
  MoveValues inner = values;
  outline(
      mayFail, [&](function_ref<void(Value &)> visit) { inner.forEach(visit); },
      [&] {
        for (MoveValues::Side *side : {&inner.source, &inner.destination})
          side->base = baseOf(*side);
        build(inner);
      });
}

/// The arithmetic above an op that it depends on, in an order in which it can be done again, and what that depends on in turn.
static llvm::SetVector<Operation *> arithmeticAbove(Operation *op, llvm::SetVector<Value> &used) {
  used.insert(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), used);
  llvm::SetVector<Operation *> arithmetic;
  llvm::SetVector<Value> others;
  for (size_t i = 0; i < used.size(); ++i) {
    Operation *definition = used[i].getDefiningOp();
    bool isArithmetic = definition && definition->getNumRegions() == 0 && !isa<BufferOp, LookupOp>(definition);
    if (!isArithmetic) {
      others.insert(used[i]);
      continue;
    }
    arithmetic.insert(definition);
    used.insert(definition->operand_begin(), definition->operand_end());
  }
  used = others;
  return topologicalSort(arithmetic);
}

/// In a function of its own, as a move is, with the arithmetic that it depends on done again there. It settles what it does by
/// barriers of its own.
void KernelLowering::lowerFuse(FuseOp fuse) {
  llvm::SetVector<Value> used;
  llvm::SetVector<Operation *> arithmetic = arithmeticAbove(fuse, used);
  auto forEachValue = [&](function_ref<void(Value &)> visit) {
    for (Value value : used) {
      if (auto buffer = buffers.find(value); buffer != buffers.end()) {
        buffer->second.forEach(visit);
        continue;
      }
      Value number = mapped(value);
      visit(number);
      mapping.map(value, number);
    }
  };
  llvm::SaveAndRestore outsideBuffers(buffers, buffers);
  llvm::SaveAndRestore outsideMapping(mapping, mapping);
  outline(/*mayFail=*/false, forEachValue, [&] {
    for (Operation *above : arithmetic)
      lowerOp(*above);
    buildFuse(fuse);
  });
}

void KernelLowering::buildFuse(FuseOp fuse) {
  auto slice = [&](Value buffer, OperandRange offsets, OperandRange sizes) { return sliceOf(buffer, offsets, sizes); };
  auto address = [&](Value buffer, Value rank, Value element) {
    const BufferValues &values = buffers.find(buffer)->second;
    MoveValues::Side side = {{}, values.role, values.offset, mapped(rank), Value()};
    side.base = baseOf(side);
    return addressIn(side, element);
  };
  auto arithmetic = [&](Operation &op) { lowerOp(op); };
  auto readReduction = [&] { return std::pair(readField(offsetof(KoloDeviceInvocation, type)), readField(offsetof(KoloDeviceInvocation, reduction))); };
  gpu::lowerFuse(fuse, {builder, loc, mapping, callValues, elementBytes, listEntries, readReduction, slice, address, arithmetic});
}

} // namespace kolo::gpu
