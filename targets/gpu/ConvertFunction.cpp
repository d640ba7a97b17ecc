// Moves between buffers of different codecs, as one function for all of them. The teams of a block take turns with the
// granules of a range. A team decodes the sources one after the other into its room, and combines them there. It rounds
// each sum as the fused chunk would store it, and encodes the result once for all destinations of one codec.
//
// Nothing is contracted: the products of scales and codes are rounded before they are added.
#include "targets/gpu/TeamCodec.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using kolo::codec::granule;

namespace kolo::gpu {

namespace {

class ConvertFunction : TeamBuilder {
public:
  ConvertFunction(ModuleOp module, OpBuilder &builder, const DeviceOptions &options, ArrayRef<codec::Codec> codecs,
                  int64_t teamThreads)
      : TeamBuilder(builder, module.getLoc(), teamThreads), module(module), options(options), codecs(codecs),
        hasDraws(haveDraws(codecs)) {}

  void define();

private:
  /// The function's arguments.
  struct Call {
    Value numSources, first, end, codecs, numElements, type, reduction, chunk;
    SmallVector<Value, 2> draws; // hash and element; nothing if no codec is stochastic

    static size_t size(bool hasDraws) { return hasDraws ? 10 : 8; }
    SmallVector<Value> values() const {
      SmallVector<Value> all{numSources, first, end, codecs, numElements, type, reduction, chunk};
      llvm::append_range(all, draws);
      return all;
    }
    static Call of(ArrayRef<Value> v, bool hasDraws) {
      return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], SmallVector<Value, 2>(v.slice(8, hasDraws ? 2 : 0))};
    }
  };
  using Case = function_ref<void(int64_t number)>;
  void choose(Value chosen, ArrayRef<int64_t> numbers, Case build, Part otherwise = nullptr);
  /// Of an entry of the lists.
  struct Side {
    Value address, codec;
  };
  Side listed(Value entry);
  Value uniform(Value value) { return call(builder, loc, uniformFunction, {value}); }
  Value numberOfTeam() { return uniform(over(call(builder, loc, threadFunction), teamThreads)); }
  Value sizeOf(Value number) { return least(sub(arguments.numElements, mul(number, granule)), integer(granule)); }

  SmallVector<Value> enter(StringRef name, size_t numGiven);
  void outline(const Twine &stage, ArrayRef<Value> given, function_ref<void(ArrayRef<Value> received)> build);
  void convertGranule(Value number);
  void absorbSource(Value source, Value number);
  void absorbCodec(int64_t codec, Value source, Value number);
  void absorb(Value isFirst, Value numbers, Value element);
  Value combined(Value sum, Value numbers);
  void round(Value kind);
  void encode(int64_t codec, Value number);
  void forEachDestination(int64_t codec, Value number, Body build);

  /// Elements of the call's type, by that type.
  void chooseType(function_ref<void(KoloType type, int64_t elementBytes)> build);
  Value isVector(Value address, Value size);
  void loadElements(KoloType type, Value from, Value size, TeamCodec::Absorb absorb);
  void storeElements(KoloType type, Value to, Value size);
  Value widened(KoloType type, Value stored);
  Value narrowed(KoloType type, Value numbers);
  Type stored(KoloType type) { return type == KOLO_F32 ? f32 : builder.getI16Type(); }

  ModuleOp module;
  const DeviceOptions &options;
  ArrayRef<codec::Codec> codecs;
  const bool hasDraws;
  Call arguments;
  Value rounding; // i64: what `round` does to a sum
};

/// How a sum is rounded: not at all, as an element of a type of 16 bits, or as the cast of this number behind these.
constexpr int64_t noRounding = 0, roundToHalf = 1, roundToBfloat16 = 2, roundToCast = 3;
constexpr int64_t elementsOfVector32 = 4, bytesOfVector = 16;

/// One that a sum may be rounded to.
bool isCast(const codec::Codec &codec) {
  bool rounds = !codec::isNone(codec) && codec.element() != codec::Element::F32;
  return rounds && !codec::isScaled(codec) && !codec.isStochastic();
}

