// What a program moves: functions over byte ranges, one per move, and calls of them.
#include "targets/gpu/KernelLowering.h"
#include "targets/gpu/LowerFuse.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace kolo::gpu {

SliceValues KernelLowering::sliceOf(Value buffer, OperandRange offsets, OperandRange sizes) {
  auto map = [&](Value value) { return mapped(value); };
  return {buffers.find(buffer)->second.shape, llvm::map_to_vector<6>(offsets, map), llvm::map_to_vector<6>(sizes, map)};
}

/// Of a peer, or of this rank for null.
Value KernelLowering::beginOf(Value buffer, Value rank) {
  const BufferValues &values = buffers.find(buffer)->second;
  size_t entry = size_t(values.role) * sizeof(void *);
  Value base = rank ? loadEntry(builder, loc, pointerType(builder),
                                pointerField(offsetof(KoloDeviceInvocation, peers) + entry), integer(mapped(rank)))
                    : pointerField(offsetof(KoloDeviceInvocation, local) + entry);
  return advance(builder, loc, base, integer(values.offset));
}

KernelLowering::Side KernelLowering::sourceOf(MoveInterface move) {
  return {sliceOf(move.getSource(), move.getSourceOffsets(), move.getSourceSizes()),
          beginOf(move.getSource(), move.getSourceRank())};
}

KernelLowering::Side KernelLowering::destinationOf(MoveInterface move) {
  return {sliceOf(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes()),
          beginOf(move.getDestination(), move.getDestinationRank())};
}

Value KernelLowering::addressIn(const Side &side, Value firstElement) {
  return advance(builder, loc, side.begin, integer(bytesTo(side.slice.buffer, firstElement)));
}

static bool isPackets(Value buffer) { return buffer.getDefiningOp<BufferOp>().getRole() == BufferRole::Packets; }

void KernelLowering::lowerMove(MoveInterface move) {
  bool isPut = bool(move.getDestinationRank());
  settle(unsettled.writes || (!isPut && unsettled.reads));
  if (isPackets(move.getSource()))
    return lowerReceive(move);
  outline(move, /*mayFail=*/false, [&] {
    Side source = sourceOf(move), destination = destinationOf(move);
    buildRangeLoops(
        builder, loc, callValues, source.slice, destination.slice, {mapped(move.getPart()), mapped(move.getParts())},
        [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
          Value from = addressIn(source, sourceBegin), to = addressIn(destination, destinationBegin);
          if (std::optional<PacketFormat> format = destination.slice.buffer.packets)
            call(builder, loc, functionsOf(*format).send, {to, from, integer(bytesOf(length)), integer(sequence)});
          else
            buildRange(move, from, to, length);
        });
  });
  unsettled.reads = true;
  unsettled.writes |= !isPut;
}

/// Its threads have met when it is over.
void KernelLowering::lowerReceive(MoveInterface move) {
  bool isReducing = isa<ChannelReduceOp>(move.getOperation());
  outline(move, /*mayFail=*/true, [&] {
    Side source = sourceOf(move), destination = destinationOf(move);
    const PacketFunctionNames &names = functionsOf(*source.slice.buffer.packets);
    Value number = constantI64(builder, loc, statements.numberOf(move.getLoc()));
    buildRangeLoops(
        builder, loc, callValues, source.slice, destination.slice, {mapped(move.getPart()), mapped(move.getParts())},
        [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
          SmallVector<Value> arguments{invocation, integer(sequence), number, addressIn(destination, destinationBegin),
                                       addressIn(source, sourceBegin)};
          arguments.push_back(integer(isReducing ? length : bytesOf(length)));
          if (isReducing)
            llvm::append_values(arguments, type, reduction);
          call(builder, loc, isReducing ? names.receiveReduce : names.receive, arguments);
        });
  });
  unsettled = {};
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

Value KernelLowering::groupSize() {
  Value numRanks = constant(1);
  for (int64_t dim : program.getCollective().getGroupDims())
    numRanks = createMul(builder, loc, numRanks, dimSizes[size_t(dim)]);
  return numRanks;
}

void KernelLowering::lowerDivide(DivideOp divide) {
  settle(unsettled.reads || unsettled.writes);
  OpBuilder::InsertionGuard guard(builder);
  // Read here: not kept since the beginning.
  Value isAverage = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                          readField(offsetof(KoloDeviceInvocation, reduction)),
                                          constantI64(builder, loc, KOLO_AVERAGE));
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isAverage).thenBlock());
  outline(divide, /*mayFail=*/false, [&] {
    Value numRanks = groupSize();
    Side side = {sliceOf(divide.getBuffer(), divide.getOffsets(), divide.getSizes()),
                 beginOf(divide.getBuffer(), Value())};
    buildRangeLoops(
        builder, loc, callValues, side.slice, side.slice, {mapped(divide.getPart()), mapped(divide.getParts())},
        [&](OpBuilder &, Value begin, Value, Value length) {
          call(builder, loc, divideFunction, {addressIn(side, begin), integer(length), type, integer(numRanks)});
        });
  });
  unsettled = {true, true};
}

