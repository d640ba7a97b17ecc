// How a block moves bytes and combines elements. Neighbouring threads access neighbouring units of 16 bytes. Each
// thread issues `unroll` loads, or `copyUnroll` where it only copies, before it uses the first. They are at constant
// distances, which saves registers. Source and destination that are not aligned alike, and both ends of a range, take
// smaller units.
//
// Nothing here carries noalias, readonly or invariant: peers write this memory while a kernel runs.
#include "ir/IndexArithmetic.h"
#include "ir/Kolo.h"
#include "targets/gpu/DeviceFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::gpu {

namespace {

constexpr int64_t unroll = 4, copyUnroll = 8, vectorBytes = 16;

class MoveFunctions {
public:
  MoveFunctions(ModuleOp module, int64_t groupSize)
      : module(module), groupSize(groupSize), builder(module.getContext()), loc(module.getLoc()),
        pointer(pointerType(builder)), i64(builder.getI64Type()) {}

  void defineCopy();
  void defineMulticast();
  void defineReduce(const DeviceOptions &options);
  void defineCombine(const DeviceOptions &options);
  void defineDivide(const DeviceOptions &options);

private:
  /// Called with the numbers of the units that one thread handles at once.
  using UnitsBuilder = function_ref<void(ArrayRef<Value> units)>;
  void buildStrided(Value numUnits, int64_t unitsAtOnce, UnitsBuilder build);
  /// Elements before the first, and after the last, whole vector of [destination, destination + numElements) go one by
  /// one.
  struct Split {
    Value numVectors; // of type index, as are all
    Value head;       // elements before the first vector
    Value inVectors;  // elements in vectors
    Value single;     // elements that are in none
  };
  struct Reduction {
    KoloType type;
    KoloReduction reduction;
    Accumulation accumulation;
  };
  /// For a function whose last two arguments are the type and the reduction of the call.
  void buildReductions(LLVM::LLVMFuncOp function, const DeviceOptions &options,
                       function_ref<void(const Reduction &)> build);
  void reduceElements(LLVM::LLVMFuncOp function, const Reduction &reduction);
  void combineElements(LLVM::LLVMFuncOp function, const Reduction &reduction);
  void divideElements(LLVM::LLVMFuncOp function, KoloType type);
  /// Builds the body for the one of these numbers that `chosen` is, of type i64; any other is a trap.
  void buildChoice(Value chosen, ArrayRef<int64_t> numbers, function_ref<void(size_t position)> build);
  Split split(Value destination, Value isAlike, Value numElements, int64_t elementBytes);
  void buildElements(Value destination, Value isAlike, Value numElements, KoloType type, int64_t unitsAtOnce,
                     function_ref<void(ArrayRef<Value> offsetsBytes, Type moved)> build);
  /// What one thread stores at once: each value at its offset, of all destinations that there are.
  using StoreBuilder = function_ref<void(ArrayRef<Value> values, ArrayRef<Value> offsets, int64_t alignment)>;
  struct CopyEnds {
    Value source, difference; // i64: the bits in which any two of the addresses differ
    StoreBuilder store;
  };
  void copyBytes(const CopyEnds &ends, Value size);
  void copyUnits(const CopyEnds &ends, Value numUnits, Type type, function_ref<Value(Value unit)> offsetOf);
  /// To the destinations in the lists from `first` to `end`.
  void storeListed(Value first, Value end, ArrayRef<Value> values, ArrayRef<Value> offsets, int64_t alignment);
  Value listed(Value number) {
    return loadEntry(builder, loc, pointer, call(builder, loc, listFunction), toInteger(builder, loc, number));
  }
  /// Those of a function that all threads call with the same.
  SmallVector<Value> uniformArguments(LLVM::LLVMFuncOp function) {
    return llvm::map_to_vector(function.getArguments(), [&](Value argument) { return uniform(argument); });
  }
  Value uniform(Value integer) { return call(builder, loc, uniformFunction, {integer}); }
  Value loadAt(Value base, Value offset, Type type, int64_t alignment) {
    return LLVM::LoadOp::create(builder, loc, type, at(base, offset), unsigned(alignment));
  }
  void storeAt(Value value, Value base, Value offset, int64_t alignment) {
    LLVM::StoreOp::create(builder, loc, value, at(base, offset), unsigned(alignment));
  }
  Value at(Value base, Value offset) { return advance(builder, loc, base, toInteger(builder, loc, offset)); }
  Value addressOf(Value address) { return LLVM::PtrToIntOp::create(builder, loc, i64, address); }
  /// Bytes from an address to the next multiple of the alignment, as index.
  Value bytesToAlign(Value address, int64_t alignment) {
    Value negative = arith::SubIOp::create(builder, loc, constantI64(builder, loc, 0), addressOf(address));
    return toIndex(builder, loc,
                   arith::AndIOp::create(builder, loc, negative, constantI64(builder, loc, alignment - 1)));
  }
  Value differenceOf(Value a, Value b) { return arith::XOrIOp::create(builder, loc, addressOf(a), addressOf(b)); }
  /// Whether addresses are at the same distance from a multiple of the alignment.
  Value areAlike(Value difference, int64_t alignment) {
    Value low = arith::AndIOp::create(builder, loc, difference, constantI64(builder, loc, alignment - 1));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, low, constantI64(builder, loc, 0));
  }
  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value add(Value a, Value b) { return createAdd(builder, loc, a, b); }
  Value sub(Value a, Value b) { return createSub(builder, loc, a, b); }
  Value mul(Value a, Value b) { return createMul(builder, loc, a, b); }
  Value div(Value a, int64_t b) { return arith::DivUIOp::create(builder, loc, a, constant(b)); }
  Value min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
  Value select(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }
  Value isLess(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b); }
  void finish() { LLVM::ReturnOp::create(builder, loc, ValueRange{}); }

  ModuleOp module;
  int64_t groupSize;
  OpBuilder builder;
  Location loc;
  Type pointer, i64;
};

