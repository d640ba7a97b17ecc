// Conversions of what moves: granule by granule through numbers in f32, each side in its own format. The end of a block
// of `count`, less than a granule, is laid out by itself.
#include "targets/cpu/CodecFunctions.h"

#include "compiler/lower/BufferLayout.h"
#include "targets/cpu/FunctionBuilder.h"

using namespace mlir;
using kolo::codec::granule;

namespace kolo::cpu {

static std::string packName(const codec::Codec &codec) { return "kolo.pack." + codec::textOf(codec); }
static std::string unpackName(const codec::Codec &codec) { return "kolo.unpack." + codec::textOf(codec); }
static constexpr llvm::StringLiteral packElements =
    "kolo.pack.elements"; // (inv, numbers, dst, numElements, nonTemporal)
static constexpr llvm::StringLiteral unpackElements = "kolo.unpack.elements"; // (inv, src, numbers, numElements)

std::string Conversion::functionName(Side side) const {
  static constexpr const char *sides[] = {"local", "put", "get"};
  return std::string("kolo.") + (isCombining ? "combine." : "convert.") + sides[size_t(side)] + "." +
         codec::textOf(from) + "." + codec::textOf(to);
}

namespace {

/// Packing and unpacking of at most one granule, by one codec.
class TailFunctions : FunctionBuilder {
public:
  TailFunctions(ModuleOp module, const codec::Codec &codec)
      : FunctionBuilder(module), codec(codec), bits(codec::bitsOf(codec.element())),
        totalBytes(codec::bytes(codec, granule)) {}

  void definePack();
  void defineUnpack();

private:
  enum class Direction { ToTail, FromTail };
  void moveParts(Value whole, Value tail, Value numElements, Direction direction);
  void moveFields(Value from, Value fromBit, Value to, Value toBit, int64_t width, Value numElements);
  Value bytesOf(Value numElements) {
    return toInteger(builder, loc, createEncodedBytes(builder, loc, codec, toIndex(builder, loc, numElements)));
  }
  Value isWhole(Value numElements) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, numElements, integer64(granule));
  }
  Value units(Value number, int64_t perUnit) { // of 16 bytes, in bytes
    return mul64(div64(add64(number, integer64(perUnit - 1)), perUnit), 16);
  }

  const codec::Codec &codec;
  int64_t bits, totalBytes;
};

/// Fields of a few bits each, into zeros.
void TailFunctions::moveFields(Value from, Value fromBit, Value to, Value toBit, int64_t width, Value numElements) {
  Type i8 = builder.getI8Type();
  loop(integer64(0), numElements, 1, [&](Value i) {
    auto placeOf = [&](Value first) { return add64(first, mul64(i, width)); };
    auto inByte = [&](Value bit) { return arith::AndIOp::create(builder, loc, bit, integer64(7)).getResult(); };
    Value source = placeOf(fromBit), destination = placeOf(toBit), address = at(to, div64(destination, 8));
    Value byte = arith::ExtUIOp::create(builder, loc, i64, load(i8, at(from, div64(source, 8))));
    Value field = arith::AndIOp::create(builder, loc, arith::ShRUIOp::create(builder, loc, byte, inByte(source)),
                                        integer64((1 << width) - 1));
    Value moved = arith::ShLIOp::create(builder, loc, field, inByte(destination));
    Value narrow = arith::TruncIOp::create(builder, loc, i8, moved);
    store(arith::OrIOp::create(builder, loc, load(i8, address), narrow), address);
  });
}

/// Between the layout of a whole granule and that of its first elements. The destination holds zeros.
void TailFunctions::moveParts(Value whole, Value tail, Value numElements, Direction direction) {
  bool toTail = direction == Direction::ToTail;
  auto copy = [&](Value inWhole, Value inTail, Value numBytes) {
    call(copyFunction, {toTail ? inTail : inWhole, toTail ? inWhole : inTail, numBytes, integer64(0)});
  };
  auto moveBits = [&](int64_t width, Value inWhole, Value inTail) {
    moveFields(toTail ? whole : tail, toTail ? inWhole : inTail, toTail ? tail : whole, toTail ? inTail : inWhole,
               width, numElements);
  };
  if (bits >= 8)
    copy(whole, tail, mul64(numElements, bits / 8));
  else
    moveBits(bits == 6 ? 4 : bits, integer64(0), integer64(0));
  if (bits == 6)
    moveBits(2, integer64(granule * 4), mul64(numElements, 4));
  if (!codec::isScaled(codec))
    return;
  Value numBlocks = div64(add64(numElements, integer64(codec.block() - 1)), codec.block());
  copy(at(whole, granule * bits / 8), at(tail, units(mul64(numElements, bits), 128)),
       mul64(numBlocks, codec::bytesOf(codec.scale())));
  if (codec.scale() == codec::Scale::E4M3)
    copy(at(whole, totalBytes - 16), at(tail, sub64(bytesOf(numElements), integer64(16))), integer64(4));
}

