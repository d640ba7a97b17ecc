// LowerMoves: from channel programs to functions over the plugin ABI.
//   Before:  kolo.chan.program @p { ... kolo.chan.put %b[%i] size [%c1] -> ... to %r part %l of %n ... }
//   After:   llvm.func @run.p(%invocation) -> i32 { ... scf loops over byte ranges { call @kolo.put(...) } ... }
//            llvm.func @scratchBytes.p(%shape) -> i64 { ... }
//            llvm.func @publish.p(%invocation) { the ops before kolo.chan.enter }
//
// Functions like scratchBytes give the size of published memory, of packet buffers, and of inboxes for devices. Only a
// program with published buffers has a function publish. LowerPeers.cpp makes one for devices on several hosts.
//
// A wait becomes a call of @kolo.wait, and a move out of packets a call of @kolo.receive; LowerWaits tests their
// results. Requires channel form, lanes placed.
#include "compiler/lower/MoveKind.h"
#include "compiler/project/Relations.h"
#include "targets/cpu/CodecFunctions.h"
#include "targets/cpu/Passes.h"
#include "targets/cpu/ProgramLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo::cpu {
#define GEN_PASS_DEF_LOWERMOVES
#include "targets/cpu/Passes.h.inc"

Value InvocationTables::isGiven(OpBuilder &builder, Location loc) const {
  Value counts = InvocationAccess(builder, loc, invocation).loadPointer(offsetof(KoloInvocation, blockCounts));
  return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, counts,
                              LLVM::ZeroOp::create(builder, loc, pointerType(builder)));
}

Value InvocationTables::hasRows(OpBuilder &builder, Location loc) const {
  if (!takesRows)
    return {};
  return isNotZero(builder, loc,
                   InvocationAccess(builder, loc, invocation).loadInteger(offsetof(KoloInvocation, hasRows)));
}

Value InvocationTables::count(OpBuilder &builder, Location loc, BufferRole role, Value block) const {
  size_t entry = offsetof(KoloInvocation, blockCounts) + size_t(role) * sizeof(void *);
  return InvocationAccess(builder, loc, invocation).loadTabled(entry, block);
}

Value InvocationTables::place(OpBuilder &builder, Location loc, BufferRole role, Value rank, Value block) const {
  InvocationAccess access(builder, loc, invocation);
  if (!rank)
    return access.loadTabled(offsetof(KoloInvocation, blockPlaces) + size_t(role) * sizeof(void *), block);
  return access.loadTabled(offsetof(KoloInvocation, peerPlaces) + size_t(role) * sizeof(void *), rank, block);
}

/// In this rank's memory.
Value InvocationTables::addressOf(OpBuilder &builder, Location loc, const NumbersPlace &place) const {
  InvocationAccess access(builder, loc, invocation);
  if (!isOfCaller(place.role))
    return advance(builder, loc, access.localBuffer(int(place.role)), toInteger(builder, loc, place.at));
  Value counts = access.loadPointer(offsetof(KoloInvocation, blockCounts) + size_t(place.role) * sizeof(void *));
  Value bytes = createMul(builder, loc, place.at, createConstant(builder, loc, sizeof(int64_t)));
  return advance(builder, loc, counts, toInteger(builder, loc, bytes));
}

Value InvocationTables::noted(OpBuilder &builder, Location loc, const NumbersPlace &place) const {
  Value address = addressOf(builder, loc, place);
  return toIndex(builder, loc, LLVM::LoadOp::create(builder, loc, builder.getI64Type(), address, 8));
}

