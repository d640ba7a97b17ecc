// LowerMoves: from channel programs to functions over the plugin ABI.
//   Before:  kolo.chan.program @p { ... kolo.chan.put %b[%i] size [%c1] -> ... to %r part %l of %n ... }
//   After:   llvm.func @run.p(%invocation) -> i32 { ... scf loops over byte ranges { call @kolo.put(...) } ... }
//            llvm.func @scratchBytes.p(%shape) -> i64, and the like for published memory and packets
//            llvm.func @publish.p(%invocation) { what comes before kolo.chan.enter } where there is published memory
// A wait becomes a call of @kolo.wait, and what reads packets one of @kolo.receive, whose results LowerWaits looks at.
// Requires channel form, lanes placed.
#include "targets/cpu/Passes.h"
#include "targets/cpu/ProgramLowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo::cpu {
#define GEN_PASS_DEF_LOWERMOVES
#include "targets/cpu/Passes.h.inc"

/// Buffers of the program's own follow each other, each at a multiple of this. What is published is best in few cache
/// lines.
static int64_t alignmentBytesOf(BufferRole role, const BufferShape &shape) {
  int64_t leastBytes = role == BufferRole::Published ? 8 : 64;
  return shape.packets ? std::max(leastBytes, shape.packets->bytes) : leastBytes;
}

LogicalResult ProgramLowering::run() {
  StringRef name = program.getSymName();
  if (failed(lowerBytes(BufferRole::Scratch, scratchFunctionName(name))))
    return failure();
  bool publishes = hasBuffers(BufferRole::Published);
  if (publishes && failed(lowerBytes(BufferRole::Published, publishedFunctionName(name))))
    return failure();
  if (hasBuffers(BufferRole::Packets) && failed(lowerBytes(BufferRole::Packets, packetsFunctionName(name))))
    return failure();
  if (publishes)
    lowerPublish();
  lowerRun();
  program.erase();
  return success();
}

bool ProgramLowering::hasBuffers(BufferRole role) {
  return llvm::any_of(program.getBody().getOps<BufferOp>(), [&](BufferOp buffer) { return buffer.getRole() == role; });
}

/// Adds up the buffers of a role. Their extents may depend on the sizes of the mesh alone, which is all that a
/// KoloShape has.
LogicalResult ProgramLowering::lowerBytes(BufferRole role, const std::string &name) {
  auto function =
      createFunction(builder, module, name, builder.getI64Type(), {pointerType(builder)}, /*isExported=*/false);
  InvocationAccess shape(builder, loc, function.getArgument(0));
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim)
    dimSizes.push_back(shape.loadIndex(offsetof(KoloShape, dimSizes) + dim * sizeof(int64_t)));
  callValues.count = shape.loadIndex(offsetof(KoloShape, count));
  elementBytes = shape.loadIndex(offsetof(KoloShape, elementBytes));
  callValues.alignment = createAlignment();
  packetStride = createPacketStride(builder, loc, callValues);
  numLanes = shape.loadIndex(offsetof(KoloShape, numLanes));
  Value total = constant(0);
  for (auto buffer : program.getBody().getOps<BufferOp>()) {
    if (buffer.getRole() != role)
      continue;
    for (Value extent : buffer->getOperands())
      if (failed(cloneShapeArithmetic(extent)))
        return buffer.emitError() << "the grid of " << stringifyBufferRole(role) << " buffer '" << buffer.getName()
                                  << "' may depend on the sizes of mesh dimensions only";
    total = createAdd(builder, loc, total, createSize(role, shapeOf(buffer)));
  }
  LLVM::ReturnOp::create(builder, loc, integer(total));
  forgetFunction();
  return success();
}

void ProgramLowering::forgetFunction() {
  mapping.clear();
  dimSizes.clear();
  blockElements.clear();
  callValues = {};
  buffers.clear();
}

LogicalResult ProgramLowering::cloneShapeArithmetic(Value value) {
  if (mapping.contains(value))
    return success();
  Operation *definition = value.getDefiningOp();
  if (auto size = dyn_cast_if_present<DimSizeOp>(definition)) {
    mapping.map(value, dimSizes[size.getDim()]);
    return success();
  }
  if (!definition || definition->getName().getDialectNamespace() == "kolo" || !isMemoryEffectFree(definition))
    return failure();
  for (Value operand : definition->getOperands())
    if (failed(cloneShapeArithmetic(operand)))
      return failure();
  builder.clone(*definition, mapping);
  return success();
}