/// One unit at a time: thread t of T takes units t, t + T, ... Several at a time: group g of N takes tiles g, g + N,
/// ... of consecutive units. In a tile, thread t of a group of G takes units t, t + G, ... All threads share the units
/// behind the last whole tile.
void MoveFunctions::buildStrided(Value numUnits, int64_t unitsAtOnce, UnitsBuilder build) {
  OpBuilder::InsertionGuard guard(builder);
  Value thread = toIndex(builder, loc, call(builder, loc, threadFunction));
  Value threads = toIndex(builder, loc, call(builder, loc, numThreadsFunction));
  auto buildLoop = [&](Value begin, Value end, Value step, function_ref<void(Value unit)> buildBody) {
    OpBuilder::InsertionGuard inner(builder);
    auto loop = scf::ForOp::create(builder, loc, begin, end, step);
    builder.setInsertionPointToStart(loop.getBody());
    buildBody(loop.getInductionVar());
  };
  if (unitsAtOnce == 1)
    return buildLoop(thread, numUnits, threads, [&](Value unit) { build({unit}); });
  int64_t tile = groupSize * unitsAtOnce;
  Value inTiles = mul(div(numUnits, tile), constant(tile));
  Value inGroup = arith::RemUIOp::create(builder, loc, thread, constant(groupSize));
  Value first = add(mul(div(thread, groupSize), constant(tile)), inGroup);
  buildLoop(first, inTiles, mul(threads, constant(unitsAtOnce)), [&](Value unit) {
    SmallVector<Value> units;
    for (int64_t i = 0; i < unitsAtOnce; ++i)
      units.push_back(add(unit, constant(i * groupSize)));
    build(units);
  });
  buildLoop(add(inTiles, thread), numUnits, threads, [&](Value unit) { build({unit}); });
}

static int64_t alignmentOf(Type moved) {
  return isa<VectorType>(moved) ? vectorBytes : moved.getIntOrFloatBitWidth() / 8;
}

/// All loads come before the first store.
void MoveFunctions::copyUnits(const CopyEnds &ends, Value numUnits, Type type,
                              function_ref<Value(Value unit)> offsetOf) {
  const int64_t unitBytes = alignmentOf(type);
  buildStrided(numUnits, isa<VectorType>(type) ? copyUnroll : unroll, [&](ArrayRef<Value> units) {
    SmallVector<Value> offsets, values;
    for (Value unit : units)
      offsets.push_back(offsetOf(unit));
    for (Value offset : offsets)
      values.push_back(loadAt(ends.source, offset, type, unitBytes));
    ends.store(values, offsets, unitBytes);
  });
}