void InvocationTables::note(OpBuilder &builder, Location loc, const NumbersPlace &from, const NumbersPlace &to,
                            Value number) const {
  Value size = createMul(builder, loc, number, createConstant(builder, loc, sizeof(int64_t)));
  Value bytes = toInteger(builder, loc, size), ordinary = constantI64(builder, loc, 0);
  auto call = [&](StringRef name, ValueRange arguments) {
    LLVM::CallOp::create(builder, loc, TypeRange(), name, arguments);
  };
  if (!to.rank && !from.rank)
    return call(copyFunction, {addressOf(builder, loc, to), addressOf(builder, loc, from), bytes, ordinary});
  const NumbersPlace &remote = to.rank ? to : from, &own = to.rank ? from : to;
  call(to.rank ? putFunction : getFunction,
       {invocation, toInteger(builder, loc, remote.rank), constantI64(builder, loc, int64_t(remote.role)),
        toInteger(builder, loc, remote.at), addressOf(builder, loc, own), bytes, ordinary});
}

static bool hasBuffers(ProgramOp program, BufferRole role) {
  return llvm::any_of(program.getBody().getOps<BufferOp>(), [&](BufferOp buffer) { return buffer.getRole() == role; });
}

LogicalResult ProgramLowering::run() {
  StringRef name = program.getSymName();
  if (failed(lowerBytes(BufferRole::Scratch, scratchFunctionName(name))))
    return failure();
  if (usesStagedNetwork(program) &&
      (failed(lowerBytes(BufferRole::Inbox, inboxFunctionName(name))) || failed(lowerPeers(program))))
    return failure();
  bool publishes = hasBuffers(program, BufferRole::Published);
  if (publishes && failed(lowerBytes(BufferRole::Published, publishedFunctionName(name))))
    return failure();
  if (hasBuffers(program, BufferRole::Packets) && failed(lowerBytes(BufferRole::Packets, packetsFunctionName(name))))
    return failure();
  if (publishes)
    lowerPublish();
  lowerRun();
  program.erase();
  return success();
}

/// Makes the function that gives the bytes which the buffers of a role take. It knows a KoloShape alone, so that the
/// extents of these buffers may depend on the sizes of the mesh and on nothing else.
LogicalResult ProgramLowering::lowerBytes(BufferRole role, const std::string &name) {
  auto function =
      createFunction(builder, module, name, builder.getI64Type(), {pointerType(builder)}, /*isExported=*/false);
  frame = Frame();
  InvocationAccess shape(builder, loc, function.getArgument(0));
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim)
    frame.dimSizes.push_back(shape.loadIndex(offsetof(KoloShape, dimSizes) + dim * sizeof(int64_t)));
  frame.call.count = shape.loadIndex(offsetof(KoloShape, count));
  frame.call.elementBytes = shape.loadIndex(offsetof(KoloShape, elementBytes));
  frame.call.alignment = createAlignment();
  frame.call.packetStride = createPacketStride(builder, loc, frame.call);
  frame.call.numLanes = shape.loadIndex(offsetof(KoloShape, numLanes));
  frame.call.hasNotes = !findTableObstacle(program);
  if (role == BufferRole::Inbox)
    frame.layout.partInboxes();
  for (auto buffer : program.getBody().getOps<BufferOp>()) {
    if (buffer.getRole() != role && memoryOf(buffer.getRole()) != role)
      continue;
    for (Value extent : buffer->getOperands())
      if (failed(cloneShapeArithmetic(extent)))
        return buffer.emitError() << "the grid of " << stringifyBufferRole(role) << " buffer '" << buffer.getName()
                                  << "' may depend on the sizes of mesh dimensions only";
    placeBuffer(buffer);
  }
  LLVM::ReturnOp::create(builder, loc, integer(frame.layout.end(builder, loc, role)));
  return success();
}

LogicalResult ProgramLowering::cloneShapeArithmetic(Value value) {
  if (frame.mapping.contains(value))
    return success();
  Operation *definition = value.getDefiningOp();
  if (auto size = dyn_cast_if_present<DimSizeOp>(definition)) {
    frame.mapping.map(value, frame.dimSizes[size.getDim()]);
    return success();
  }
  bool isLookup = isa_and_nonnull<LookupOp>(definition);
  if (!definition || (!isLookup && definition->getName().getDialectNamespace() == "kolo") ||
      !isMemoryEffectFree(definition))
    return failure();
  for (Value operand : definition->getOperands())
    if (failed(cloneShapeArithmetic(operand)))
      return failure();
  lowerOp(*definition);
  return success();
}

