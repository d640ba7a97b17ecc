// The moves of a program: a function over byte ranges for each, and calls of them.
#include "compiler/lower/MoveKind.h"
#include "targets/Codecs.h"
#include "targets/gpu/KernelLowering.h"
#include "targets/gpu/LowerFuse.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace kolo::gpu {

/// In a peer's memory, or in this rank's for a null rank.
Value KernelLowering::beginOf(Value buffer, Value rank) {
  const PlacedBuffer &placed = bufferOf(buffer);
  const bool isInbox = placed.role == BufferRole::Inbox;
  const size_t entry = size_t(placed.role) * sizeof(void *);
  const size_t own =
      isInbox ? offsetof(KoloDeviceNetworkInvocation, inbox) : offsetof(KoloDeviceInvocation, local) + entry;
  const size_t ofPeers =
      isInbox ? offsetof(KoloDeviceNetworkInvocation, peerInboxes) : offsetof(KoloDeviceInvocation, peers) + entry;
  Value base = pointerField(rank ? ofPeers : own);
  if (rank) {
    Value number = integer(mapped(rank));
    if (isStaged())
      number = loadEntryNumber(builder, loc, frame.invocation, number);
    base = loadEntry(builder, loc, pointerType(builder), base, number);
  }
  return advance(builder, loc, base, integer(placed.offset));
}

void KernelLowering::lowerMove(MoveInterface move) {
  bool isPut = bool(move.getDestinationRank());
  settle(unsettled.writes || (!isPut && unsettled.reads));
  const MoveKind kind = kindOf(move);
  if (kind == MoveKind::Receive)
    return lowerReceive(move);
  if (kind == MoveKind::Convert) {
    settle(llvm::is_contained(unsettled.lists, true));
    return lowerConversion(move);
  }
  const bool isPushed = isStaged() && isPutToInbox(move);
  outline({move}, /*mayFail=*/isPushed, [&] {
    Side source = sideOf(move.getSource(), move.getSourceRank());
    Side destination = sideOf(move.getDestination(), move.getDestinationRank());
    buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
      Value from = addressIn(source, sourceBegin), to = addressIn(destination, destinationBegin);
      Value bytes = createChunkBytes(builder, loc, frame.call, source.buffer.shape, length);
      if (kind == MoveKind::Send)
        call(builder, loc, functionsOf(*destination.buffer.shape.packets).send,
             {to, from, integer(bytes), integer(kernel.sequence)});
      else if (isPushed)
        call(builder, loc, pushFunction,
             {frame.invocation, integer(mapped(move.getDestinationRank())),
              constantI64(builder, loc, statements.numberOf(move.getLoc())),
              offsetIn(destination.buffer, destinationBegin), from, integer(bytes)});
      else
        buildRange(move, from, to, {length, bytes});
    });
  });
  unsettled.reads = true;
  unsettled.writes |= !isPut;
}

/// The function has the barriers that it needs, and the lists are free between its calls.
void KernelLowering::lowerConversion(MoveInterface move) {
  const bool isPushed = isStaged() && isPutToInbox(move);
  outline({move}, /*mayFail=*/isPushed, [&] {
    Side source = sideOf(move.getSource(), move.getSourceRank());
    Side destination = sideOf(move.getDestination(), move.getDestinationRank());
    buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
      const Converted all = {source, sourceBegin, destinationBegin, length};
      if (isPushed)
        pushConverted(move, all);
      else
        convert(move, all, addressIn(destination, destinationBegin));
    });
  });
  unsettled = {};
}

void KernelLowering::convert(MoveInterface move, const Converted &range, Value target) {
  const bool isAdding = isReducing(move);
  const int64_t number = numberOf(codecs, bufferOf(move.getDestination()).shape.codec);
  auto constant = [&](int64_t value) { return constantI64(builder, loc, value); };
  Value from = constant(numberOf(codecs, range.source.buffer.shape.codec)), to = constant(number);
  Value list = call(builder, loc, listFunction);
  SmallVector<Value> sources{addressIn(range.source, range.sourceBegin), from};
  if (isAdding)
    sources.insert(sources.begin(), {target, to});
  buildForLeader(builder, loc, [&] {
    auto write = [&](int64_t entry, Value value) {
      LLVM::StoreOp::create(builder, loc, value, advance(builder, loc, list, constant(entry * 8)), 8);
    };
    for (auto [entry, value] : llvm::enumerate(sources))
      write(int64_t(entry), value);
    write(destinationEntries, target);
    write(destinationEntries + 1, to);
  });
  SmallVector<Value> arguments{
      constant(isAdding ? 2 : 1), constant(0), constant(1),      constant(int64_t(1) << number),
      integer(range.length),      kernel.type, kernel.reduction, isAdding ? to : from};
  llvm::append_range(
      arguments, drawKey(mapped(move.getSourceRank()), elementNumber(move, range.sourceBegin, range.destinationBegin)));
  call(builder, loc, convertFunction, arguments);
}