void MoveFunctions::copyBytes(const CopyEnds &ends, Value size) {
  Value zero = constant(0);
  constexpr int64_t wordBytes = 4;
  Value isVector = areAlike(ends.difference, vectorBytes), isWord = areAlike(ends.difference, wordBytes);
  Value toAlign = select(isVector, bytesToAlign(ends.source, vectorBytes),
                         select(isWord, bytesToAlign(ends.source, wordBytes), zero));
  Value head = min(toAlign, size), body = sub(size, head);
  Value numVectors = select(isVector, div(body, vectorBytes), zero);
  Value numWords = select(isVector, zero, select(isWord, div(body, wordBytes), zero));
  Value inUnits = add(mul(numVectors, constant(vectorBytes)), mul(numWords, constant(wordBytes)));
  auto word = builder.getI32Type();
  copyUnits(ends, numVectors, VectorType::get({vectorBytes / wordBytes}, word),
            [&](Value unit) { return add(head, mul(unit, constant(vectorBytes))); });
  copyUnits(ends, numWords, word, [&](Value unit) { return add(head, mul(unit, constant(wordBytes))); });
  copyUnits(ends, sub(size, inUnits), builder.getI8Type(),
            [&](Value byte) { return select(isLess(byte, head), byte, add(byte, inUnits)); });
}

void MoveFunctions::defineCopy() {
  auto function = createFunction(builder, module, copyFunction, Type(), {pointer, pointer, i64}, Inlining::Never);
  Value destination = function.getArgument(0), source = function.getArgument(1);
  auto store = [&](ArrayRef<Value> values, ArrayRef<Value> offsets, int64_t alignment) {
    for (auto [value, offset] : llvm::zip_equal(values, offsets))
      storeAt(value, destination, offset, alignment);
  };
  copyBytes({source, differenceOf(destination, source), store}, toIndex(builder, loc, function.getArgument(2)));
  finish();
}

void MoveFunctions::storeListed(Value first, Value end, ArrayRef<Value> values, ArrayRef<Value> offsets,
                                int64_t alignment) {
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::ForOp::create(builder, loc, first, end, constant(1));
  builder.setInsertionPointToStart(loop.getBody());
  Value destination = listed(add(loop.getInductionVar(), constant(destinationEntries)));
  for (auto [value, offset] : llvm::zip_equal(values, offsets))
    storeAt(value, destination, offset, alignment);
}

void MoveFunctions::defineMulticast() {
  auto function = createFunction(builder, module, multicastFunction, Type(), {i64, i64, i64, i64}, Inlining::Never);
  SmallVector<Value> arguments = uniformArguments(function);
  Value first = toIndex(builder, loc, arguments[0]), end = toIndex(builder, loc, arguments[1]);
  auto conditional = scf::IfOp::create(builder, loc, isLess(first, end));
  finish();
  builder.setInsertionPointToStart(conditional.thenBlock());
  auto store = [&](ArrayRef<Value> values, ArrayRef<Value> offsets, int64_t alignment) {
    storeListed(first, end, values, offsets, alignment);
  };
  copyBytes({listed(constant(0)), arguments[2], store}, toIndex(builder, loc, arguments[3]));
}

MoveFunctions::Split MoveFunctions::split(Value destination, Value isAlike, Value numElements, int64_t elementBytes) {
  Value head = min(div(bytesToAlign(destination, vectorBytes), elementBytes), numElements);
  Value numVectors = select(isAlike, div(sub(numElements, head), vectorBytes / elementBytes), constant(0));
  Value inVectors = mul(numVectors, constant(vectorBytes / elementBytes));
  return {numVectors, head, inVectors, sub(numElements, inVectors)};
}

/// `build` gets offsets in bytes, and the type of what is at them: a vector of elements, or one.
void MoveFunctions::buildElements(Value destination, Value isAlike, Value numElements, KoloType type,
                                  int64_t unitsAtOnce, function_ref<void(ArrayRef<Value>, Type)> build) {
  Type stored = storedType(builder, type);
  int64_t elementBytes = stored.getIntOrFloatBitWidth() / 8;
  Split parts = split(destination, isAlike, numElements, elementBytes);
  Value headBytes = mul(parts.head, constant(elementBytes));
  buildStrided(parts.numVectors, unitsAtOnce, [&](ArrayRef<Value> units) {
    build(llvm::map_to_vector<unroll>(units,
                                      [&](Value unit) { return add(headBytes, mul(unit, constant(vectorBytes))); }),
          VectorType::get({vectorBytes / elementBytes}, stored));
  });
  buildStrided(parts.single, unitsAtOnce, [&](ArrayRef<Value> units) {
    build(llvm::map_to_vector<unroll>(units,
                                      [&](Value unit) {
                                        Value element =
                                            select(isLess(unit, parts.head), unit, add(unit, parts.inVectors));
                                        return mul(element, constant(elementBytes));
                                      }),
          stored);
  });
}