/// Begins a function over an invocation: reads from the invocation what most ops need.
void ProgramLowering::startFunction(const std::string &name, Type result) {
  auto function = createFunction(builder, module, name, result, {pointerType(builder)}, /*isExported=*/false);
  frame = Frame();
  bases.clear();
  frame.invocation = function.getArgument(0);
  CallValues &values = frame.call;
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim)
    frame.dimSizes.push_back(access().loadIndex(offsetof(KoloInvocation, dimSizes) + dim * sizeof(int64_t)));
  values.count = access().loadIndex(offsetof(KoloInvocation, count));
  values.elementBytes = access().loadIndex(offsetof(KoloInvocation, elementBytes));
  values.alignment = createAlignment();
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    Value elements = access().loadIndex(offsetof(KoloInvocation, blockElements) + role * sizeof(int64_t));
    Value isDense = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, elements, values.count);
    values.isDense = createAnd(builder, loc, values.isDense, isDense);
    values.blockElements[role] = elements;
  }
  if (!findTableObstacle(program)) {
    frame.tables = std::make_unique<InvocationTables>(frame.invocation, takesRowLists(program));
    values.tables = frame.tables.get();
    values.hasNotes = true;
    Value isEqual = arith::XOrIOp::create(builder, loc, frame.tables->isGiven(builder, loc),
                                          arith::ConstantIntOp::create(builder, loc, 1, 1));
    values.isDense = createAnd(builder, loc, values.isDense, isEqual);
  }
  values.packetStride = createPacketStride(builder, loc, values);
  values.numLanes = access().loadIndex(offsetof(KoloInvocation, numLanes));
}

void ProgramLowering::lowerPublish() {
  startFunction(publishFunctionName(program.getSymName()), Type());
  Block &body = program.getBody().front();
  for (Operation &op : llvm::make_range(body.begin(), (*program.getBody().getOps<EnterOp>().begin())->getIterator()))
    lowerOp(op);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Lowers all ops but the moves that publish. The arithmetic before kolo.chan.enter may be used behind it.
void ProgramLowering::lowerRun() {
  startFunction(runFunctionName(program.getSymName()), builder.getI32Type());
  bool isBeforeEnter = !program.getBody().getOps<EnterOp>().empty();
  for (Operation &op : program.getBody().front()) {
    isBeforeEnter &= !isa<EnterOp>(op);
    if (!isBeforeEnter || (op.getNumRegions() == 0 && !isa<MoveInterface>(op)))
      lowerOp(op);
  }
  LLVM::ReturnOp::create(builder, loc, constantI32(builder, loc, 0));
}

void ProgramLowering::lowerOwn(Operation &op) {
  auto read = [&](size_t offsetBytes) { frame.mapping.map(op.getResult(0), access().loadIndex(offsetBytes)); };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](CoordOp coord) { read(offsetof(KoloInvocation, coordinates) + coord.getDim() * sizeof(int64_t)); })
      .Case([&](RootOp) { read(offsetof(KoloInvocation, root)); })
      .Case([&](LaneOp) { read(offsetof(KoloInvocation, lane)); })
      .Case([&](NumLanesOp) { read(offsetof(KoloInvocation, numLanes)); })
      .Case([&](BufferOp buffer) { addBuffer(buffer); })
      .Case([&](MoveInterface move) { lowerMove(move); })
      .Case([&](DivideOp divide) { lowerDivide(divide); })
      .Case([&](FuseOp fuse) { lowerFuse(fuse); })
      .Case([&](SignalOp signal) { lowerSignal(signal); })
      .Case([&](WaitOp wait) { lowerWait(wait); })
      .Case([&](FlushOp) { access().callService(offsetof(KoloServices, flush), Type(), {}); })
      .Case([](EnterOp) {}) // the runtime runs the program once all ranks have entered, and its `publish` before
      .DefaultUnreachable("an op of the other phase");
}