/// To the peer's inbox, or piece by piece to chunks of the outbox.
void KernelLowering::pushConverted(MoveInterface move, const Converted &all) {
  OpBuilder::InsertionGuard guard(builder);
  const PlacedBuffer &destination = bufferOf(move.getDestination());
  Value peer = integer(mapped(move.getDestinationRank()));
  Value statement = constantI64(builder, loc, statements.numberOf(move.getLoc()));
  Value inboxes = pointerField(offsetof(KoloDeviceNetworkInvocation, peerInboxes));
  Value inbox =
      loadEntry(builder, loc, pointerType(builder), inboxes, loadEntryNumber(builder, loc, frame.invocation, peer));
  auto choice = scf::IfOp::create(builder, loc, isNull(builder, loc, inbox), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.elseBlock());
  convert(move, all, advance(builder, loc, inbox, offsetIn(destination, all.destinationBegin)));
  builder.setInsertionPointToStart(choice.thenBlock());
  const codec::Codec &codec = destination.shape.codec;
  Value most =
      codec::isNone(codec)
          ? Value(arith::DivUIOp::create(builder, loc, constant(KOLO_DEVICE_CHUNK_BYTES), frame.call.elementBytes))
          : constant(KOLO_DEVICE_CHUNK_BYTES / codec::bytes(codec, codec::granule) * codec::granule);
  auto loop = scf::ForOp::create(builder, loc, constant(0), all.length, most);
  builder.setInsertionPointToStart(loop.getBody());
  Value done = loop.getInductionVar();
  Converted piece = {all.source, createAdd(builder, loc, all.sourceBegin, done),
                     createAdd(builder, loc, all.destinationBegin, done),
                     arith::MinSIOp::create(builder, loc, createSub(builder, loc, all.length, done), most)};
  call(builder, loc, claimFunction, {frame.invocation, peer, statement});
  convert(move, piece, call(builder, loc, chunkFunction, {frame.invocation}));
  Value bytes = createChunkBytes(builder, loc, frame.call, destination.shape, piece.length);
  call(builder, loc, commitFunction,
       {frame.invocation, peer, statement, offsetIn(destination, piece.destinationBegin), integer(bytes)});
}

/// All threads of the block have met when it returns.
void KernelLowering::lowerReceive(MoveInterface move) {
  const bool isAdding = isReducing(move);
  outline({move}, /*mayFail=*/true, [&] {
    Side source = sideOf(move.getSource(), move.getSourceRank());
    Side destination = sideOf(move.getDestination(), move.getDestinationRank());
    const PacketFunctionNames &names = functionsOf(*source.buffer.shape.packets);
    Value number = constantI64(builder, loc, statements.numberOf(move.getLoc()));
    buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
      SmallVector<Value> arguments{frame.invocation, integer(kernel.sequence), number,
                                   addressIn(destination, destinationBegin), addressIn(source, sourceBegin)};
      if (isAdding)
        llvm::append_values(arguments, integer(length), kernel.type, kernel.reduction);
      else
        arguments.push_back(integer(createChunkBytes(builder, loc, frame.call, destination.buffer.shape, length)));
      call(builder, loc, isAdding ? names.receiveReduce : names.receive, arguments);
    });
  });
  unsettled = {};
}

void KernelLowering::buildRange(MoveInterface move, Value from, Value to, const Length &length) {
  OpBuilder::InsertionGuard guard(builder);
  if (isReducing(move)) {
    call(builder, loc, reduceFunction, {to, from, integer(length.elements), kernel.type, kernel.reduction});
    return;
  }
  if (!move.getSourceRank() && !move.getDestinationRank()) {
    // The input of an in-place call may be at its destination already.
    Value isElsewhere = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, to, from);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isElsewhere).thenBlock());
  }
  call(builder, loc, copyFunction, {to, from, integer(length.bytes)});
}