BufferShape ProgramLowering::shapeOf(BufferOp buffer) {
  auto map = [&](Value value) { return mapped(value); };
  return {llvm::map_to_vector<6>(buffer.getGrid(), map), unsigned(buffer.getBlocks()), mapped(buffer.getCut()),
          buffer.getRole() == BufferRole::Packets ? packetStride : Value(), packetFormatOf(buffer)};
}

/// Bytes of one buffer, rounded up so that the next one starts aligned.
Value ProgramLowering::createSize(BufferRole role, const BufferShape &shape) {
  Value number = shape.packets ? createNumPackets(builder, loc, callValues, shape, numLanes)
                               : createNumElements(builder, loc, callValues, shape);
  Value alignment = constant(alignmentBytesOf(role, shape)), bytes = bytesTo(shape, number);
  return createMul(builder, loc, arith::CeilDivUIOp::create(builder, loc, bytes, alignment), alignment);
}

/// A function over an invocation, up to where its first op goes.
void ProgramLowering::startFunction(const std::string &name, Type result) {
  auto function = createFunction(builder, module, name, result, {pointerType(builder)}, /*isExported=*/false);
  invocation = function.getArgument(0);
  InvocationAccess access(builder, loc, invocation);
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim)
    dimSizes.push_back(access.loadIndex(offsetof(KoloInvocation, dimSizes) + dim * sizeof(int64_t)));
  callValues.count = access.loadIndex(offsetof(KoloInvocation, count));
  elementBytes = access.loadIndex(offsetof(KoloInvocation, elementBytes));
  callValues.alignment = createAlignment();
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    Value elements = access.loadIndex(offsetof(KoloInvocation, blockElements) + role * sizeof(int64_t));
    Value isDense = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, elements, callValues.count);
    callValues.isDense = createAnd(builder, loc, callValues.isDense, isDense);
    blockElements.push_back(elements);
  }
  packetStride = createPacketStride(builder, loc, callValues);
  numLanes = access.loadIndex(offsetof(KoloInvocation, numLanes));
  ends.assign(KOLO_NUM_BUFFER_ROLES, constant(0));
}

void ProgramLowering::lowerPublish() {
  startFunction(publishFunctionName(program.getSymName()), Type());
  Block &body = program.getBody().front();
  for (Operation &op : llvm::make_range(body.begin(), (*program.getBody().getOps<EnterOp>().begin())->getIterator()))
    lowerOp(op);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
  forgetFunction();
}

/// All but what publishes, whose arithmetic may be used further on.
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

void ProgramLowering::lowerBlock(Block &block) {
  for (Operation &op : block)
    lowerOp(op);
}

void ProgramLowering::lowerOp(Operation &op) {
  InvocationAccess access(builder, loc, invocation);
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](DimSizeOp size) { mapping.map(size.getResult(), dimSizes[size.getDim()]); })
      .Case([&](CoordOp coord) {
        mapping.map(coord.getResult(),
                    access.loadIndex(offsetof(KoloInvocation, coordinates) + coord.getDim() * sizeof(int64_t)));
      })
      .Case([&](RootOp root) { mapping.map(root.getResult(), access.loadIndex(offsetof(KoloInvocation, root))); })
      .Case([&](LaneOp lane) { mapping.map(lane.getResult(), access.loadIndex(offsetof(KoloInvocation, lane))); })
      .Case([&](NumLanesOp lanes) {
        mapping.map(lanes.getResult(), access.loadIndex(offsetof(KoloInvocation, numLanes)));
      })
      .Case([&](BufferOp buffer) { addBuffer(buffer); })
      .Case([&](LookupOp lookup) { lowerLookup(lookup); })
      .Case([&](MoveInterface move) { lowerMove(move); })
      .Case([&](DivideOp divide) { lowerDivide(divide); })
      .Case([&](FuseOp fuse) { lowerFuse(fuse); })
      .Case([&](SignalOp signal) { lowerSignal(signal); })
      .Case([&](WaitOp wait) { lowerWait(wait); })
      .Case([](FlushOp) {}) // a put is complete when its call returns
      .Case([](EnterOp) {}) // the runtime runs the program once all ranks have entered, and its `publish` before
      .Default([&](Operation *other) {
        if (other->getNumRegions() != 0)
          lowerRegions(*other);
        else
          builder.clone(*other, mapping);
      });
}