void TailFunctions::definePack() {
  if (!create(packName(codec), {pointer, pointer, i64, i32, i64}))
    return;
  Value tile = argument(0), to = argument(1), numElements = argument(2);
  Value whole = allocate(totalBytes);
  auto choice = scf::IfOp::create(builder, loc, isWhole(numElements), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  call(encodeName(codec), {tile, to, numElements, argument(3), argument(4)});
  builder.setInsertionPointToStart(choice.elseBlock());
  loop(numElements, integer64(granule), 1,
       [&](Value i) { store(constantI32(builder, loc, 0), at(tile, mul64(i, 4))); });
  call(encodeName(codec), {tile, whole, numElements, argument(3), argument(4)});
  fillZero(to, bytesOf(numElements));
  moveParts(whole, to, numElements, Direction::ToTail);
  finish();
}

void TailFunctions::defineUnpack() {
  if (!create(unpackName(codec), {pointer, pointer, i64}))
    return;
  Value from = argument(0), tile = argument(1), numElements = argument(2);
  Value whole = allocate(totalBytes);
  auto choice = scf::IfOp::create(builder, loc, isWhole(numElements), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.thenBlock());
  call(decodeName(codec), {from, tile});
  builder.setInsertionPointToStart(choice.elseBlock());
  fillZero(whole, integer64(totalBytes));
  moveParts(whole, from, numElements, Direction::FromTail);
  call(decodeName(codec), {whole, tile});
  finish();
}

/// Elements of the call's type, at most a granule of them, as numbers in f32.
class ElementFunctions : FunctionBuilder {
public:
  explicit ElementFunctions(ModuleOp module) : FunctionBuilder(module) {}

  void definePack() {
    if (create(packElements, {pointer, pointer, pointer, i64, i64}))
      define(/*isPacking=*/true);
  }
  void defineUnpack() {
    if (create(unpackElements, {pointer, pointer, pointer, i64}))
      define(/*isPacking=*/false);
  }

private:
  void define(bool isPacking);
  void convertAll(bool isPacking, codec::Element element);
};

void ElementFunctions::convertAll(bool isPacking, codec::Element element) {
  constexpr int64_t width = 32;
  Value from = argument(1), to = argument(2), numElements = argument(3);
  Value vectors = mul64(div64(numElements, width), width);
  auto convert = [&](Value i, int64_t size) {
    Type halves = vectorOf(size, builder.getI16Type()), numbers = vectorOf(size, f32), codes = vectorOf(size, i32);
    Value wide = mul64(i, 4), narrow = mul64(i, 2);
    if (isPacking) {
      Value code = createNarrowed(builder, loc, element, load(numbers, at(from, wide)));
      return store(arith::TruncIOp::create(builder, loc, halves, code), at(to, narrow));
    }
    Value code = arith::ExtUIOp::create(builder, loc, codes, load(halves, at(from, narrow)));
    store(createWidened(builder, loc, element, code), at(to, wide));
  };
  loop(integer64(0), vectors, width, [&](Value i) { convert(i, width); });
  loop(vectors, numElements, 1, [&](Value i) { convert(i, 1); });
}

void ElementFunctions::define(bool isPacking) {
  Value type = InvocationAccess(builder, loc, argument(0)).loadInteger(offsetof(KoloInvocation, type));
  auto is = [&](int64_t wanted) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, type, integer64(wanted));
  };
  auto isSingle = scf::IfOp::create(builder, loc, is(KOLO_F32), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(isSingle.thenBlock());
  call(copyFunction, {argument(2), argument(1), mul64(argument(3), 4), isPacking ? argument(4) : integer64(0)});
  builder.setInsertionPointToStart(isSingle.elseBlock());
  auto isHalf = scf::IfOp::create(builder, loc, is(KOLO_F16), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(isHalf.thenBlock());
  convertAll(isPacking, codec::Element::F16);
  builder.setInsertionPointToStart(isHalf.elseBlock());
  convertAll(isPacking, codec::Element::BF16);
  finish();
}

/// The functions of one conversion.
class ConversionFunctions : FunctionBuilder {
public:
  ConversionFunctions(ModuleOp module, const Conversion &conversion)
      : FunctionBuilder(module), conversion(conversion) {}

  void defineLocal();
  void defineRemote(Conversion::Side side);

private:
  Value invocationNumber(size_t offset) { return InvocationAccess(builder, loc, argument(0)).loadInteger(offset); }
  void pack(Value tile, Value to, Value numElements, Value hash, Value element);
  void unpack(const codec::Codec &codec, Value from, Value tile, Value numElements);
  Value createHash(Value rank);
  /// Room for numbers of a granule, and a list of both.
  struct Tiles {
    Value source, target, list;
  };
  Value isPlain(const codec::Codec &codec, Value numElements);
  void buildUnless(Value condition, llvm::function_ref<void()> build);
  Value choose(Value condition, Value plain, Value tile);
  void convert(Value target, Value source, Value size, const Tiles &tiles, Value hash, Value element);
  void decode(Value target, Value source, Value size, const Tiles &tiles);
  /// Of whole granules, or of all that is left.
  Value bytesOf(const codec::Codec &codec, Value numElements);

  const Conversion &conversion;
};

Value ConversionFunctions::bytesOf(const codec::Codec &codec, Value numElements) {
  if (codec::isNone(codec))
    return arith::MulIOp::create(builder, loc, numElements, invocationNumber(offsetof(KoloInvocation, elementBytes)));
  return toInteger(builder, loc, createEncodedBytes(builder, loc, codec, toIndex(builder, loc, numElements)));
}

void ConversionFunctions::unpack(const codec::Codec &codec, Value from, Value tile, Value numElements) {
  if (codec::isNone(codec))
    return call(unpackElements, {argument(0), from, tile, numElements});
  call(unpackName(codec), {from, tile, numElements});
}

void ConversionFunctions::pack(Value tile, Value to, Value numElements, Value hash, Value element) {
  if (codec::isNone(conversion.to))
    return call(packElements, {argument(0), tile, to, numElements, argument(6)});
  call(packName(conversion.to), {tile, to, numElements, hash, element});
}

/// Of the call and the rank, which the hash of every element begins with.
Value ConversionFunctions::createHash(Value rank) {
  if (!conversion.to.isStochastic())
    return constantI32(builder, loc, 0);
  Value number = invocationNumber(offsetof(KoloInvocation, call));
  auto narrow = [&](Value value) { return arith::TruncIOp::create(builder, loc, i32, value).getResult(); };
  Value state = constantI32(builder, loc, int32_t(0x9e3779b9));
  Value high = arith::ShRUIOp::create(builder, loc, number, integer64(32));
  for (Value word : {narrow(number), narrow(high), narrow(rank)})
    state = createMixed(builder, loc, arith::XOrIOp::create(builder, loc, state, word));
  return state;
}

/// Whether a side holds numbers of f32 in a row, so that nothing need be unpacked; null: never.
Value ConversionFunctions::isPlain(const codec::Codec &codec, Value numElements) {
  bool isCall = codec::isNone(codec);
  if (!isCall && codec.element() != codec::Element::F32)
    return {};
  Value isWhole = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, numElements, integer64(granule));
  if (!isCall)
    return isWhole;
  Value type = invocationNumber(offsetof(KoloInvocation, type));
  Value isSingle = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, type, integer64(KOLO_F32));
  return arith::AndIOp::create(builder, loc, isSingle, isWhole);
}