void MoveFunctions::reduceElements(LLVM::LLVMFuncOp function, const Reduction &reduction) {
  Value destination = function.getArgument(0), source = function.getArgument(1);
  auto build = [&](ArrayRef<Value> offsets, Type moved) {
    SmallVector<Value> left, right;
    for (Value offset : offsets) {
      left.push_back(loadAt(destination, offset, moved, alignmentOf(moved)));
      right.push_back(loadAt(source, offset, moved, alignmentOf(moved)));
    }
    for (auto [offset, a, b] : llvm::zip_equal(offsets, left, right)) {
      Value value = createReduction(builder, loc, reduction.type, reduction.reduction, a, b, reduction.accumulation);
      storeAt(value, destination, offset, alignmentOf(moved));
    }
  };
  buildElements(destination, areAlike(differenceOf(destination, source), vectorBytes),
                toIndex(builder, loc, function.getArgument(2)), reduction.type, unroll, build);
}

/// Sums stay in registers, as bits, which code generators carry best. Two sources at a time, so that twice `unroll`
/// loads are in flight.
void MoveFunctions::combineElements(LLVM::LLVMFuncOp function, const Reduction &reduction) {
  SmallVector<Value> arguments = uniformArguments(function);
  Value numSources = toIndex(builder, loc, arguments[0]), one = constant(1);
  Value first = toIndex(builder, loc, arguments[1]), end = toIndex(builder, loc, arguments[2]);
  auto build = [&](ArrayRef<Value> offsets, Type moved) {
    int64_t alignment = alignmentOf(moved);
    Type bits = isa<VectorType>(moved) ? Type(VectorType::get({4}, builder.getI32Type()))
                                       : builder.getIntegerType(moved.getIntOrFloatBitWidth());
    auto as = [&](Type type, Value value) -> Value {
      return value.getType() == type ? value : LLVM::BitcastOp::create(builder, loc, type, value).getResult();
    };
    auto loadListed = [&](Value number) {
      Value source = listed(number);
      return llvm::map_to_vector<unroll>(offsets,
                                         [&](Value offset) { return loadAt(source, offset, bits, alignment); });
    };
    auto combine = [&](Value sum, Value value) {
      return as(bits, createReduction(builder, loc, reduction.type, reduction.reduction, as(moved, sum),
                                      as(moved, value), reduction.accumulation));
    };
    auto addSources = [&](Value from, Value to, int64_t atOnce, ValueRange sums) -> SmallVector<Value> {
      OpBuilder::InsertionGuard guard(builder);
      auto loop = scf::ForOp::create(builder, loc, from, to, constant(atOnce), sums);
      builder.setInsertionPointToStart(loop.getBody());
      SmallVector<SmallVector<Value, unroll>> loaded;
      for (int64_t i = 0; i < atOnce; ++i)
        loaded.push_back(loadListed(add(loop.getInductionVar(), constant(i))));
      SmallVector<Value> after(loop.getRegionIterArgs());
      for (const auto &values : loaded)
        for (auto [sum, value] : llvm::zip_equal(after, values))
          sum = combine(sum, value);
      scf::YieldOp::create(builder, loc, after);
      return llvm::to_vector(ValueRange(loop.getResults()));
    };
    SmallVector<Value> sums(loadListed(constant(0)));
    Value next = one;
    if (isa<VectorType>(moved) && offsets.size() > 1) { // where most of the time goes
      next = add(one, mul(div(sub(numSources, one), 2), constant(2)));
      sums = addSources(one, next, 2, sums);
    }
    storeListed(first, end, addSources(next, numSources, 1, sums), offsets, alignment);
  };
  buildElements(listed(constant(0)), areAlike(arguments[3], vectorBytes), toIndex(builder, loc, arguments[4]),
                reduction.type, unroll, build);
}