void ProgramLowering::addBuffer(BufferOp buffer) {
  bases[buffer] = access().localBuffer(int(memoryOf(buffer.getRole())));
  placeBuffer(buffer);
}

/// Whether a move to this buffer uses non-temporal stores. The runtime asks for them where outputs exceed the caches,
/// and where other stores to memory that peers read take long.
Value ProgramLowering::storesNonTemporal(const PlacedBuffer &destination) {
  KoloNonTemporal bit = destination.role == BufferRole::Scratch ? KOLO_TO_SCRATCH : KOLO_TO_OUTPUT;
  if (bit == KOLO_TO_OUTPUT && destination.role != BufferRole::Output && destination.role != BufferRole::Published)
    return constantI64(builder, loc, 0);
  return arith::AndIOp::create(builder, loc, access().loadInteger(offsetof(KoloInvocation, nonTemporal)),
                               constantI64(builder, loc, bit));
}

void ProgramLowering::lowerMove(MoveInterface move) {
  if (lists)
    return listMove(move);
  const PlacedBuffer &source = bufferOf(move.getSource()), &destination = bufferOf(move.getDestination());
  Value sourceRank = mapped(move.getSourceRank()), destinationRank = mapped(move.getDestinationRank());
  const MoveKind kind = kindOf(move);
  const bool isAdding = isReducing(move);
  auto role = [&](const PlacedBuffer &buffer) { return constantI64(builder, loc, int64_t(buffer.role)); };
  buildRanges(move, [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
    OpBuilder::InsertionGuard guard(builder);
    if (!isInPackets(kind)) {
      Value isSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, length, constant(0));
      builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isSome).thenBlock());
    }
    if (isOfCaller(source.role) || isOfCaller(destination.role))
      lowerRows(move, sourceBegin, destinationBegin, length);
    if (kind == MoveKind::Convert)
      return lowerConversion(move, sourceBegin, destinationBegin, length, {});
    Value size = integer(createChunkBytes(builder, loc, frame.call, source.shape, length));
    auto from = [&] { return addressOf(move.getSource(), sourceBegin); };
    auto to = [&] { return addressOf(move.getDestination(), destinationBegin); };
    switch (kind) {
    case MoveKind::Convert:
      llvm_unreachable("lowered above");
    case MoveKind::Send:
      return call(
          functionsOf(*destination.shape.packets).send,
          {frame.invocation, integer(destinationRank), byteOffset(destination, destinationBegin), from(), size});
    case MoveKind::Receive: {
      Value target = to(), packets = from(), statement = constantI32(builder, loc, statements.numberOf(move.getLoc()));
      const PacketFunctionNames &names = functionsOf(*source.shape.packets);
      LLVM::CallOp::create(builder, loc, builder.getI32Type(), isAdding ? names.receiveReduce : names.receive,
                           ValueRange{frame.invocation, target, packets, isAdding ? integer(length) : size, statement});
      return;
    }
    case MoveKind::Put:
      return call(putFunction,
                  {frame.invocation, integer(destinationRank), role(destination),
                   byteOffset(destination, destinationBegin), from(), size, storesNonTemporal(destination)});
    case MoveKind::Get: {
      Value target = to(), rank = integer(sourceRank), placed = role(source), offset = byteOffset(source, sourceBegin);
      if (isAdding)
        return call(reduceFromFunction, {frame.invocation, rank, placed, offset, target, integer(length)});
      return call(getFunction, {frame.invocation, rank, placed, offset, target, size, storesNonTemporal(destination)});
    }
    case MoveKind::Local:
      Value target = to(), begin = from();
      if (isAdding)
        return call(reduceFunction, {frame.invocation, target, begin, integer(length)});
      // The input of an in-place call may be at its destination already.
      Value isElsewhere = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, target, begin);
      builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isElsewhere).thenBlock());
      call(copyFunction, {target, begin, size, storesNonTemporal(destination)});
    }
  });
}

