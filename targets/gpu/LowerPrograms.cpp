// LowerPrograms: from channel programs to kernels over the device ABI.
//   Before:  kolo.chan.program @p { ... kolo.chan.put %b[%i] size [%c1] -> ... to %r part %l of %n ... }
//   After:   llvm.func @run.p(%invocation) -> i32 { ... scf loops over byte ranges { call @kolo.copy(...) } ... }
//            llvm.func @p(%invocations) { call @run.p(%invocations + kolo.entry) }
// All threads of a block run the same text: what decides where they go is the same for all, and only the functions that
// move, signal and wait tell them apart. The element type and the reduction are numbers of the call, as on the host, so that a
// program is one kernel. A wait becomes a call of @kolo.wait, whose result LowerFailures looks at. Requires channel form, lanes
// placed.
#include "compiler/lower/ChunkLoops.h"
#include "ir/IndexArithmetic.h"
#include "targets/Statements.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace kolo::gpu {
#define GEN_PASS_DEF_LOWERPROGRAMS
#include "targets/gpu/Passes.h.inc"

namespace {

/// Scratch buffers follow each other, each at a multiple of this: as KoloProgram.scratchBytes counts them.
constexpr int64_t scratchAlignmentBytes = 64;

class KernelLowering {
public:
  explicit KernelLowering(ProgramOp program)
      : program(program), module(program->getParentOfType<ModuleOp>()), builder(program.getContext()),
        loc(program.getLoc()), statements(collectStatements(program)) {}

  void run();

private:
  struct BufferValues {
    int64_t role;
    BufferShape shape;
    Value offset; // bytes from the role's base to this buffer, of type index
  };
  /// What threads of the block may not have done yet with this rank's memory, as far as no barrier settled it.
  struct Unsettled {
    bool reads = false, writes = false;
  };

  std::string createRun();
  void readCall();
  void lowerBlock(Block &block);
  void lowerOp(Operation &op);
  void lowerRegions(Operation &op);
  void lowerMove(MoveInterface move);
  /// All that the code of a move depends on, beside its kind.
  struct MoveValues {
    struct Side {
      SliceValues slice;
      int64_t role;
      Value offset, peer; // see BufferValues; null: here
      Value base;         // where the role's memory begins, inside of the move's function
    };
    Side source, destination;
    PartValues part;
    Value numRanks; // of a division
    void forEach(function_ref<void(Value &)> visit);
  };
  Value baseOf(const MoveValues::Side &side);
  Value addressIn(const MoveValues::Side &side, Value firstElement);
  void outline(const MoveValues &values, function_ref<void(const MoveValues &)> build);
  void buildRange(MoveInterface move, Value from, Value to, Value length);
  void lowerDivide(DivideOp divide);
  void lowerSignal(SignalOp signal);
  void lowerWait(WaitOp wait);
  void lowerLookup(LookupOp lookup);
  void addBuffer(BufferOp buffer);
  void settle(bool isNeeded);

  Value mapped(Value value) { return value ? mapping.lookupOrDefault(value) : Value(); }
  SliceValues sliceOf(Value buffer, OperandRange offsets, OperandRange sizes);
  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value integer(Value index) { return toInteger(builder, loc, index); }
  Value field(size_t offset) {
    return toIndex(builder, loc, load(builder, loc, builder.getI64Type(), invocation, int64_t(offset)));
  }
  Value pointerField(size_t offset) { return load(builder, loc, pointerType(builder), invocation, int64_t(offset)); }
  Value primitive(StringRef name) { return toIndex(builder, loc, call(builder, loc, name)); }
  Value bytesOf(Value elements) { return createMul(builder, loc, elements, elementBytes); }

