// LowerPrograms: from channel programs to kernels over the device ABI.
//   Before:  kolo.chan.program @p { ... kolo.chan.put %b[%i] size [%c1] -> ... to %r part %l of %n ... }
//   After:   llvm.func @run.p(%invocation) -> i32 { ... scf loops over byte ranges { call @kolo.copy(...) } ... }
//            llvm.func @p(%invocations) { call @run.p(%invocations + kolo.entry) }
// All threads of a block run the same text: what decides where they go is the same for all, and only the functions that
// move, signal and wait tell them apart. The element type and the reduction are numbers of the call, as on the host, so
// that a program is one kernel. A wait becomes a call of @kolo.wait, whose result LowerFailures looks at. Requires
// channel form, lanes placed.
#include "targets/gpu/KernelLowering.h"
#include "targets/gpu/LowerFuse.h"
#include "targets/gpu/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo::gpu {
#define GEN_PASS_DEF_LOWERPROGRAMS
#include "targets/gpu/Passes.h.inc"

/// Buffers of the program's own follow each other, each at a multiple of this: as KoloProgram's functions count them.
static int64_t alignmentBytesOf(const BufferShape &shape) {
  constexpr int64_t leastBytes = 64;
  return shape.packets ? std::max(leastBytes, shape.packets->bytes) : leastBytes;
}

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
  auto function =
      createFunction(builder, module, name, builder.getI32Type(), {pointerType(builder)}, Inlining::IfUseful);
  invocation = function.getArgument(0);
  // Once, here: a store may hit any memory, so that nothing would be known of them later.
  readShape();
  startPackets();
  lowerBlock(program.getBody().front());
  endPackets();
  LLVM::ReturnOp::create(builder, loc, arith::ConstantIntOp::create(builder, loc, KOLO_DEVICE_OK, 32));
  return name;
}

/// Of this lane.
Value KernelLowering::callCounter() {
  Value offset = arith::MulIOp::create(builder, loc, call(builder, loc, laneFunction),
                                       constantI64(builder, loc, sizeof(uint64_t)));
  return advance(builder, loc, pointerField(offsetof(KoloDeviceInvocation, packetCalls)), offset);
}

void KernelLowering::startPackets() {
  if (!hasPackets)
    return;
  Value counter = LLVM::LoadOp::create(builder, loc, builder.getI64Type(), callCounter(), 8);
  numCalls = toIndex(builder, loc, call(builder, loc, uniformFunction, {counter}));
}

/// Which packets are of this call: those with its number, in its turn of the memory.
void KernelLowering::placePackets() {
  constexpr int64_t numSequences = (int64_t(1) << 32) - 1;
  sequence =
      createAdd(builder, loc, arith::RemUIOp::create(builder, loc, numCalls, constant(numSequences)), constant(1));
  Value turn = arith::AndIOp::create(builder, loc, numCalls, constant(1));
  packetsEnd = createMul(builder, loc, turn, field(offsetof(KoloDeviceInvocation, packetBytes)));
}

/// Once all threads have read the number.
void KernelLowering::endPackets() {
  if (!hasPackets)
    return;
  settle(true);
  buildForLeader(builder, loc, [&] {
    LLVM::StoreOp::create(builder, loc, integer(createAdd(builder, loc, numCalls, constant(1))), callCounter(), 8);
  });
}

/// What the call says of ranks and lanes: in the function at hand.
void KernelLowering::readShape() {
  dimSizes.clear(), coordinates.clear();
  lane = primitive(laneFunction), numLanes = primitive(numLanesFunction);
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim) {
    dimSizes.push_back(field(offsetof(KoloDeviceInvocation, dimSizes) + dim * sizeof(int64_t)));
    // Divisions by it need not look at its sign then.
    LLVM::AssumeOp::create(
        builder, loc, arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, dimSizes.back(), constant(0)));
    coordinates.push_back(field(offsetof(KoloDeviceInvocation, coordinates) + dim * sizeof(int64_t)));
  }
}