/// Unless the condition holds; where there is none, always.
void ConversionFunctions::buildUnless(Value condition, llvm::function_ref<void()> build) {
  if (!condition)
    return build();
  OpBuilder::InsertionGuard guard(builder);
  auto choice = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.elseBlock());
  build();
}

Value ConversionFunctions::choose(Value condition, Value plain, Value tile) {
  return condition ? LLVM::SelectOp::create(builder, loc, condition, plain, tile).getResult() : tile;
}

/// One granule, or the end of a block. Where a side is plain, it is the tile.
void ConversionFunctions::convert(Value target, Value source, Value size, const Tiles &tiles, Value hash,
                                  Value element) {
  Value isSourcePlain = isPlain(conversion.from, size), isTargetPlain = isPlain(conversion.to, size);
  buildUnless(isSourcePlain, [&] { unpack(conversion.from, source, tiles.source, size); });
  Value numbers = choose(isSourcePlain, source, tiles.source);
  if (!conversion.isCombining) {
    pack(numbers, target, size, hash, element);
    return;
  }
  buildUnless(isTargetPlain, [&] { unpack(conversion.to, target, tiles.target, size); });
  Value sum = choose(isTargetPlain, target, tiles.target);
  storeEntry(builder, loc, tiles.list, index(0), sum);
  storeEntry(builder, loc, tiles.list, index(1), numbers);
  InvocationAccess invocation(builder, loc, argument(0));
  invocation.callPointer(invocation.loadPointer(offsetof(KoloInvocation, reduceNumbers)), Type(),
                         {tiles.list, integer64(1), tiles.list, integer64(2), size, integer64(0)});
  buildUnless(isTargetPlain, [&] { pack(sum, target, size, hash, element); });
}