void ConvertFunction::choose(Value chosen, ArrayRef<int64_t> numbers, Case build, Part otherwise) {
  OpBuilder::InsertionGuard guard(builder);
  auto choice =
      scf::IndexSwitchOp::create(builder, loc, TypeRange(), toIndex(builder, loc, chosen), numbers, numbers.size());
  for (auto [number, region] : llvm::zip_equal(numbers, choice.getCaseRegions())) {
    builder.createBlock(&region);
    build(number);
    scf::YieldOp::create(builder, loc);
  }
  builder.createBlock(&choice.getDefaultRegion());
  if (otherwise)
    otherwise();
  else
    LLVM::Trap::create(builder, loc);
  scf::YieldOp::create(builder, loc);
}

ConvertFunction::Side ConvertFunction::listed(Value entry) {
  Value place = at(call(builder, loc, listFunction), mul(entry, 16));
  return {load(pointer, place, 8), load(i64, at(place, integer(8)), 8)};
}

/// Begins a function that gets the arguments of the conversion, and then so many of its own, which it returns. All are
/// the same for all threads of a team.
SmallVector<Value> ConvertFunction::enter(StringRef name, size_t numGiven) {
  size_t numArguments = Call::size(hasDraws);
  auto function =
      createFunction(builder, module, name, Type(), SmallVector<Type>(numArguments + numGiven, i64), Inlining::Never);
  SmallVector<Value> given = llvm::map_to_vector(function.getArguments(), [&](Value value) { return uniform(value); });
  arguments = Call::of(given, hasDraws);
  member = bitsBelow(call(builder, loc, threadFunction), teamThreads);
  room = at(call(builder, loc, roomFunction), mul(numberOfTeam(), teamRoomBytes));
  return SmallVector<Value>(ArrayRef(given).drop_front(numArguments));
}

/// Builds a stage of the work on a granule in a function of its own, and calls it. In one function, the addresses of
/// all stages would be kept over its loops, in more registers than there are.
void ConvertFunction::outline(const Twine &stage, ArrayRef<Value> given,
                              function_ref<void(ArrayRef<Value> received)> build) {
  std::string name = (convertFunction + "." + stage).str();
  SmallVector<Value> passed = arguments.values();
  llvm::append_range(passed, given);
  {
    OpBuilder::InsertionGuard guard(builder);
    llvm::SaveAndRestore outside(arguments);
    llvm::SaveAndRestore outsideMember(member), outsideRoom(room);
    build(enter(name, given.size()));
    LLVM::ReturnOp::create(builder, loc, ValueRange{});
  }
  call(builder, loc, name, passed);
}

void ConvertFunction::chooseType(function_ref<void(KoloType, int64_t)> build) {
  choose(arguments.type, {KOLO_F32, KOLO_F16, KOLO_BF16},
         [&](int64_t type) { build(KoloType(type), type == KOLO_F32 ? 4 : 2); });
}

Value ConvertFunction::widened(KoloType type, Value value) {
  if (type == KOLO_F32)
    return value;
  auto vector = dyn_cast<VectorType>(value.getType());
  Type wide = vector ? Type(VectorType::get(vector.getShape(), i32)) : i32;
  return createWidened(builder, loc, type == KOLO_F16 ? codec::Element::F16 : codec::Element::BF16,
                       extend(value, wide));
}

Value ConvertFunction::narrowed(KoloType type, Value numbers) {
  if (type == KOLO_F32)
    return numbers;
  Value codes = createNarrowed(builder, loc, type == KOLO_F16 ? codec::Element::F16 : codec::Element::BF16, numbers);
  auto vector = dyn_cast<VectorType>(numbers.getType());
  Type narrow = builder.getI16Type();
  return truncate(codes, vector ? Type(VectorType::get(vector.getShape(), narrow)) : narrow);
}

/// Whether all elements of a granule are in vectors.
Value ConvertFunction::isVector(Value address, Value size) {
  Value low = bitsBelow(LLVM::PtrToIntOp::create(builder, loc, i64, address), bytesOfVector);
  return both(isEqual(low, 0), isEqual(size, granule));
}