  ProgramOp program;
  ModuleOp module;
  OpBuilder builder;
  Location loc;
  StatementTable statements;
  IRMapping mapping;
  Value invocation, elementBytes, scratchEnd, type, reduction;
  CallValues callValues;
  SmallVector<Value, KOLO_MAX_MESH_DIMS> dimSizes, coordinates;
  llvm::DenseMap<Value, BufferValues> buffers;
  Unsettled unsettled;
  int numTables = 0, numMoves = 0;
};

void KernelLowering::run() {
  std::string run = createRun();
  auto entry = createFunction(builder, module, program.getSymName(), Type(), {pointerType(builder)}, Inlining::Never);
  entry.setLinkage(LLVM::Linkage::External);
  Value offset = arith::MulIOp::create(builder, loc, call(builder, loc, entryFunction),
                                       constantI64(builder, loc, sizeof(KoloDeviceInvocation)));
  call(builder, loc, run, {advance(builder, loc, entry.getArgument(0), offset)});
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

std::string KernelLowering::createRun() {
  std::string name = ("run." + program.getSymName()).str();
  auto function = createFunction(builder, module, name, builder.getI32Type(), {pointerType(builder)}, Inlining::IfUseful);
  invocation = function.getArgument(0);
  // All fields once, here: a store may hit any memory, so that nothing would be known of them later.
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim) {
    dimSizes.push_back(field(offsetof(KoloDeviceInvocation, dimSizes) + dim * sizeof(int64_t)));
    coordinates.push_back(field(offsetof(KoloDeviceInvocation, coordinates) + dim * sizeof(int64_t)));
  }
  readCall();
  scratchEnd = constant(0);
  lowerBlock(program.getBody().front());
  LLVM::ReturnOp::create(builder, loc, arith::ConstantIntOp::create(builder, loc, KOLO_DEVICE_OK, 32));
  return name;
}

/// What the call says of elements: in the function at hand.
void KernelLowering::readCall() {
  Type i64 = builder.getI64Type();
  callValues.count = field(offsetof(KoloDeviceInvocation, count));
  Value bytes = load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, elementBytes));
  elementBytes = toIndex(builder, loc, bytes);
  type = load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, type));
  reduction = load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, reduction));
  // Elements in 16 bytes; their size is a power of two.
  Value places = LLVM::CountTrailingZerosOp::create(builder, loc, i64, bytes, /*is_zero_poison=*/true);
  callValues.alignment = toIndex(builder, loc, arith::ShRUIOp::create(builder, loc, constantI64(builder, loc, 16), places));
}

void KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block)
    lowerOp(op);
}

void KernelLowering::lowerOp(Operation &op) {
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](DimSizeOp size) { mapping.map(size.getResult(), dimSizes[size.getDim()]); })
      .Case([&](CoordOp coord) { mapping.map(coord.getResult(), coordinates[coord.getDim()]); })
      .Case([&](RootOp root) { mapping.map(root.getResult(), field(offsetof(KoloDeviceInvocation, root))); })
      .Case([&](LaneOp lane) { mapping.map(lane.getResult(), primitive(laneFunction)); })
      .Case([&](NumLanesOp lanes) { mapping.map(lanes.getResult(), primitive(numLanesFunction)); })
      .Case([&](BufferOp buffer) { addBuffer(buffer); })
      .Case([&](LookupOp lookup) { lowerLookup(lookup); })
      .Case([&](MoveInterface move) { lowerMove(move); })
      .Case([&](DivideOp divide) { lowerDivide(divide); })
      // One move after the other gives the same as element by element: what is written is read in no other chunk.
      .Case([&](FuseOp fuse) { lowerBlock(fuse.getBody().front()); })
      .Case([&](SignalOp signal) { lowerSignal(signal); })
      .Case([&](WaitOp wait) { lowerWait(wait); })
      .Case([&](FlushOp) { settle(unsettled.reads); }) // other threads' puts have read their sources then
      .Default([&](Operation *other) {
        if (other->getNumRegions() != 0)
          lowerRegions(*other);
        else
          builder.clone(*other, mapping);
      });
}

/// Clones a loop or a condition, and lowers what is in it.
void KernelLowering::lowerRegions(Operation &op) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *shell = builder.cloneWithoutRegions(op, mapping);
  for (auto [from, to] : llvm::zip_equal(op.getRegions(), shell->getRegions())) {
    if (from.empty())
      continue;
    Block &block = to.emplaceBlock();
    for (BlockArgument argument : from.getArguments())
      mapping.map(argument, block.addArgument(argument.getType(), argument.getLoc()));
    builder.setInsertionPointToEnd(&block);
    unsettled = {true, true}; // an earlier iteration may come before
    lowerBlock(from.front());
  }
  unsettled = {true, true};
}

/// A barrier, if the next op needs what threads did before to be done.
void KernelLowering::settle(bool isNeeded) {
  if (!isNeeded)
    return;
  call(builder, loc, barrierFunction);
  unsettled = {};
}

