// The loops over elements: one function per type and operation.
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/Kernels.h"
#include "targets/cpu/kernels/Carried.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

using namespace mlir;

namespace kolo::cpu {

namespace {

class Reductions {
public:
  Reductions(ModuleOp module, int64_t vectorBytes)
      : module(module), builder(module.getContext()), loc(module.getLoc()), vectorBytes(vectorBytes) {}

  void defineReduce(KoloType type, KoloReduction reduction);
  void defineAverage(KoloType type);

private:
  static constexpr int64_t vectorsPerIteration = 2;

  /// What is done with elements.
  struct Combination {
    KoloType type;
    KoloReduction reduction;
    std::optional<Divisor> divisor = std::nullopt; // of the result
  };
  /// What every function that reduces begins with.
  struct ReduceArguments {
    Value destinations, numDestinations, sources, numSources; // lists, and numbers of type index
    Value isCombining;                                        // more than one source
  };
  ReduceArguments argumentsOf(LLVM::LLVMFuncOp function) {
    Value isCombining = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, function.getArgument(3),
                                              constantI64(builder, loc, 1));
    return {function.getArgument(0), toIndex(builder, loc, function.getArgument(1)), function.getArgument(2),
            toIndex(builder, loc, function.getArgument(3)), isCombining};
  }
  SmallVector<Value> combineSources(const ReduceArguments &arguments, Carried elements, Value first, Type moved,
                                    int64_t unroll);
  void storeAll(const ReduceArguments &arguments, ArrayRef<Value> values, Value first, Type stored, bool isNonTemporal);
  /// Elements; a step of more than 1 is a block.
  struct Range {
    Value begin, end;
    int64_t step;
  };
  void buildLoop(const ReduceArguments &arguments, const Combination &combination, Range range, bool isNonTemporal);
  void buildBody(LLVM::LLVMFuncOp function, const Combination &combination);
  int64_t vectorElements(const Combination &combination) { return carried(combination).vectorElements(vectorBytes); }
  int64_t blockElements(const Combination &combination) { return vectorElements(combination) * vectorsPerIteration; }
  Carried carried(const Combination &combination) { return {builder, loc, combination.type, combination.reduction}; }
  Value addressOf(Value base, Value first, Type stored, Type type, int64_t number);

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  int64_t vectorBytes;
};

Value Reductions::addressOf(Value base, Value first, Type stored, Type type, int64_t number) {
  auto vector = dyn_cast<VectorType>(type);
  Value offset = constantI64(builder, loc, vector ? number * vector.getNumElements() : number);
  return LLVM::GEPOp::create(builder, loc, pointerType(builder), stored, base,
                             ArrayRef<LLVM::GEPArg>{arith::AddIOp::create(builder, loc, first, offset).getResult()});
}

/// The combination of all sources, from element `first` on: as many values of `type` as the unrolling says, in
/// registers.
SmallVector<Value> Reductions::combineSources(const ReduceArguments &arguments, Carried elements, Value first,
                                              Type moved, int64_t unroll) {
  Type stored = elements.stored();
  auto loadAll = [&](Value base) {
    SmallVector<Value> values;
    for (int64_t i = 0; i < unroll; ++i)
      values.push_back(elements.load(LLVM::LoadOp::create(builder, loc, moved, addressOf(base, first, stored, moved, i),
                                                          unsigned(elements.sizeBytes()))));
    return values;
  };
  Value zero = createConstant(builder, loc, 0), one = createConstant(builder, loc, 1);
  SmallVector<Value> start = loadAll(loadEntry(builder, loc, arguments.sources, zero));
  auto loop = scf::ForOp::create(builder, loc, one, arguments.numSources, one, start);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> combined;
  for (auto [left, right] : llvm::zip_equal(
           loop.getRegionIterArgs(), loadAll(loadEntry(builder, loc, arguments.sources, loop.getInductionVar()))))
    combined.push_back(elements.combine(left, right));
  scf::YieldOp::create(builder, loc, combined);
  return SmallVector<Value>(loop.getResults());
}

/// Stores values to all destinations, from element `first` on.
void Reductions::storeAll(const ReduceArguments &arguments, ArrayRef<Value> values, Value first, Type stored,
                          bool isNonTemporal) {
  unsigned sizeBytes = stored.getIntOrFloatBitWidth() / 8;
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::ForOp::create(builder, loc, createConstant(builder, loc, 0), arguments.numDestinations,
                                 createConstant(builder, loc, 1));
  builder.setInsertionPointToStart(loop.getBody());
  Value base = loadEntry(builder, loc, arguments.destinations, loop.getInductionVar());
  for (auto [i, value] : llvm::enumerate(values))
    LLVM::StoreOp::create(builder, loc, value, addressOf(base, first, stored, value.getType(), int64_t(i)),
                          isNonTemporal ? unsigned(cast<VectorType>(value.getType()).getNumElements()) * sizeBytes
                                        : sizeBytes,
                          /*isVolatile=*/false, isNonTemporal);
}

/// One loop: the combination of all sources, in registers until it is stored to all destinations.
void Reductions::buildLoop(const ReduceArguments &arguments, const Combination &combination, Range range,
                           bool isNonTemporal) {
  bool isVector = range.step > 1;
  Carried elements = carried(combination);
  Type stored = elements.stored();
  Type moved = isVector ? Type(VectorType::get({vectorElements(combination)}, stored)) : stored;
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::ForOp::create(builder, loc, range.begin, range.end, createConstant(builder, loc, range.step));
  builder.setInsertionPointToStart(loop.getBody());
  Value first = toInteger(builder, loc, loop.getInductionVar());
  SmallVector<Value> combined = combineSources(arguments, elements, first, moved, isVector ? vectorsPerIteration : 1);
  for (Value &value : combined)
    value = combination.divisor ? elements.finishAverage(value, arguments.isCombining, *combination.divisor)
                                : elements.finish(value, arguments.isCombining);
  storeAll(arguments, combined, first, stored, isNonTemporal);
}

/// Blocks of vectors from where the first destination is aligned, and what is left on both sides one by one.
void Reductions::buildBody(LLVM::LLVMFuncOp function, const Combination &combination) {
  KoloType type = combination.type;
  ReduceArguments arguments = argumentsOf(function);
  Value count = function.getArgument(4), zero = createConstant(builder, loc, 0);
  if (combination.divisor && !isFloat(type)) // no CPU divides vectors of integers
    return buildLoop(arguments, combination, {zero, toIndex(builder, loc, count), 1}, /*isNonTemporal=*/false);
  Value elementBytes = constantI64(builder, loc, carried(combination).sizeBytes());
  Value block = constantI64(builder, loc, blockElements(combination));
  Value first = loadEntry(builder, loc, arguments.destinations, zero);
  Value misalignment = createMisalignment(builder, loc, first, vectorBytes);
  Value head =
      arith::MinSIOp::create(builder, loc, count, arith::DivUIOp::create(builder, loc, misalignment, elementBytes));
  Value left = arith::SubIOp::create(builder, loc, count, head);
  Value whole = arith::SubIOp::create(builder, loc, left, arith::RemUIOp::create(builder, loc, left, block));
  Value blocksBegin = toIndex(builder, loc, head);
  Value blocksEnd = toIndex(builder, loc, arith::AddIOp::create(builder, loc, head, whole));
  // Elements that do not lie at multiples of their size never meet a vector's boundary.
  Value rest = arith::RemUIOp::create(builder, loc, misalignment, elementBytes);
  Value isAround = arith::AndIOp::create(
      builder, loc, isNotZero(builder, loc, function.getArgument(5)),
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rest, constantI64(builder, loc, 0)));
  isAround = arith::AndIOp::create(
      builder, loc, isAround,
      areAlignedAlike(builder, loc, arguments.destinations, arguments.numDestinations, vectorBytes));