/// Up to four loads of a thread come before the first use.
void ConvertFunction::loadElements(KoloType type, Value from, Value size, TeamCodec::Absorb absorb) {
  int64_t elementBytes = type == KOLO_F32 ? 4 : 2, perVector = bytesOfVector / elementBytes;
  auto loadVectors = [&] {
    int64_t numVectors = granule / perVector, atOnce = 4;
    while (numVectors % (atOnce * teamThreads) != 0 && atOnce > 1)
      atOnce /= 2;
    loop(member, integer(numVectors), integer(atOnce * teamThreads), [&](Value vector) {
      SmallVector<std::pair<Value, Value>> loaded;
      for (int64_t i = 0; i < atOnce; ++i) {
        Value element = mul(add(vector, integer(i * teamThreads)), perVector);
        loaded.emplace_back(
            load(vectorOf(perVector, stored(type)), at(from, mul(element, elementBytes)), bytesOfVector), element);
      }
      for (auto [value, element] : loaded)
        absorb(widened(type, value), element);
    });
  };
  auto loadSingle = [&] {
    share(integer(0), size, [&](Value element) {
      absorb(widened(type, load(stored(type), at(from, mul(element, elementBytes)), elementBytes)), element);
    });
  };
  ifThen(isVector(from, size), loadVectors, loadSingle);
}

void ConvertFunction::storeElements(KoloType type, Value to, Value size) {
  int64_t elementBytes = type == KOLO_F32 ? 4 : 2, perVector = bytesOfVector / elementBytes;
  auto storeVectors = [&] {
    share(granule / perVector, [&](Value vector) {
      Value element = mul(vector, perVector);
      Value numbers = load(vectorOf(perVector, f32), numbersAt(element), bytesOfVector);
      store(narrowed(type, numbers), at(to, mul(element, elementBytes)), bytesOfVector);
    });
  };
  auto storeSingle = [&] {
    share(integer(0), size, [&](Value element) {
      store(narrowed(type, load(f32, numbersAt(element), 4)), at(to, mul(element, elementBytes)), elementBytes);
    });
  };
  ifThen(isVector(to, size), storeVectors, storeSingle);
}

Value ConvertFunction::combined(Value sum, Value numbers) {
  auto by = [&](KoloReduction reduction) { return createReduction(builder, loc, KOLO_F32, reduction, sum, numbers); };
  Value result = by(KOLO_SUM);
  for (KoloReduction reduction : {KOLO_MIN, KOLO_MAX})
    if (llvm::is_contained(options.reductions, reduction))
      result = select(isEqual(arguments.reduction, reduction), by(reduction), result);
  return result;
}

/// Into the room.
void ConvertFunction::absorb(Value isFirst, Value numbers, Value element) {
  Value place = numbersAt(element);
  int64_t alignment = isa<VectorType>(numbers.getType()) ? bytesOfVector : 4;
  Value sum = load(numbers.getType(), place, alignment);
  store(select(isFirst, numbers, combined(sum, numbers)), place, alignment);
}

void ConvertFunction::absorbSource(Value source, Value number) {
  Value codec = listed(source).codec;
  choose(codec, llvm::to_vector(llvm::seq<int64_t>(0, int64_t(codecs.size()))), [&](int64_t chosen) {
    outline("absorb." + Twine(chosen), {source, number},
            [&](ArrayRef<Value> received) { absorbCodec(chosen, received[0], received[1]); });
  });
  meet();
  // What comes first from a buffer of the same codec is rounded already.
  Value isAlike =
      both(isEqual(source, 0), arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, codec, arguments.chunk));
  round(select(isAlike, integer(noRounding), rounding));
}

void ConvertFunction::absorbCodec(int64_t codec, Value source, Value number) {
  Value address = listed(source).address, size = sizeOf(number), isFirst = isEqual(source, 0);
  auto absorbNumbers = [&](Value numbers, Value element) { absorb(isFirst, numbers, element); };
  if (codec == 0)
    return chooseType([&](KoloType type, int64_t elementBytes) {
      loadElements(type, at(address, mul(number, granule * elementBytes)), size, absorbNumbers);
    });
  const codec::Codec &found = codecs[size_t(codec)];
  TeamCodec(*this, found).decode(at(address, mul(number, codec::bytes(found, granule))), size, absorbNumbers);
}