void KernelLowering::addBuffer(BufferOp buffer) {
  auto map = [&](Value value) { return mapped(value); };
  int64_t role = int64_t(buffer.getRole());
  BufferValues values{role,
                      {llvm::map_to_vector<6>(buffer.getGrid(), map), unsigned(buffer.getBlocks()), mapped(buffer.getCut())},
                      constant(0)};
  if (buffer.getRole() == BufferRole::Scratch) {
    values.offset = scratchEnd;
    Value bytes = bytesOf(createNumElements(builder, loc, callValues, values.shape));
    Value units = arith::CeilDivUIOp::create(builder, loc, bytes, constant(scratchAlignmentBytes));
    scratchEnd = createAdd(builder, loc, scratchEnd, createMul(builder, loc, units, constant(scratchAlignmentBytes)));
  }
  buffers[buffer] = std::move(values);
}

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
                       Value()};
  outline(values, [&](const MoveValues &inner) {
    buildRangeLoops(builder, loc, callValues, inner.source.slice, inner.destination.slice, inner.part,
                    [&](OpBuilder &, Value sourceBegin, Value destinationBegin, Value length) {
                      buildRange(move, addressIn(inner.source, sourceBegin), addressIn(inner.destination, destinationBegin),
                                 length);
                    });
  });
  unsettled.reads = true;
  unsettled.writes |= !isPut;
}

Value KernelLowering::addressIn(const MoveValues::Side &side, Value firstElement) {
  return advance(builder, loc, side.base, integer(createAdd(builder, loc, side.offset, bytesOf(firstElement))));
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
  MoveValues values = {side, side, {mapped(divide.getPart()), mapped(divide.getParts())}, numRanks};
  OpBuilder::InsertionGuard guard(builder);
  Value isAverage = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, reduction,
                                          constantI64(builder, loc, KOLO_AVERAGE));
  builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isAverage).thenBlock());
  outline(values, [&](const MoveValues &inner) {
    buildRangeLoops(builder, loc, callValues, inner.source.slice, inner.source.slice, inner.part,
                    [&](OpBuilder &, Value begin, Value, Value length) {
                      call(builder, loc, divideFunction,
                           {addressIn(inner.source, begin), integer(length), type, integer(inner.numRanks)});
                    });
  });
  unsettled = {true, true};
}

void KernelLowering::MoveValues::forEach(function_ref<void(Value &)> visit) {
  for (Value *value : {&part.part, &part.parts, &numRanks})
    visit(*value);
  for (Side *side : {&source, &destination}) {
    for (SmallVectorImpl<Value> *values : {static_cast<SmallVectorImpl<Value> *>(&side->slice.buffer.grid),
                                           static_cast<SmallVectorImpl<Value> *>(&side->slice.offsets),
                                           static_cast<SmallVectorImpl<Value> *>(&side->slice.sizes)})
      llvm::for_each(*values, visit);
    for (Value *value : {&side->slice.buffer.cut, &side->offset, &side->peer})
      visit(*value);
  }
}

/// Puts what a move takes into a function of its own, and a call of it here: a program with many moves would otherwise keep
/// more numbers alive than there are registers. Constants, and which values are the same, stay known in it; fields of the
/// invocation are read there again.
void KernelLowering::outline(const MoveValues &values, function_ref<void(const MoveValues &)> build) {
  MoveValues inner = values;
  llvm::SetVector<Value> arguments;
  inner.forEach([&](Value &value) {
    if (value && !getConstantIntValue(value))
      arguments.insert(value);
  });
  SmallVector<Value> operands{invocation};
  for (Value value : arguments)
    operands.push_back(integer(value));
  std::string name = ("move." + program.getSymName() + "." + Twine(numMoves++)).str();
  {
    OpBuilder::InsertionGuard guard(builder);
    auto function = createFunction(builder, module, name, Type(), llvm::to_vector(ValueRange(operands).getTypes()),
                                   Inlining::Never);
    IRMapping insideOf;
    for (auto [value, argument] : llvm::zip_equal(arguments, function.getArguments().drop_front()))
      insideOf.map(value, toIndex(builder, loc, call(builder, loc, uniformFunction, {argument})));
    inner.forEach([&](Value &value) {
      if (value)
        value = insideOf.contains(value) ? insideOf.lookup(value) : constant(*getConstantIntValue(value));
    });
    llvm::SaveAndRestore outside(invocation, Value(function.getArgument(0)));
    llvm::SaveAndRestore outsideCall(callValues, callValues);
    llvm::SaveAndRestore outsideBytes(elementBytes, elementBytes), outsideType(type, type);
    llvm::SaveAndRestore outsideReduction(reduction, reduction);
    readCall();
    for (MoveValues::Side *side : {&inner.source, &inner.destination})
      side->base = baseOf(*side);
    build(inner);
    LLVM::ReturnOp::create(builder, loc, ValueRange{});
  }
  call(builder, loc, name, operands);
}