void MoveFunctions::divideElements(LLVM::LLVMFuncOp function, KoloType type) {
  Value destination = function.getArgument(0), numRanks = function.getArgument(3);
  auto divideBy = [&](const Divisor &divisor) {
    // No device divides vectors of integers.
    Value useVectors = arith::ConstantIntOp::create(builder, loc, isFloat(type), 1);
    auto build = [&](ArrayRef<Value> offsets, Type moved) {
      if (isa<VectorType>(moved) && !isFloat(type))
        return;
      SmallVector<Value> values;
      for (Value offset : offsets)
        values.push_back(loadAt(destination, offset, moved, alignmentOf(moved)));
      for (auto [offset, value] : llvm::zip_equal(offsets, values))
        storeAt(createQuotient(builder, loc, type, value, divisor), destination, offset, alignmentOf(moved));
    };
    // Divisions take long: several loads in flight would not make them faster, but the code longer.
    buildElements(destination, useVectors, toIndex(builder, loc, function.getArgument(1)), type,
                  divisor.isInverse ? unroll : 1, build);
  };
  if (!isFloat(type))
    return divideBy(createDivisor(builder, loc, type, numRanks));
  OpBuilder::InsertionGuard guard(builder);
  auto choice = scf::IfOp::create(builder, loc, hasExactInverse(builder, loc, numRanks), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  divideBy(createDivisor(builder, loc, type, numRanks, /*isInverse=*/true));
  builder.setInsertionPointToStart(choice.elseBlock());
  divideBy(createDivisor(builder, loc, type, numRanks));
}

void MoveFunctions::buildChoice(Value chosen, ArrayRef<int64_t> numbers, function_ref<void(size_t)> build) {
  OpBuilder::InsertionGuard guard(builder);
  auto choice =
      scf::IndexSwitchOp::create(builder, loc, TypeRange(), toIndex(builder, loc, chosen), numbers, numbers.size());
  for (auto [position, region] : llvm::enumerate(choice.getCaseRegions())) {
    builder.createBlock(&region);
    build(position);
    scf::YieldOp::create(builder, loc);
  }
  builder.createBlock(&choice.getDefaultRegion());
  LLVM::Trap::create(builder, loc);
  scf::YieldOp::create(builder, loc);
}

/// The same number for all pairs of type and reduction that are computed alike.
static int64_t numberOf(KoloType type, KoloReduction reduction) {
  return int64_t(type) * int64_t(KOLO_NUM_REDUCTIONS) + int64_t(reduction);
}

void MoveFunctions::buildReductions(LLVM::LLVMFuncOp function, const DeviceOptions &options,
                                    function_ref<void(const Reduction &)> build) {
  std::vector<Reduction> bodies;
  SmallVector<int64_t> numbers;
  for (KoloType type : options.types)
    for (KoloReduction reduction : options.reductions) {
      if (reduction == KOLO_AVERAGE && llvm::is_contained(options.reductions, KOLO_SUM))
        continue; // see below
      bodies.push_back({type, reduction, options.accumulation});
      numbers.push_back(numberOf(type, reduction == KOLO_AVERAGE ? KOLO_SUM : reduction));
    }
  // An average is a sum that is divided at the end.
  Value type = uniform(function.getArguments().drop_back().back()), asked = uniform(function.getArguments().back());
  Value isAverage =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, asked, constantI64(builder, loc, KOLO_AVERAGE));
  Value reduction = select(isAverage, constantI64(builder, loc, KOLO_SUM), asked);
  Value row = arith::MulIOp::create(builder, loc, type, constantI64(builder, loc, KOLO_NUM_REDUCTIONS));
  buildChoice(arith::AddIOp::create(builder, loc, row, reduction), numbers,
              [&](size_t position) { build(bodies[position]); });
}

void MoveFunctions::defineReduce(const DeviceOptions &options) {
  auto function =
      createFunction(builder, module, reduceFunction, Type(), {pointer, pointer, i64, i64, i64}, Inlining::Never);
  buildReductions(function, options, [&](const Reduction &reduction) { reduceElements(function, reduction); });
  finish();
}

void MoveFunctions::defineCombine(const DeviceOptions &options) {
  auto function = createFunction(builder, module, combineFunction, Type(), SmallVector<Type>(7, i64), Inlining::Never);
  buildReductions(function, options, [&](const Reduction &reduction) { combineElements(function, reduction); });
  finish();
}

void MoveFunctions::defineDivide(const DeviceOptions &options) {
  auto function = createFunction(builder, module, divideFunction, Type(), {pointer, i64, i64, i64}, Inlining::Never);
  SmallVector<int64_t> numbers;
  if (llvm::is_contained(options.reductions, KOLO_AVERAGE))
    numbers.assign(options.types.begin(), options.types.end());
  buildChoice(function.getArgument(2), numbers,
              [&](size_t position) { divideElements(function, KoloType(numbers[position])); });
  finish();
}

} // namespace

void defineMoves(ModuleOp module, const DeviceOptions &options, int64_t groupSize) {
  MoveFunctions moves(module, groupSize);
  moves.defineCopy();
  moves.defineReduce(options);
  moves.defineDivide(options);
  if (!module.walk([](FuseOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return;
  moves.defineMulticast();
  moves.defineCombine(options);
}

} // namespace kolo::gpu