void KernelLowering::lowerDivide(DivideOp divide) {
  settle(unsettled.reads || unsettled.writes);
  OpBuilder::InsertionGuard guard(builder);
  // Read here: not kept since the beginning.
  Value isAverage = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                          readField(offsetof(KoloDeviceInvocation, reduction)),
                                          constantI64(builder, loc, KOLO_AVERAGE));
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isAverage).thenBlock());
  outline({divide}, /*mayFail=*/false, [&] {
    Value numRanks = groupSize();
    Side side = sideOf(divide.getBuffer(), Value());
    buildSliceRanges(divide, [&](OpBuilder &, Value begin, Value, Value length) {
      call(builder, loc, divideFunction, {addressIn(side, begin), integer(length), kernel.type, integer(numRanks)});
    });
  });
  unsettled.reads = unsettled.writes = true;
}

/// The barriers behind the writing of the lists also order what threads did before.
void KernelLowering::lowerFuse(FuseOp fuse) {
  auto ranges = [&](Operation *op, RangeBuilder build) {
    if (auto move = dyn_cast<MoveInterface>(op))
      buildRanges(move, build);
    else
      buildSliceRanges(cast<FuseOp>(op), build);
  };
  auto address = [&](Value buffer, Value rank, Value element) { return addressIn(sideOf(buffer, rank), element); };
  auto arithmetic = [&](Operation &op) { lowerOp(op); };
  auto drawKeyOfChunk = [&](Value element) {
    return drawKey(Value(), elementNumber(bufferOf(fuse.getBuffer()), element));
  };
  auto codecNumber = [&](Value buffer) { return numberOf(codecs, codecOf(buffer)); };
  auto readReduction = [&] {
    return std::pair(readField(offsetof(KoloDeviceInvocation, type)),
                     readField(offsetof(KoloDeviceInvocation, reduction)));
  };
  settle(llvm::is_contained(unsettled.lists, true));
  outline({fuse}, /*mayFail=*/false, [&] {
    gpu::lowerFuse(fuse, {builder, loc, frame.mapping, frame.call.elementBytes, listEntries, readReduction, ranges,
                          address, arithmetic, codecNumber, drawKeyOfChunk, [&] { return groupSize(); }});
  });
  if (!fuse.isCoded())
    unsettled = Unsettled::all();
}

/// All buffers, and the arithmetic that they and the ops depend on, in the order of the text. `passed` becomes the
/// values that this arithmetic needs from the caller.
SmallVector<Operation *> KernelLowering::arithmeticAbove(ArrayRef<Operation *> ops, llvm::SetVector<Value> &passed) {
  llvm::SetVector<Value> used;
  for (Operation *op : ops) {
    used.insert(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), used);
  }
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

/// Begins a function's frame: reads the invocation, and gets the values that the caller passes, which are the same for
/// all threads of the block.
void KernelLowering::readArguments(LLVM::LLVMFuncOp function, ArrayRef<Value> passed) {
  frame.invocation = function.getArgument(0);
  readShape();
  readCall();
  SmallVector<Value> arguments;
  for (Value argument : function.getArguments().drop_front())
    arguments.push_back(toIndex(builder, loc, call(builder, loc, uniformFunction, {argument})));
  frame.mapping.map(passed, ArrayRef(arguments).take_front(passed.size()));
  if (hasPackets) {
    kernel.numCalls = arguments.back();
    placePackets();
  }
}

/// Builds ops in a function of their own, and calls the function here: a program with many moves would otherwise keep
/// more values alive than there are registers. For the same reason the function computes the ops' operands again, as
/// far as it can. A function that may fail gives a status, like a wait.
void KernelLowering::outline(ArrayRef<Operation *> ops, bool mayFail, function_ref<void()> build) {
  llvm::SetVector<Value> passed;
  SmallVector<Operation *> arithmetic = arithmeticAbove(ops, passed);
  SmallVector<Value> operands{frame.invocation};
  for (Value value : passed)
    operands.push_back(integer(mapped(value)));
  if (hasPackets)
    operands.push_back(integer(kernel.numCalls));
  StringRef prefix = mayFail ? StringRef(fallibleMovePrefix) : StringRef("move.");
  std::string name = (prefix + program.getSymName() + "." + Twine(numMoves++)).str();
  {
    OpBuilder::InsertionGuard guard(builder);
    llvm::SaveAndRestore outside(frame, Frame());
    llvm::SaveAndRestore outsideKernel(kernel, KernelFrame());
    auto function = createFunctionOf(name, mayFail ? builder.getI32Type() : Type(), ValueRange(operands).getTypes(),
                                     Inlining::Never);
    readArguments(function, passed.getArrayRef());
    for (Operation *above : arithmetic)
      if (auto buffer = dyn_cast<BufferOp>(above))
        placeBuffer(buffer);
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
