// LowerPrograms: from channel programs to kernels over the device ABI.
//   Before:  kolo.chan.program @p { ... kolo.chan.put %b[%i] size [%c1] -> ... to %r part %l of %n ... }
//   After:   llvm.func @run.p(%invocation) -> i32 { ... scf loops over byte ranges { call @kolo.copy(...) } ... }
//            llvm.func @p(%invocations) { call @run.p(%invocations + kolo.entry) }
//            likewise @run.p.tables and @p_tables, of a program that takes block tables
//
// All threads of a block take the same branches; only the functions that move, signal and wait tell the threads apart.
// The element type and the reduction are numbers that the call brings, so that a program is one kernel. A wait becomes
// a call of @kolo.wait, and LowerFailures tests its result. Requires channel form, lanes placed.
#include "codec/Presets.h"
#include "targets/Codecs.h"
#include "targets/TableKernels.h"
#include "targets/gpu/AroundMoves.h"
#include "targets/gpu/KernelLowering.h"
#include "targets/gpu/LowerFuse.h"
#include "targets/gpu/Passes.h"
#include "targets/gpu/ThreadLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo::gpu {
#define GEN_PASS_DEF_LOWERPROGRAMS
#include "targets/gpu/Passes.h.inc"

Value KernelTables::isGiven(OpBuilder &builder, Location loc) const {
  return arith::ConstantIntOp::create(builder, loc, 1, 1);
}

Value KernelTables::count(OpBuilder &builder, Location loc, BufferRole role, Value block) const {
  const size_t field = offsetof(KoloDeviceInvocation, blockCounts) + size_t(role) * sizeof(void *);
  Value table = load(builder, loc, pointerType(builder), invocation, int64_t(field));
  return toIndex(builder, loc, loadEntry(builder, loc, builder.getI64Type(), table, toInteger(builder, loc, block)));
}

/// Of a peer, in memory that it writes before it says that the buffer may be accessed.
Value KernelTables::place(OpBuilder &builder, Location loc, BufferRole role, Value rank, Value block) const {
  const size_t ownField = offsetof(KoloDeviceInvocation, blockPlaces) + size_t(role) * sizeof(void *),
               peerField = offsetof(KoloDeviceInvocation, peerPlaces) + size_t(role) * sizeof(void *);
  Type pointer = pointerType(builder);
  Value table = load(builder, loc, pointer, invocation, int64_t(rank ? peerField : ownField));
  if (rank)
    table = loadEntry(builder, loc, pointer, table, toInteger(builder, loc, rank));
  return toIndex(builder, loc, loadEntry(builder, loc, builder.getI64Type(), table, toInteger(builder, loc, block)));
}