/// The same of elements.
void KernelLowering::readCall() {
  Type i64 = builder.getI64Type();
  callValues.count = field(offsetof(KoloDeviceInvocation, count));
  Value bytes = load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, elementBytes));
  elementBytes = toIndex(builder, loc, bytes);
  type = load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, type));
  reduction = load(builder, loc, i64, invocation, offsetof(KoloDeviceInvocation, reduction));
  // Elements in 16 bytes; their size is a power of two.
  Value places = LLVM::CountTrailingZerosOp::create(builder, loc, i64, bytes, /*is_zero_poison=*/true);
  callValues.alignment =
      toIndex(builder, loc, arith::ShRUIOp::create(builder, loc, constantI64(builder, loc, 16), places));
  if (!hasPackets)
    return;
  packetStride = createPacketStride(builder, loc, callValues);
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
      .Case([&](LaneOp op) { mapping.map(op.getResult(), lane); })
      .Case([&](NumLanesOp op) { mapping.map(op.getResult(), numLanes); })
      .Case([](BufferOp) {}) // in the functions of the moves
      .Case([&](LookupOp lookup) { lowerLookup(lookup); })
      .Case([&](MoveInterface move) { lowerMove(move); })
      .Case([&](DivideOp divide) { lowerDivide(divide); })
      .Case([&](FuseOp fuse) { lowerFuse(fuse); })
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
                      {llvm::map_to_vector<6>(buffer.getGrid(), map), unsigned(buffer.getBlocks()),
                       mapped(buffer.getCut()), buffer.getRole() == BufferRole::Packets ? packetStride : Value(),
                       kolo::packetFormatOf(buffer)},
                      constant(0)};
  if (!isOfCaller(buffer.getRole())) {
    Value &end = role == KOLO_PACKETS ? packetsEnd : scratchEnd;
    values.offset = end;
    Value number = values.shape.packets ? createNumPackets(builder, loc, callValues, values.shape, numLanes)
                                        : createNumElements(builder, loc, callValues, values.shape);
    Value bytes = bytesTo(values.shape, number), alignment = constant(alignmentBytesOf(values.shape));
    Value units = arith::CeilDivUIOp::create(builder, loc, bytes, alignment);
    end = createAdd(builder, loc, end, createMul(builder, loc, units, alignment));
  }
  buffers[buffer] = std::move(values);
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

namespace {

struct LowerPrograms : impl::LowerProgramsBase<LowerPrograms> {
  using LowerProgramsBase::LowerProgramsBase;

  void runOnOperation() override {
    FailureOr<DeviceOptions> options = readOptions();
    if (failed(options) || failed(checkPrograms()))
      return signalPassFailure();
    if (listEntries < 2 || listEntries > mostListEntries) {
      getOperation().emitError() << "a list has at least 2 and at most " << mostListEntries << " entries, not "
                                 << int64_t(listEntries);
      return signalPassFailure();
    }
    ModuleOp module = getOperation();
    declarePrimitives(module);
    defineMoves(module, *options, groupSize);
    defineWaitAndSignal(module);
    // Where they are used: they are a good part of the time that a device's code takes.
    auto isUsed = [&](const PacketFormat &format) {
      return llvm::any_of(module.getOps<ProgramOp>(),
                          [&](ProgramOp program) { return packetFormatOf(program) == format; });
    };
    if (isUsed(llPackets))
      definePackets(module, *options);
    if (isUsed(ll128Packets))
      defineLines(module, *options);
    defineQuotient(module);
    for (ProgramOp program : llvm::to_vector(module.getOps<ProgramOp>())) {
      KernelLowering(program, listEntries).run();
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
  template <typename Names, typename Kind>
  LogicalResult readNames(const Names &names, Kind end, std::vector<Kind> &kinds) {
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
        return program.emitError() << "a program for a device needs a name of letters, digits and '_', not '" << name
                                   << "'";
    }
    return success();
  }
};

} // namespace
} // namespace kolo::gpu