  buildLoop(arguments, combination, {zero, blocksBegin, 1}, /*isNonTemporal=*/false);
  auto blocks = scf::IfOp::create(builder, loc, isAround, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(blocks.elseBlock());
  buildLoop(arguments, combination, {blocksBegin, blocksEnd, blockElements(combination)}, /*isNonTemporal=*/false);
  builder.setInsertionPointToStart(blocks.thenBlock());
  buildLoop(arguments, combination, {blocksBegin, blocksEnd, blockElements(combination)}, /*isNonTemporal=*/true);
  createStoreFence(builder, loc);
  builder.setInsertionPointAfter(blocks);
  buildLoop(arguments, combination, {blocksEnd, toIndex(builder, loc, count), 1}, /*isNonTemporal=*/false);
}

void Reductions::defineReduce(KoloType type, KoloReduction reduction) {
  if (module.lookupSymbol(reduceKernelName(type, reduction)))
    return; // shared with the signed type, or with the sum
  Type pointer = pointerType(builder), i64 = builder.getI64Type();
  auto function = createFunction(builder, module, reduceKernelName(type, reduction), Type(),
                                 {pointer, i64, pointer, i64, i64, i64}, /*isExported=*/false);
  buildBody(function, {type, reduction});
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

void Reductions::defineAverage(KoloType type) {
  Type pointer = pointerType(builder), i64 = builder.getI64Type();
  auto function = createFunction(builder, module, averageKernelName(type), Type(),
                                 {pointer, i64, pointer, i64, i64, i64, i64}, /*isExported=*/false);
  Value numRanks = function.getArgument(6);
  auto average = [&](bool isInverse) {
    buildBody(function, {type, KOLO_AVERAGE, createDivisor(builder, loc, type, numRanks, isInverse)});
  };
  if (isFloat(type)) {
    auto choice = scf::IfOp::create(builder, loc, hasExactInverse(builder, loc, numRanks), /*withElseRegion=*/true);
    builder.setInsertionPointToStart(choice.thenBlock());
    average(/*isInverse=*/true);
    builder.setInsertionPointToStart(choice.elseBlock());
    average(/*isInverse=*/false);
    builder.setInsertionPointAfter(choice);
  } else {
    average(/*isInverse=*/false);
  }
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

} // namespace

void defineReductions(ModuleOp module, int64_t vectorBytes) {
  Reductions kernels(module, vectorBytes);
  for (int type = 0; type < KOLO_NUM_TYPES; ++type) {
    for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction)
      kernels.defineReduce(KoloType(type), KoloReduction(reduction));
    kernels.defineAverage(KoloType(type));
  }
}

} // namespace kolo::cpu