/// Decodes straight to where numbers belong, unless those stores are non-temporal.
void ConversionFunctions::decode(Value target, Value source, Value size, const Tiles &tiles) {
  Value isTargetPlain = isPlain(conversion.to, size);
  Value isCached = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, argument(6), integer64(0));
  Value isDirect = isTargetPlain ? arith::AndIOp::create(builder, loc, isTargetPlain, isCached).getResult() : Value();
  unpack(conversion.from, source, choose(isDirect, target, tiles.source), size);
  buildUnless(isDirect, [&] { pack(tiles.source, target, size, constantI32(builder, loc, 0), integer64(0)); });
}

void ConversionFunctions::defineLocal() {
  if (!create(conversion.functionName(Conversion::Side::Local), {pointer, pointer, pointer, i64, i64, i64, i64}))
    return;
  Value to = argument(1), from = argument(2), numElements = argument(3);
  Tiles tiles{allocate(granule * 4), allocate(granule * 4), allocate(2 * sizeof(void *))};
  Value hash = createHash(argument(4));
  bool isDecoding = !conversion.isCombining && !codec::isNone(conversion.from) &&
                    (codec::isNone(conversion.to) || conversion.to.element() == codec::Element::F32);
  loop(integer64(0), numElements, granule, [&](Value first) {
    Value size = least64(sub64(numElements, first), integer64(granule));
    Value target = at(to, bytesOf(conversion.to, first)), source = at(from, bytesOf(conversion.from, first));
    if (isDecoding)
      decode(target, source, size, tiles);
    else
      convert(target, source, size, tiles, hash, add64(argument(5), first));
  });
  finish();
}