void KernelLowering::run(StringRef entryName) {
  std::string run = createRun();
  auto entry = createFunctionOf(entryName, Type(), {pointerType(builder)}, Inlining::Never);
  entry.setLinkage(LLVM::Linkage::External);
  const auto entryBytes = int64_t(isStaged() ? sizeof(KoloDeviceNetworkInvocation) : sizeof(KoloDeviceInvocation));
  Value offset =
      arith::MulIOp::create(builder, loc, call(builder, loc, entryFunction), constantI64(builder, loc, entryBytes));
  call(builder, loc, run, {advance(builder, loc, entry.getArgument(0), offset)});
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Of an invocation, its first argument.
LLVM::LLVMFuncOp KernelLowering::createFunctionOf(StringRef name, Type result, TypeRange arguments, Inlining inlining) {
  auto function = createFunction(builder, module, name, result, llvm::to_vector(arguments), inlining);
  SmallVector<Attribute> attributes(function.getPassthroughAttr().begin(), function.getPassthroughAttr().end());
  attributes.push_back(builder.getStringAttr(invocationAttribute));
  function.setPassthroughAttr(builder.getArrayAttr(attributes));
  return function;
}

std::string KernelLowering::createRun() {
  std::string name = ("run." + program.getSymName()).str();
  auto function = createFunctionOf(name, builder.getI32Type(), {pointerType(builder)}, Inlining::IfUseful);
  frame.invocation = function.getArgument(0);
  // Once, here: a store may hit any memory, so that nothing would be known of them later.
  readShape();
  startPackets();
  lowerBlock(program.getBody().front());
  endCall();
  LLVM::ReturnOp::create(builder, loc, arith::ConstantIntOp::create(builder, loc, KOLO_DEVICE_OK, 32));
  return name;
}

/// Of this lane.
Value KernelLowering::callCounter(size_t field) {
  Value offset = arith::MulIOp::create(builder, loc, call(builder, loc, laneFunction),
                                       constantI64(builder, loc, sizeof(uint64_t)));
  return advance(builder, loc, pointerField(field), offset);
}

Value KernelLowering::readCounter(size_t field) {
  return LLVM::LoadOp::create(builder, loc, builder.getI64Type(), callCounter(field), 8);
}

/// All threads read the number of calls before one of them counts this one.
void KernelLowering::startPackets() {
  if (!hasPackets)
    return;
  Value counter = readCounter(offsetof(KoloDeviceInvocation, packetCalls));
  kernel.numCalls = toIndex(builder, loc, call(builder, loc, uniformFunction, {counter}));
  call(builder, loc, barrierFunction);
  buildForLeader(builder, loc, [&] {
    Value calls = createAdd(builder, loc, kernel.numCalls, constant(1));
    LLVM::StoreOp::create(builder, loc, integer(calls), callCounter(offsetof(KoloDeviceInvocation, packetCalls)), 8);
  });
}

/// The packets of this call carry its number, and lie in one of two turns of the memory.
void KernelLowering::placePackets() {
  constexpr int64_t numSequences = (int64_t(1) << 32) - 1;
  kernel.sequence = createAdd(
      builder, loc, arith::RemUIOp::create(builder, loc, kernel.numCalls, constant(numSequences)), constant(1));
  Value turn = arith::AndIOp::create(builder, loc, kernel.numCalls, constant(1));
  frame.layout.begin(BufferRole::Packets,
                     createMul(builder, loc, turn, field(offsetof(KoloDeviceInvocation, packetBytes))));
}

SmallVector<Value> KernelLowering::drawKey(Value rank, Value elementNumber) {
  if (!haveDraws(codecs))
    return {};
  Value holder = rank ? integer(rank) : readField(offsetof(KoloDeviceInvocation, rank));
  Value calls = readCounter(offsetof(KoloDeviceInvocation, calls));
  Value hash = createDrawHash(builder, loc, calls, holder);
  return {arith::ExtUIOp::create(builder, loc, builder.getI64Type(), hash), integer(elementNumber)};
}

/// Once all threads have drawn by the number of calls.
void KernelLowering::endCall() {
  if (!haveDraws(codecs))
    return;
  settle(true);
  buildForLeader(builder, loc, [&] {
    Value counter = callCounter(offsetof(KoloDeviceInvocation, calls));
    Value calls = LLVM::LoadOp::create(builder, loc, builder.getI64Type(), counter, 8);
    LLVM::StoreOp::create(builder, loc, arith::AddIOp::create(builder, loc, calls, constantI64(builder, loc, 1)),
                          counter, 8);
  });
}

/// Reads the invocation's ranks and lanes.
void KernelLowering::readShape() {
  if (isStaged())
    frame.layout.partInboxes();
  kernel.lane = toIndex(builder, loc, call(builder, loc, laneFunction));
  frame.call.numLanes = toIndex(builder, loc, call(builder, loc, numLanesFunction));
  frame.call.hasNotes = !findTableObstacle(program); // buffers lie where the host's code has them
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim) {
    frame.dimSizes.push_back(field(offsetof(KoloDeviceInvocation, dimSizes) + dim * sizeof(int64_t)));
    // Divisions by it need not look at its sign then.
    LLVM::AssumeOp::create(
        builder, loc,
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, frame.dimSizes.back(), constant(0)));
    kernel.coordinates.push_back(field(offsetof(KoloDeviceInvocation, coordinates) + dim * sizeof(int64_t)));
  }
}