/// Clones a loop or a condition, and lowers what is in it.
void ProgramLowering::lowerRegions(Operation &op) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *shell = builder.cloneWithoutRegions(op, mapping);
  for (auto [from, to] : llvm::zip_equal(op.getRegions(), shell->getRegions())) {
    if (from.empty())
      continue;
    Block &block = to.emplaceBlock();
    for (BlockArgument argument : from.getArguments())
      mapping.map(argument, block.addArgument(argument.getType(), argument.getLoc()));
    builder.setInsertionPointToEnd(&block);
    lowerBlock(from.front());
  }
}

void ProgramLowering::addBuffer(BufferOp buffer) {
  int64_t role = int64_t(buffer.getRole());
  BufferValues values{role, shapeOf(buffer), Value(), constant(0)};
  if (isOfCaller(buffer.getRole()))
    values.shape.stride = blockElements[size_t(role)];
  values.base = InvocationAccess(builder, loc, invocation).localBuffer(int(role));
  if (!isOfCaller(buffer.getRole())) {
    Value &end = ends[size_t(role)];
    values.offset = end;
    end = createAdd(builder, loc, end, createSize(buffer.getRole(), values.shape));
  }
  buffers[buffer] = std::move(values);
}

SliceValues ProgramLowering::sliceOf(Value buffer, OperandRange offsets, OperandRange sizes) {
  const BufferValues &values = buffers.find(buffer)->second;
  auto map = [&](Value value) { return mapped(value); };
  return {values.shape, llvm::map_to_vector<6>(offsets, map), llvm::map_to_vector<6>(sizes, map)};
}

/// Where the call's buffers exceed the caches: into outputs, and into what is published only to be moved on. A core
/// takes long to write what a far one has just read, which is the case of published memory whenever it is used again.
/// What is combined, and what goes to scratch memory, is read again soon, and best from the cache.
Value ProgramLowering::storesNonTemporal(const BufferValues &destination) {
  if (destination.role != KOLO_OUTPUT && (destination.role != KOLO_PUBLISHED || reduces))
    return constantI64(builder, loc, 0);
  return InvocationAccess(builder, loc, invocation).loadInteger(offsetof(KoloInvocation, nonTemporal));
}

void ProgramLowering::lowerMove(MoveInterface move) {
  if (lists)
    return listMove(move);
  const BufferValues &source = buffers.find(move.getSource())->second;
  const BufferValues &destination = buffers.find(move.getDestination())->second;
  Value sourceRank = mapped(move.getSourceRank()), destinationRank = mapped(move.getDestinationRank());
  bool isReducing = isa<ChannelReduceOp>(move.getOperation());
  auto build = [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
    OpBuilder::InsertionGuard guard(builder);
    // What is empty arrives too, in a packet.
    if (destination.role != KOLO_PACKETS && source.role != KOLO_PACKETS) {
      Value isSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, length, constant(0));
      builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isSome).thenBlock());
    }
    Value size = integer(bytesOf(length));
    if (destination.role == KOLO_PACKETS)
      return call(functionsOf(*destination.shape.packets).send,
                  {invocation, integer(destinationRank), byteOffset(destination, destinationBegin),
                   addressOf(source, sourceBegin), size});
    if (destinationRank)
      return call(putFunction, {invocation, integer(destinationRank), constantI64(builder, loc, destination.role),
                                byteOffset(destination, destinationBegin), addressOf(source, sourceBegin), size,
                                storesNonTemporal(destination)});
    Value target = addressOf(destination, destinationBegin);
    if (sourceRank && isReducing)
      return call(reduceFromFunction, {invocation, integer(sourceRank), constantI64(builder, loc, source.role),
                                       byteOffset(source, sourceBegin), target, integer(length)});
    if (sourceRank)
      return call(getFunction, {invocation, integer(sourceRank), constantI64(builder, loc, source.role),
                                byteOffset(source, sourceBegin), target, size, storesNonTemporal(destination)});
    Value from = addressOf(source, sourceBegin);
    if (source.role == KOLO_PACKETS) {
      Value statement = constantI32(builder, loc, statements.numberOf(move.getLoc()));
      const PacketFunctionNames &names = functionsOf(*source.shape.packets);
      LLVM::CallOp::create(builder, loc, builder.getI32Type(), isReducing ? names.receiveReduce : names.receive,
                           ValueRange{invocation, target, from, isReducing ? integer(length) : size, statement});
      return;
    }
    if (isReducing)
      return call(reduceFunction, {invocation, target, from, integer(length)});
    // An in-place call finds its input where it belongs already.
    Value isElsewhere = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, target, from);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isElsewhere).thenBlock());
    call(copyFunction, {target, from, size, storesNonTemporal(destination)});
  };
  buildRangeLoops(builder, loc, callValues, sliceOf(move.getSource(), move.getSourceOffsets(), move.getSourceSizes()),
                  sliceOf(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes()),
                  {mapped(move.getPart()), mapped(move.getParts())}, build);
}