/// It settles what it does by barriers of its own.
void KernelLowering::lowerFuse(FuseOp fuse) {
  auto slice = [&](Value buffer, OperandRange offsets, OperandRange sizes) { return sliceOf(buffer, offsets, sizes); };
  auto address = [&](Value buffer, Value rank, Value element) {
    return advance(builder, loc, beginOf(buffer, rank), integer(bytesOf(element)));
  };
  auto arithmetic = [&](Operation &op) { lowerOp(op); };
  auto readReduction = [&] {
    return std::pair(readField(offsetof(KoloDeviceInvocation, type)),
                     readField(offsetof(KoloDeviceInvocation, reduction)));
  };
  outline(fuse, /*mayFail=*/false, [&] {
    gpu::lowerFuse(fuse, {builder, loc, mapping, callValues, elementBytes, listEntries, readReduction, slice, address,
                          arithmetic, [&] { return groupSize(); }});
  });
}

/// In the order of the text: all buffers, and the arithmetic that they and an op depend on. What that depends on in
/// turn has to be passed.
SmallVector<Operation *> KernelLowering::arithmeticAbove(Operation *op, llvm::SetVector<Value> &passed) {
  llvm::SetVector<Value> used(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), used);
  llvm::DenseSet<Operation *> found;
  for (auto buffer : program.getBody().getOps<BufferOp>()) {
    found.insert(buffer);
    used.insert(buffer->operand_begin(), buffer->operand_end());
  }
  for (size_t i = 0; i < used.size(); ++i) {
    Value value = used[i];
    Operation *definition = value.getDefiningOp();
    if (!definition || definition->getNumRegions() != 0 || isa<LookupOp>(definition)) {
      passed.insert(value);
    } else if (found.insert(definition).second) {
      used.insert(definition->operand_begin(), definition->operand_end());
    }
  }
  SmallVector<Operation *> ordered;
  program.walk<WalkOrder::PreOrder>([&](Operation *above) {
    if (found.contains(above))
      ordered.push_back(above);
  });
  return ordered;
}

/// Puts what an op does into a function of its own, and a call of it here: a program with many moves would otherwise
/// keep more numbers alive than there are registers. For the same reason the function computes again what the op
/// depends on, as far as it can. One that may fail gives a status, like a wait.
void KernelLowering::outline(Operation *op, bool mayFail, function_ref<void()> build) {
  llvm::SetVector<Value> passed;
  SmallVector<Operation *> arithmetic = arithmeticAbove(op, passed);
  SmallVector<Value> operands{invocation};
  for (Value value : passed)
    operands.push_back(integer(mapped(value)));
  if (hasPackets)
    operands.push_back(integer(numCalls));
  StringRef prefix = mayFail ? StringRef(fallibleMovePrefix) : StringRef("move.");
  std::string name = (prefix + program.getSymName() + "." + Twine(numMoves++)).str();
  {
    OpBuilder::InsertionGuard guard(builder);
    auto function = createFunction(builder, module, name, mayFail ? builder.getI32Type() : Type(),
                                   llvm::to_vector(ValueRange(operands).getTypes()), Inlining::Never);
    llvm::SaveAndRestore outside(invocation, Value(function.getArgument(0)));
    llvm::SaveAndRestore outsideMapping(mapping, IRMapping());
    llvm::SaveAndRestore outsideCall(callValues, callValues);
    llvm::SaveAndRestore outsideBytes(elementBytes, elementBytes), outsideType(type, type);
    llvm::SaveAndRestore outsideReduction(reduction, reduction), outsideStride(packetStride, packetStride);
    llvm::SaveAndRestore outsideCalls(numCalls, numCalls), outsideSequence(sequence, sequence);
    llvm::SaveAndRestore outsideSizes(dimSizes, dimSizes), outsideCoordinates(coordinates, coordinates);
    llvm::SaveAndRestore outsideLane(lane, lane), outsideLanes(numLanes, numLanes);
    readShape();
    readCall();
    SmallVector<Value> arguments;
    for (Value argument : function.getArguments().drop_front())
      arguments.push_back(toIndex(builder, loc, call(builder, loc, uniformFunction, {argument})));
    mapping.map(passed.getArrayRef(), ArrayRef(arguments).take_front(passed.size()));
    scratchEnd = constant(0);
    if (hasPackets) {
      numCalls = arguments.back();
      placePackets();
    }
    for (Operation *above : arithmetic)
      if (auto buffer = dyn_cast<BufferOp>(above))
        addBuffer(buffer);
      else
        lowerOp(*above);
    build();
    LLVM::ReturnOp::create(builder, loc,
                           mayFail ? ValueRange(arith::ConstantIntOp::create(builder, loc, KOLO_DEVICE_OK, 32))
                                   : ValueRange());
  }
  call(builder, loc, name, operands);
}

} // namespace kolo::gpu