void ConvertFunction::round(Value kind) {
  SmallVector<int64_t> kinds{roundToHalf, roundToBfloat16};
  for (auto [number, codec] : llvm::enumerate(codecs))
    if (isCast(codec))
      kinds.push_back(roundToCast + int64_t(number));
  auto roundElements = [&](KoloType type) {
    share(granule / elementsOfVector32, [&](Value vector) {
      Value place = numbersAt(mul(vector, elementsOfVector32));
      Value numbers = load(vectorOf(elementsOfVector32, f32), place, bytesOfVector);
      store(widened(type, narrowed(type, numbers)), place, bytesOfVector);
    });
  };
  auto build = [&](int64_t chosen) {
    outline("round." + Twine(chosen), {}, [&](ArrayRef<Value>) {
      if (chosen >= roundToCast)
        TeamCodec(*this, codecs[size_t(chosen - roundToCast)]).roundAll();
      else
        roundElements(chosen == roundToHalf ? KOLO_F16 : KOLO_BF16);
    });
    meet();
  };
  choose(kind, kinds, build, [] {});
}

/// Of one codec: `build` gets the address of the granule.
void ConvertFunction::forEachDestination(int64_t codec, Value number, Body build) {
  loop(arguments.first, arguments.end, integer(1), [&](Value entry) {
    Side side = listed(add(entry, integer(destinationEntries / 2)));
    ifThen(isEqual(side.codec, codec), [&] {
      if (codec != 0)
        return build(at(side.address, mul(number, codec::bytes(codecs[size_t(codec)], granule))));
      build(side.address);
    });
  });
}

void ConvertFunction::encode(int64_t codec, Value number) {
  Value size = sizeOf(number);
  auto destinations = [&](Body build) { forEachDestination(codec, number, build); };
  if (codec != 0) {
    TeamCodec::DrawKey key;
    if (hasDraws)
      key = {truncate(arguments.draws[0], i32), add(arguments.draws[1], mul(number, granule))};
    return TeamCodec(*this, codecs[size_t(codec)]).encode(size, key, destinations);
  }
  chooseType([&](KoloType type, int64_t elementBytes) {
    destinations([&](Value to) { storeElements(type, at(to, mul(number, granule * elementBytes)), size); });
  });
  meet();
}

void ConvertFunction::convertGranule(Value number) {
  loop(integer(0), arguments.numSources, integer(1), [&](Value source) { absorbSource(source, number); });
  Value size = sizeOf(number);
  ifThen(isBelow(size, integer(granule)), [&] {
    Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
    share(size, integer(granule), [&](Value element) { store(zero, numbersAt(element), 4); });
    meet();
  });
  for (int64_t codec = 0; codec < int64_t(codecs.size()); ++codec) {
    Value bit = bitsBelow(arith::ShRUIOp::create(builder, loc, arguments.codecs, integer(codec)), 2);
    ifThen(isEqual(bit, 1), [&] {
      outline("encode." + Twine(codec), {number}, [&](ArrayRef<Value> received) { encode(codec, received[0]); });
    });
  }
}

void ConvertFunction::define() {
  declarePrimitive(builder, module, meetFunction, Type(), {i64});
  declarePrimitive(builder, module, roomFunction, pointerType(builder, blockSpace), {});
  enter(convertFunction, 0);
  call(builder, loc, barrierFunction);
  rounding = integer(noRounding);
  for (auto [number, codec] : llvm::enumerate(codecs))
    if (isCast(codec))
      rounding = select(isEqual(arguments.chunk, int64_t(number)), integer(roundToCast + int64_t(number)), rounding);
  for (auto [type, kind] : {std::pair(KOLO_F16, roundToHalf), {KOLO_BF16, roundToBfloat16}})
    rounding = select(both(isEqual(arguments.chunk, 0), isEqual(arguments.type, type)), integer(kind), rounding);
  Value numTeams = over(call(builder, loc, numThreadsFunction), teamThreads);
  loop(numberOfTeam(), overUp(arguments.numElements, granule), numTeams, [&](Value number) { convertGranule(number); });
  call(builder, loc, barrierFunction);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

} // namespace

void defineConversions(ModuleOp module, const DeviceOptions &options, ArrayRef<codec::Codec> codecs,
                       int64_t teamThreads) {
  assert(llvm::isPowerOf2_64(uint64_t(teamThreads)) && "members of a team are found by their bits");
  OpBuilder builder(module.getContext());
  ConvertFunction(module, builder, options, codecs, teamThreads).define();
}

} // namespace kolo::gpu