/// Reads the invocation's elements.
void KernelLowering::readCall() {
  Type i64 = builder.getI64Type();
  CallValues &values = frame.call;
  values.count = field(offsetof(KoloDeviceInvocation, count));
  Value bytes = readField(offsetof(KoloDeviceInvocation, elementBytes));
  values.elementBytes = toIndex(builder, loc, bytes);
  kernel.type = readField(offsetof(KoloDeviceInvocation, type));
  kernel.reduction = readField(offsetof(KoloDeviceInvocation, reduction));
  if (tableUse == TableUse::OfCall) {
    frame.tables = std::make_unique<KernelTables>(frame.invocation);
    values.tables = frame.tables.get();
    values.isDense = arith::ConstantIntOp::create(builder, loc, 0, 1);
  }
  if (!codecs.empty() && findCoded(program)) {
    values.alignment = constant(codec::granule);
    if (hasPackets)
      values.packetStride = createPacketStride(builder, loc, values);
    return;
  }
  // Elements in 16 bytes; their size is a power of two.
  Value places = LLVM::CountTrailingZerosOp::create(builder, loc, i64, bytes, /*is_zero_poison=*/true);
  values.alignment = toIndex(builder, loc, arith::ShRUIOp::create(builder, loc, constantI64(builder, loc, 16), places));
  if (hasPackets)
    values.packetStride = createPacketStride(builder, loc, values);
}

void KernelLowering::lowerOwn(Operation &op) {
  auto map = [&](Value value) { frame.mapping.map(op.getResult(0), value); };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](CoordOp coord) { map(kernel.coordinates[coord.getDim()]); })
      .Case([&](RootOp) { map(field(offsetof(KoloDeviceInvocation, root))); })
      .Case([&](LaneOp) { map(kernel.lane); })
      .Case([&](NumLanesOp) { map(frame.call.numLanes); })
      .Case([](BufferOp) {}) // every function of a move places the buffers
      .Case([&](MoveInterface move) { lowerMove(move); })
      .Case([&](DivideOp divide) { lowerDivide(divide); })
      .Case([&](FuseOp fuse) { lowerFuse(fuse); })
      .Case([&](SignalOp signal) { lowerExchange([&](auto &exchanges) { exchanges.lowerSignal(signal); }); })
      .Case([&](WaitOp wait) { lowerExchange([&](auto &exchanges) { exchanges.lowerWait(wait); }); })
      .Case([&](FlushOp) { settle(unsettled.reads); }) // other threads' puts have read their sources then
      .DefaultUnreachable("an op of the other phase, or of programs of the host alone");
}

/// A barrier, if the next op needs what threads did before to be done.
void KernelLowering::settle(bool isNeeded) {
  if (!isNeeded)
    return;
  call(builder, loc, barrierFunction);
  unsettled = {};
}

void KernelLowering::lowerExchange(function_ref<void(ExchangeLowering &)> lower) {
  auto lowerArithmetic = [&](Operation &op) { lowerOp(op); };
  const LoopLowering loops = {builder, loc, frame.mapping, lowerArithmetic};
  ExchangeLowering exchanges(loops, program, statements, frame.invocation);
  lower(exchanges);
  unsettled = {};
}

void KernelLowering::lowerRegions(Operation &op) {
  auto loop = dyn_cast<scf::ForOp>(op);
  Operation *exchange = loop ? onlyExchangeOf(loop) : nullptr;
  if (auto signal = dyn_cast_or_null<SignalOp>(exchange); signal && !isStaged())
    return lowerExchange([&](auto &exchanges) { exchanges.lowerSignals(loop, signal); });
  if (auto wait = dyn_cast_or_null<WaitOp>(exchange))
    return lowerExchange([&](auto &exchanges) { exchanges.lowerWaits(loop, wait); });
  if (std::optional<PacketLoop> packets = packetLoopOf(op); packets && codecs.empty())
    return lowerPacketLoop(*packets);
  ChannelLowering::lowerRegions(op);
}

namespace {

struct LowerPrograms : impl::LowerProgramsBase<LowerPrograms> {
  using LowerProgramsBase::LowerProgramsBase;