/// Memory on the stack, for elements that are encoded or decoded between rows and other memory. A lane's tile is for
/// what goes to peers that are not mapped.
static Value allocatePiece(OpBuilder &builder, Location loc, Operation *inside, int64_t pieceBytes) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&inside->getParentOfType<LLVM::LLVMFuncOp>().getBody().front());
  return LLVM::AllocaOp::create(builder, loc, pointerType(builder), builder.getI8Type(),
                                constantI64(builder, loc, pieceBytes), 64);
}

/// One range in a call with row lists; nothing, if the program takes none. Leaves the builder where the code of other
/// calls belongs.
void ProgramLowering::lowerRows(MoveInterface move, Value sourceBegin, Value destinationBegin, Value length) {
  constexpr int64_t pieceBytes = 16384, mostElementBytes = 4;
  static_assert(pieceBytes % (codec::granule * mostElementBytes) == 0);
  Value hasRows = frame.tables ? frame.call.tables->hasRows(builder, loc) : Value();
  if (!hasRows)
    return;
  auto choice = scf::IfOp::create(builder, loc, hasRows, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  const PlacedBuffer &source = bufferOf(move.getSource()), &destination = bufferOf(move.getDestination());
  auto moveRows = [&](ValueRange arguments) {
    access().callService(offsetof(KoloServices, moveRows), Type(), arguments);
  };
  auto role = [&](const PlacedBuffer &buffer) { return constantI32(builder, loc, int64_t(buffer.role)); };
  if (kindOf(move) != MoveKind::Convert) {
    moveRows({holderOf(mapped(move.getDestinationRank())), role(destination), byteOffset(destination, destinationBegin),
              role(source), byteOffset(source, sourceBegin), integer(bytesOf(length))});
  } else {
    Value piece = allocatePiece(builder, loc, choice, pieceBytes);
    Value step = arith::DivUIOp::create(builder, loc, constant(pieceBytes), frame.call.elementBytes);
    auto loop = scf::ForOp::create(builder, loc, constant(0), length, step);
    builder.setInsertionPointToStart(loop.getBody());
    Value first = loop.getInductionVar();
    Value number = arith::MinSIOp::create(builder, loc, step, arith::SubIOp::create(builder, loc, length, first));
    Value from = createAdd(builder, loc, sourceBegin, first), to = createAdd(builder, loc, destinationBegin, first);
    Value self = holderOf({}), size = integer(bytesOf(number)), inPiece = constantI32(builder, loc, KOLO_ADDRESS);
    Value address = LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), piece);
    const bool isFromCaller = isOfCaller(source.role), isToCaller = isOfCaller(destination.role);
    if (isFromCaller)
      moveRows({self, inPiece, address, role(source), byteOffset(source, from), size});
    lowerConversion(move, from, to, number, {isFromCaller ? piece : Value(), isToCaller ? piece : Value()});
    if (isToCaller)
      moveRows({self, role(destination), byteOffset(destination, to), inPiece, address, size});
  }
  builder.setInsertionPointToStart(choice.elseBlock());
}

Value ProgramLowering::holderOf(Value rank) {
  if (rank)
    return integer(rank);
  SmallVector<Value> coordinates;
  for (size_t dim = 0; dim < frame.dimSizes.size(); ++dim)
    coordinates.push_back(access().loadIndex(offsetof(KoloInvocation, coordinates) + dim * sizeof(int64_t)));
  return integer(createLinear(builder, loc, coordinates, frame.dimSizes));
}