void KernelLowering::lowerSignal(SignalOp signal) {
  call(builder, loc, signalFunction,
       {invocation, integer(mapped(signal.getRank())), constantI64(builder, loc, int64_t(signal.getSemaphore())),
        constantI64(builder, loc, int64_t(program.getSemaphores()))});
  unsettled = {};
}

void KernelLowering::lowerWait(WaitOp wait) {
  call(builder, loc, waitFunction,
       {invocation, integer(mapped(wait.getRank())), constantI64(builder, loc, int64_t(wait.getSemaphore())),
        constantI64(builder, loc, int64_t(program.getSemaphores())),
        constantI64(builder, loc, statements.numberOf(wait.getLoc()))});
  unsettled = {};
}

void KernelLowering::lowerLookup(LookupOp lookup) {
  ArrayRef<int64_t> table = lookup.getTable();
  std::string name = ("table." + program.getSymName() + "." + Twine(numTables++)).str();
  auto tableType = LLVM::LLVMArrayType::get(builder.getI64Type(), unsigned(table.size()));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(builder, loc, tableType, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           builder.getI64TensorAttr(table), /*alignment=*/8, constantSpace);
  }
  Value base = LLVM::AddressOfOp::create(builder, loc, pointerType(builder, constantSpace), name);
  Value entry = loadEntry(builder, loc, builder.getI64Type(), base, integer(mapped(lookup.getIndex())));
  mapping.map(lookup.getResult(), toIndex(builder, loc, entry));
}

struct LowerPrograms : impl::LowerProgramsBase<LowerPrograms> {
  using LowerProgramsBase::LowerProgramsBase;

  void runOnOperation() override {
    FailureOr<DeviceOptions> options = readOptions();
    if (failed(options) || failed(checkPrograms()))
      return signalPassFailure();
    ModuleOp module = getOperation();
    declarePrimitives(module);
    defineMoves(module, *options, groupSize);
    defineWaitAndSignal(module);
    defineQuotient(module);
    for (ProgramOp program : llvm::to_vector(module.getOps<ProgramOp>())) {
      KernelLowering(program).run();
      program.erase();
    }
  }

private:
  FailureOr<DeviceOptions> readOptions() {
    DeviceOptions options;
    if (failed(readNames(types, KOLO_NUM_TYPES, options.types)) ||
        failed(readNames(reductions, KOLO_NUM_REDUCTIONS, options.reductions)))
      return failure();
    options.accumulation = nativeAccumulation ? Accumulation::Native : Accumulation::F32;
    return options;
  }
  template <typename Names, typename Kind> LogicalResult readNames(const Names &names, Kind end, std::vector<Kind> &kinds) {
    if (!names.empty())
      kinds.clear();
    for (const std::string &name : names) {
      Kind kind = Kind(0);
      while (kind < end && name != nameOf(kind))
        kind = Kind(kind + 1);
      if (kind == end)
        return getOperation().emitError() << "'" << name << "' is no type or reduction";
      kinds.push_back(kind);
    }
    return success();
  }

  /// Kernels are named like their programs, which must therefore be names in assembly languages.
  LogicalResult checkPrograms() {
    for (auto program : getOperation().getOps<ProgramOp>()) {
      for (auto enter : program.getBody().getOps<EnterOp>())
        return enter.emitOpError("is for programs of the host alone");
      StringRef name = program.getSymName();
      bool isIdentifier = !name.empty() && !llvm::isDigit(name.front()) &&
                          llvm::all_of(name, [](char letter) { return llvm::isAlnum(letter) || letter == '_'; });
      if (!isIdentifier)
        return program.emitError() << "a program for a device needs a name of letters, digits and '_', not '" << name << "'";
    }
    return success();
  }
};

} // namespace
} // namespace kolo::gpu