Value ProgramLowering::groupSize() {
  Value numRanks = constant(1);
  for (int64_t dim : program.getCollective().getGroupDims())
    numRanks = createMul(builder, loc, numRanks, dimSizes[size_t(dim)]);
  return numRanks;
}

void ProgramLowering::lowerDivide(DivideOp divide) {
  if (lists)
    return; // comes with the moves that are being listed
  const BufferValues &buffer = buffers.find(divide.getBuffer())->second;
  Value numRanks = groupSize();
  SliceValues slice = sliceOf(divide.getBuffer(), divide.getOffsets(), divide.getSizes());
  buildRangeLoops(builder, loc, callValues, slice, slice, {mapped(divide.getPart()), mapped(divide.getParts())},
                  [&](OpBuilder &, Value begin, Value, Value length) {
                    call(divideFunction, {invocation, addressOf(buffer, begin), integer(length), integer(numRanks)});
                  });
}

void ProgramLowering::lowerSignal(SignalOp signal) {
  InvocationAccess(builder, loc, invocation)
      .callService(offsetof(KoloServices, signal), Type(),
                   {integer(mapped(signal.getRank())), constantI32(builder, loc, int64_t(signal.getSemaphore()))});
}

void ProgramLowering::lowerWait(WaitOp wait) {
  LLVM::CallOp::create(builder, loc, builder.getI32Type(), waitFunction,
                       ValueRange{invocation, integer(mapped(wait.getRank())),
                                  constantI32(builder, loc, int64_t(wait.getSemaphore())),
                                  constantI32(builder, loc, statements.numberOf(wait.getLoc()))});
}

void ProgramLowering::lowerLookup(LookupOp lookup) {
  ArrayRef<int64_t> table = lookup.getTable();
  std::string name = ("table." + program.getSymName() + "." + Twine(numTables++)).str();
  auto type = LLVM::LLVMArrayType::get(builder.getI64Type(), unsigned(table.size()));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           builder.getI64TensorAttr(table));
  }
  Value base = LLVM::AddressOfOp::create(builder, loc, pointerType(builder), name);
  Value address = LLVM::GEPOp::create(builder, loc, pointerType(builder), builder.getI64Type(), base,
                                      ArrayRef<LLVM::GEPArg>{integer(mapped(lookup.getIndex()))});
  Value entry = LLVM::LoadOp::create(builder, loc, builder.getI64Type(), address);
  mapping.map(lookup.getResult(), toIndex(builder, loc, entry));
}

namespace {

struct LowerMoves : impl::LowerMovesBase<LowerMoves> {
  using LowerMovesBase::LowerMovesBase;

  void runOnOperation() override {
    defineMoveFunctions(getOperation());
    for (const PacketFormat &format : {llPackets, ll128Packets}) {
      WalkResult found = getOperation().walk([&](BufferOp buffer) {
        return packetFormatOf(buffer) == format ? WalkResult::interrupt() : WalkResult::advance();
      });
      if (found.wasInterrupted())
        definePacketFunctions(getOperation(), format);
    }
    for (auto program : llvm::make_early_inc_range(getOperation().getOps<ProgramOp>()))
      if (failed(ProgramLowering(program).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace kolo::cpu