/// Of one range that has elements.
void ProgramLowering::lowerConversion(MoveInterface move, Value sourceBegin, Value destinationBegin, Value length,
                                      const ConvertedPlaces &aside) {
  const PlacedBuffer &source = bufferOf(move.getSource()), &destination = bufferOf(move.getDestination());
  bool isReducing = isa<ChannelReduceOp>(move.getOperation());
  const codec::Codec &from = source.shape.codec, &to = destination.shape.codec;
  Value sourceRank = mapped(move.getSourceRank()), destinationRank = mapped(move.getDestinationRank());
  Value rank = constantI64(builder, loc, 0), element = rank;
  if (to.isStochastic())
    rank = holderOf(sourceRank), element = integer(elementNumber(move, sourceBegin, destinationBegin));
  SmallVector<Value> arguments{frame.invocation};
  bool isPut = bool(destinationRank), isRemote = isPut || sourceRank;
  if (isRemote) {
    const PlacedBuffer &remote = isPut ? destination : source;
    Value bytes = createChunkBytes(builder, loc, frame.call, remote.shape, length);
    call(countFunction,
         {frame.invocation, constantI64(builder, loc, isPut ? KOLO_SENT : KOLO_FETCHED), integer(bytes)});
    arguments.append({integer(isPut ? destinationRank : sourceRank), constantI64(builder, loc, int64_t(remote.role)),
                      byteOffset(remote, isPut ? destinationBegin : sourceBegin)});
  }
  if (!isPut)
    arguments.push_back(aside.destination ? aside.destination : addressOf(move.getDestination(), destinationBegin));
  if (isPut || !isRemote)
    arguments.push_back(aside.source ? aside.source : addressOf(move.getSource(), sourceBegin));
  arguments.append({integer(length), rank, element, storesNonTemporal(destination),
                    createDescription(builder, loc, module, to), createDescription(builder, loc, module, from),
                    constantI64(builder, loc, isReducing)});
  call(isPut ? convertPutFunction : isRemote ? convertGetFunction : convertFunction, arguments);
}

void ProgramLowering::lowerDivide(DivideOp divide) {
  if (lists)
    return; // the fuse divides when it combines what is listed
  Value numRanks = groupSize();
  buildSliceRanges(divide, [&](OpBuilder &, Value begin, Value, Value length) {
    call(divideFunction, {frame.invocation, addressOf(divide.getBuffer(), begin), integer(length), integer(numRanks)});
  });
}

void ProgramLowering::lowerSignal(SignalOp signal) {
  access().callService(offsetof(KoloServices, signal), Type(),
                       {integer(mapped(signal.getRank())), constantI32(builder, loc, int64_t(signal.getSemaphore()))});
}

void ProgramLowering::lowerWait(WaitOp wait) {
  LLVM::CallOp::create(builder, loc, builder.getI32Type(), waitFunction,
                       ValueRange{frame.invocation, integer(mapped(wait.getRank())),
                                  constantI32(builder, loc, int64_t(wait.getSemaphore())),
                                  constantI32(builder, loc, statements.numberOf(wait.getLoc()))});
}

namespace {

struct LowerMoves : impl::LowerMovesBase<LowerMoves> {
  using LowerMovesBase::LowerMovesBase;

  void runOnOperation() override {
    defineMoveFunctions(getOperation());
    for (const PacketFormat &format : {llPackets, ll128Packets})
      if (llvm::any_of(getOperation().getOps<ProgramOp>(),
                       [&](ProgramOp program) { return packetFormatOf(program) == format; }))
        definePacketFunctions(getOperation(), format);
    declareCodedMoves(getOperation());
    for (const codec::Codec &codec : collectCodecs(getOperation()))
      defineRoundTrip(getOperation(), codec);
    for (auto program : llvm::make_early_inc_range(getOperation().getOps<ProgramOp>()))
      if (failed(ProgramLowering(program).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace kolo::cpu