/// Directly where the peer's buffer is mapped, and through this lane's tile, as many granules at a time as fit, where
/// it is not.
void ConversionFunctions::defineRemote(Conversion::Side side) {
  if (!create(conversion.functionName(side), {pointer, i64, i64, i64, pointer, i64, i64, i64, i64}))
    return;
  bool isPut = side == Conversion::Side::Put;
  Value peer = argument(1), role = argument(2), offset = argument(3), local = argument(4), numElements = argument(5);
  std::string convert = conversion.functionName(Conversion::Side::Local);
  InvocationAccess invocation(builder, loc, argument(0));
  call(countFunction, {argument(0), integer64(isPut ? KOLO_SENT : KOLO_FETCHED),
                       bytesOf(isPut ? conversion.to : conversion.from, numElements)});
  Value base = invocation.peerBuffer(role, peer);
  Value isMissing =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, base, LLVM::ZeroOp::create(builder, loc, pointer));
  auto choice = scf::IfOp::create(builder, loc, isMissing, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(choice.elseBlock());
  Value remote = at(base, offset);
  call(convert, {argument(0), isPut ? remote : local, isPut ? local : remote, numElements, argument(6), argument(7),
                 argument(8)});

  builder.setInsertionPointToStart(choice.thenBlock());
  const codec::Codec &there = isPut ? conversion.to : conversion.from, &here = isPut ? conversion.from : conversion.to;
  Value tile = invocation.loadPointer(offsetof(KoloInvocation, tile)),
        role32 = arith::TruncIOp::create(builder, loc, i32, role);
  Value granules = arith::DivUIOp::create(builder, loc, invocationNumber(offsetof(KoloInvocation, tileBytes)),
                                          bytesOf(there, integer64(granule)));
  Value most = mul64(granules, granule);
  auto pieces =
      scf::ForOp::create(builder, loc, index(0), toIndex(builder, loc, numElements), toIndex(builder, loc, most));
  builder.setInsertionPointToStart(pieces.getBody());
  Value first = toInteger(builder, loc, pieces.getInductionVar()), size = least64(sub64(numElements, first), most);
  Value place = add64(offset, bytesOf(there, first)), mine = at(local, bytesOf(here, first));
  Value element = add64(argument(7), first), numBytes = bytesOf(there, size);
  auto move = [&](size_t service) { invocation.callService(service, Type(), {peer, role32, place, tile, numBytes}); };
  if (!isPut)
    move(offsetof(KoloServices, get));
  call(convert, {argument(0), isPut ? tile : mine, isPut ? mine : tile, size, argument(6), element,
                 isPut ? integer64(0) : argument(8)});
  if (isPut) {
    move(offsetof(KoloServices, put));
    invocation.callService(offsetof(KoloServices, flush), Type(), {}); // the tile is used again
  }
  finish();
}

/// What a receiver makes of elements of the call's type, granule by granule.
class RoundTripFunction : FunctionBuilder {
public:
  RoundTripFunction(ModuleOp module, const codec::Codec &codec) : FunctionBuilder(module), codec(codec) {}

  void define() {
    if (!create(roundTripName(codec), {pointer}))
      return;
    Value encoded = allocate(codec::bytes(codec, granule));
    InvocationAccess invocation(builder, loc, argument(0));
    Value from = invocation.localBuffer(KOLO_INPUT), to = invocation.localBuffer(KOLO_OUTPUT);
    Value numElements = invocation.loadInteger(offsetof(KoloInvocation, count));
    Value elementBytes = invocation.loadInteger(offsetof(KoloInvocation, elementBytes)), zero = integer64(0);
    std::string encode = Conversion{dsl::none(), codec, false}.functionName(Conversion::Side::Local);
    std::string decode = Conversion{codec, dsl::none(), false}.functionName(Conversion::Side::Local);
    loop(zero, numElements, granule, [&](Value first) {
      Value size = least64(sub64(numElements, first), integer64(granule));
      Value offset = arith::MulIOp::create(builder, loc, first, elementBytes);
      call(encode, {argument(0), encoded, at(from, offset), size, zero, zero, zero});
      call(decode, {argument(0), at(to, offset), encoded, size, zero, zero, zero});
    });
    finish();
  }

private:
  const codec::Codec &codec;
};

} // namespace

SmallVector<codec::Codec> collectCodecs(ModuleOp programs) {
  SmallVector<codec::Codec> codecs;
  programs.walk([&](BufferOp buffer) {
    codec::Codec codec = codecOf(buffer);
    bool loses = !codec::isNone(codec) && codec.element() != codec::Element::F32;
    if (loses && !codec.isStochastic() && !llvm::is_contained(codecs, codec))
      codecs.push_back(codec);
  });
  return codecs;
}

void defineRoundTrip(ModuleOp module, const codec::Codec &codec) {
  defineConversion(module, {dsl::none(), codec, false}, Conversion::Side::Local);
  defineConversion(module, {codec, dsl::none(), false}, Conversion::Side::Local);
  RoundTripFunction(module, codec).define();
}

void defineConversion(ModuleOp module, const Conversion &conversion, Conversion::Side side) {
  for (const codec::Codec &codec : {conversion.from, conversion.to}) {
    if (codec::isNone(codec))
      continue;
    defineGranuleFunctions(module, codec);
    TailFunctions(module, codec).definePack();
    TailFunctions(module, codec).defineUnpack();
  }
  ElementFunctions(module).definePack();
  ElementFunctions(module).defineUnpack();
  ConversionFunctions(module, conversion).defineLocal();
  if (side != Conversion::Side::Local)
    ConversionFunctions(module, conversion).defineRemote(side);
}

} // namespace kolo::cpu