  void runOnOperation() override {
    FailureOr<DeviceOptions> options = readOptions();
    if (failed(options) || failed(checkPrograms()))
      return signalPassFailure();
    ModuleOp module = getOperation();
    SmallVector<codec::Codec> codecs = collectCodecs();
    int64_t leastEntries = codecs.empty() ? 2 : 4;
    if (listEntries < leastEntries || listEntries > mostListEntries) {
      module.emitError() << "a list has at least " << leastEntries << " and at most " << mostListEntries
                         << " entries, not " << int64_t(listEntries);
      return signalPassFailure();
    }
    declarePrimitives(module);
    defineMoves(module, *options, groupSize);
    if (!codecs.empty())
      defineConversions(module, *options, codecs, groupSize);
    auto isStaged = [](ProgramOp program) { return usesStagedNetwork(program); };
    if (!llvm::all_of(module.getOps<ProgramOp>(), isStaged))
      defineWaitAndSignal(module, hostFunctions);
    if (llvm::any_of(module.getOps<ProgramOp>(), isStaged)) {
      defineQueues(module);
      defineWaitAndSignal(module, networkFunctions);
    }
    // Only where they are used: they take a good part of the compile time.
    auto isUsed = [&](const PacketFormat &format) {
      return llvm::any_of(module.getOps<ProgramOp>(),
                          [&](ProgramOp program) { return packetFormatOf(program) == format; });
    };
    if (isUsed(llPackets)) {
      definePackets(module, *options);
      definePacketGroups(module, *options);
    }
    if (isUsed(ll128Packets)) {
      defineLines(module, *options);
      defineLineGroups(module, *options);
    }
    defineQuotient(module);
    for (ProgramOp program : llvm::to_vector(module.getOps<ProgramOp>())) {
      const std::string name = program.getSymName().str();
      if (mayTakeBlockTables(program))
        lowerForTables(program, codecs, tableKernelName(name));
      KernelLowering(program, listEntries, codecs, KernelLowering::TableUse::None).run(kernelName(name));
      program.erase();
    }
  }

private:
  /// A kernel of its own, so that that of other calls stays as it is. The lowering names functions by the program, and
  /// changes it.
  void lowerForTables(ProgramOp program, ArrayRef<codec::Codec> codecs, StringRef kernel) {
    OpBuilder builder(program);
    auto copy = cast<ProgramOp>(builder.clone(*program));
    copy.setSymName((program.getSymName() + ".tables").str());
    KernelLowering(copy, listEntries, codecs, KernelLowering::TableUse::OfCall).run(kernel);
    copy.erase();
  }
  /// Those of all buffers, the first one none; or nothing at all.
  SmallVector<codec::Codec> collectCodecs() {
    SmallVector<codec::Codec> codecs;
    if (!findCoded(getOperation()))
      return codecs;
    codecs.push_back(dsl::none());
    getOperation().walk([&](BufferOp buffer) {
      if (!llvm::is_contained(codecs, codecOf(buffer)))
        codecs.push_back(codecOf(buffer));
    });
    return codecs;
  }
  FailureOr<DeviceOptions> readOptions() {
    DeviceOptions options;
    if (failed(readNames(types, parseType, options.types)) ||
        failed(readNames(reductions, parseReduction, options.reductions)))
      return failure();
    options.accumulation = nativeAccumulation ? Accumulation::Native : Accumulation::F32;
    return options;
  }
  template <typename Names, typename Kind>
  LogicalResult readNames(const Names &names, std::optional<Kind> (*parse)(StringRef), std::vector<Kind> &kinds) {
    if (!names.empty())
      kinds.clear();
    for (const std::string &name : names) {
      std::optional<Kind> kind = parse(name);
      if (!kind)
        return getOperation().emitError() << "'" << name << "' is no type or reduction";
      kinds.push_back(*kind);
    }
    return success();
  }

  /// Kernels are named like their programs, which must therefore be names in assembly languages.
  LogicalResult checkPrograms() {
    llvm::StringSet<> kernels;
    for (auto program : getOperation().getOps<ProgramOp>()) {
      for (auto enter : program.getBody().getOps<EnterOp>())
        return enter.emitOpError("is for programs of the host alone");
      std::string name = kernelName(program.getSymName().str());
      bool isIdentifier = !name.empty() && !llvm::isDigit(name.front()) &&
                          llvm::all_of(name, [](char letter) { return llvm::isAlnum(letter) || letter == '_'; });
      if (!isIdentifier)
        return program.emitError() << "a program for a device needs a name of letters, digits, dots and '_', not '"
                                   << program.getSymName() << "'";
      SmallVector<std::string, 2> names{name};
      if (mayTakeBlockTables(program))
        names.push_back(tableKernelName(program.getSymName().str()));
      for (const std::string &kernel : names)
        if (!kernels.insert(kernel).second)
          return program.emitError() << "another program for devices has a kernel '" << kernel << "' too";
    }
    return success();
  }
};

} // namespace
} // namespace kolo::gpu
