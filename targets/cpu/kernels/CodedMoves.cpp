// Moves between buffers of different codecs: granule by granule through numbers in f32, each side in its own format.
// The same for all codecs: a CodecDescription says what each of them does. The end of a block of `count`, less than a
// granule, is laid out by itself.
#include "targets/cpu/FunctionBuilder.h"
#include "targets/cpu/Kernels.h"

using namespace mlir;
using kolo::codec::granule;

namespace kolo::cpu {

namespace {

constexpr llvm::StringLiteral packFunction = "kolo.pack";     // (codec, numbers, dst, numElements, hash, element)
constexpr llvm::StringLiteral unpackFunction = "kolo.unpack"; // (codec, src, numbers, numElements)

/// Reads a CodecDescription.
class CodedFunctions : protected FunctionBuilder {
protected:
  explicit CodedFunctions(ModuleOp defined) : FunctionBuilder(defined) {}

  Value field(Value codec, size_t offset) { return load(i64, at(codec, int64_t(offset))); }
  Value product(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value isEqual(Value a, int64_t number) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, integer64(number));
  }
  Value isNull(Value address) {
    return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, address,
                                LLVM::ZeroOp::create(builder, loc, pointer));
  }
  Value areSame(Value a, Value b) { // addresses
    return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, a, b);
  }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value either(Value a, Value b) { return arith::OrIOp::create(builder, loc, a, b); }
  Value isNot(Value a) {
    return arith::XOrIOp::create(builder, loc, a, arith::ConstantIntOp::create(builder, loc, 1, 1));
  }
  Value choose(Value condition, Value a, Value b) { return LLVM::SelectOp::create(builder, loc, condition, a, b); }
  void callCodec(Value codec, size_t offset, ValueRange arguments) {
    InvocationAccess(builder, loc, codec).callPointer(load(pointer, at(codec, int64_t(offset))), Type(), arguments);
  }
  Value units(Value number, int64_t perUnit) { // of 16 bytes, in bytes
    return mul64(div64(add64(number, integer64(perUnit - 1)), perUnit), 16);
  }
  Value bytesOfCodes(Value codec, Value numElements) {
    return units(product(numElements, field(codec, offsetof(CodecDescription, codeBits))), 128);
  }
  Value bytesOfScales(Value codec, Value numElements) {
    Value block = field(codec, offsetof(CodecDescription, block));
    Value numBlocks = arith::CeilDivUIOp::create(builder, loc, numElements, block);
    return product(numBlocks, field(codec, offsetof(CodecDescription, scaleBytes)));
  }
  /// `codec::bytes` of at most a granule.
  Value bytesOfPart(Value codec, Value numElements) {
    Value unit = product(least64(numElements, integer64(1)), field(codec, offsetof(CodecDescription, unitBytes)));
    Value scales = units(bytesOfScales(codec, numElements), 16);
    return add64(add64(bytesOfCodes(codec, numElements), scales), units(unit, 16));
  }
  using Part = llvm::function_ref<void()>;
  void buildIf(Value condition, Part then, Part otherwise = nullptr) {
    OpBuilder::InsertionGuard guard(builder);
    auto choice = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/bool(otherwise));
    builder.setInsertionPointToStart(choice.thenBlock());
    then();
    if (!otherwise)
      return;
    builder.setInsertionPointToStart(choice.elseBlock());
    otherwise();
  }
};

/// Packing and unpacking of at most one granule.
class TailFunctions : CodedFunctions {
public:
  explicit TailFunctions(ModuleOp defined) : CodedFunctions(defined) {}

  void definePack();
  void defineUnpack();

private:
  enum class Direction { ToTail, FromTail };
  void moveParts(Value whole, Value tail, Value numElements, Direction direction);
  void moveFields(Value from, Value fromBit, Value to, Value toBit, Value width, Value numElements);
  Value read(size_t offset) { return field(argument(0), offset); }
};

/// Fields of a few bits each, into zeros.
void TailFunctions::moveFields(Value from, Value fromBit, Value to, Value toBit, Value width, Value numElements) {
  Type i8 = builder.getI8Type();
  Value one = integer64(1), mask = sub64(arith::ShLIOp::create(builder, loc, one, width), one);
  loop(integer64(0), numElements, 1, [&](Value i) {
    auto placeOf = [&](Value first) { return add64(first, product(i, width)); };
    auto inByte = [&](Value bit) { return arith::AndIOp::create(builder, loc, bit, integer64(7)).getResult(); };
    Value source = placeOf(fromBit), destination = placeOf(toBit), address = at(to, div64(destination, 8));
    Value byte = arith::ExtUIOp::create(builder, loc, i64, load(i8, at(from, div64(source, 8))));
    Value field = arith::AndIOp::create(builder, loc, arith::ShRUIOp::create(builder, loc, byte, inByte(source)), mask);
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
  auto moveBits = [&](Value width, Value inWhole, Value inTail) {
    moveFields(toTail ? whole : tail, toTail ? inWhole : inTail, toTail ? tail : whole, toTail ? inTail : inWhole,
               width, numElements);
  };
  Value bits = read(offsetof(CodecDescription, codeBits)), isSix = isEqual(bits, 6), zero = integer64(0);
  Value isBytes = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, bits, integer64(8));
  buildIf(
      isBytes, [&] { copy(whole, tail, product(numElements, div64(bits, 8))); },
      [&] { moveBits(choose(isSix, integer64(4), bits), zero, zero); });
  buildIf(isSix, [&] { moveBits(integer64(2), integer64(granule * 4), mul64(numElements, 4)); });
  copy(at(whole, mul64(bits, granule / 8)), at(tail, bytesOfCodes(argument(0), numElements)),
       bytesOfScales(argument(0), numElements));
  Value unitBytes = read(offsetof(CodecDescription, unitBytes));
  Value wholeBytes = read(offsetof(CodecDescription, granuleBytes));
  copy(at(whole, sub64(wholeBytes, integer64(16))),
       at(tail, sub64(bytesOfPart(argument(0), numElements), integer64(16))), unitBytes);
}

void TailFunctions::definePack() {
  if (!create(packFunction, {pointer, pointer, pointer, i64, i32, i64}))
    return;
  Value tile = argument(1), to = argument(2), numElements = argument(3);
  Value whole = allocate(CodecDescription::mostBytes);
  auto encode = [&](Value place) {
    callCodec(argument(0), offsetof(CodecDescription, encode), {tile, place, numElements, argument(4), argument(5)});
  };
  buildIf(
      isEqual(numElements, granule), [&] { encode(to); },
      [&] {
        loop(numElements, integer64(granule), 1,
             [&](Value i) { store(constantI32(builder, loc, 0), at(tile, mul64(i, 4))); });
        encode(whole);
        fillZero(to, bytesOfPart(argument(0), numElements));
        moveParts(whole, to, numElements, Direction::ToTail);
      });
  finish();
}

void TailFunctions::defineUnpack() {
  if (!create(unpackFunction, {pointer, pointer, pointer, i64}))
    return;
  Value from = argument(1), tile = argument(2), numElements = argument(3);
  Value whole = allocate(CodecDescription::mostBytes);
  auto decode = [&](Value place) { callCodec(argument(0), offsetof(CodecDescription, decode), {place, tile}); };
  buildIf(
      isEqual(numElements, granule), [&] { decode(from); },
      [&] {
        loop(integer64(0), read(offsetof(CodecDescription, granuleBytes)), 8,
             [&](Value offset) { store(integer64(0), at(whole, offset)); });
        moveParts(whole, from, numElements, Direction::FromTail);
        decode(whole);
      });
  finish();
}

/// Whole moves. Codecs are null where a side holds elements of the call's type.
class ConvertFunctions : CodedFunctions {
public:
  explicit ConvertFunctions(ModuleOp defined) : CodedFunctions(defined) {}

  void defineConvert();
  void defineRemote(bool isPut);
  void defineFused();
  void defineRoundTrip();

private:
  /// What all granules of one move have in common.
  struct Move {
    Value to, from; // codecs
    Value nonTemporal, isCombining, hash;
    Value sourceTile, targetTile, list; // room for numbers of a granule, and for a list of two addresses
  };
  InvocationAccess invocation() { return {builder, loc, argument(0)}; }
  Value invocationNumber(size_t offset) { return invocation().loadInteger(offset); }
  void pack(Value codec, Value numbers, Value to, Value size, Value hash, Value element);
  void unpack(Value codec, Value from, Value numbers, Value size);
  Value createHash(Value rank);
  Value bytesOf(Value codec, Value numElements);
  Value holdsNumbers(Value codec, Value size);
  void convert(const Move &move, Value target, Value source, Value size, Value element);
  void combine(const Move &move, Value target, Value numbers, Value size, Value element);

  /// One side of a fused move, at the granule at hand.
  struct Side {
    Value address, codec;
  };
  struct Fused {
    Side chunk;
    Value first, size, element, nonTemporal, list;
  };
  Side sideOf(Value list, Value number, Value first);
  void copyBytes(Value target, const Side &source, Value size);
  void convertInto(const Fused &fused, const Side &source, Value isCombining);
  void convertOut(const Fused &fused, const Side &destination);
};

/// Of any number of elements.
Value ConvertFunctions::bytesOf(Value codec, Value numElements) {
  Value elements = product(numElements, invocationNumber(offsetof(KoloInvocation, elementBytes)));
  auto coded = scf::IfOp::create(builder, loc, TypeRange(i64), isNull(codec), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(coded.thenBlock());
  scf::YieldOp::create(builder, loc, elements);
  builder.setInsertionPointToStart(coded.elseBlock());
  Value whole = product(div64(numElements, granule), field(codec, offsetof(CodecDescription, granuleBytes)));
  Value rest = arith::RemUIOp::create(builder, loc, numElements, integer64(granule));
  scf::YieldOp::create(builder, loc, add64(whole, bytesOfPart(codec, rest)));
  return coded.getResult(0);
}

void ConvertFunctions::unpack(Value codec, Value from, Value numbers, Value size) {
  buildIf(
      isNull(codec), [&] { call(unpackElementsFunction, {argument(0), from, numbers, size}); },
      [&] { call(unpackFunction, {codec, from, numbers, size}); });
}

void ConvertFunctions::pack(Value codec, Value numbers, Value to, Value size, Value hash, Value element) {
  buildIf(
      isNull(codec), [&] { call(packElementsFunction, {argument(0), numbers, to, size}); },
      [&] { call(packFunction, {codec, numbers, to, size, hash, element}); });
}

/// Of the call and the rank, which the hash of every element begins with.
Value ConvertFunctions::createHash(Value rank) {
  return createDrawHash(builder, loc, invocationNumber(offsetof(KoloInvocation, call)), rank);
}

/// Whether a side holds numbers of f32 in a row, so that nothing need be packed or unpacked. Never at a block's end,
/// where encoding fills the granule with zeros.
Value ConvertFunctions::holdsNumbers(Value codec, Value size) {
  auto coded = scf::IfOp::create(builder, loc, TypeRange(i64), isNull(codec), /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(coded.thenBlock());
    Value isSingle = isEqual(invocationNumber(offsetof(KoloInvocation, type)), KOLO_F32);
    scf::YieldOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, isSingle).getResult());
    builder.setInsertionPointToStart(coded.elseBlock());
    scf::YieldOp::create(builder, loc, field(codec, offsetof(CodecDescription, isNumbers)));
  }
  return both(isNotZero(builder, loc, coded.getResult(0)), isEqual(size, granule));
}

/// target = target op numbers
void ConvertFunctions::combine(const Move &move, Value target, Value numbers, Value size, Value element) {
  Value isPlain = holdsNumbers(move.to, size);
  buildIf(isNot(isPlain), [&] { unpack(move.to, target, move.targetTile, size); });
  Value sum = choose(isPlain, target, move.targetTile);
  storeEntry(builder, loc, move.list, index(0), sum);
  storeEntry(builder, loc, move.list, index(1), numbers);
  invocation().callPointer(invocation().loadPointer(offsetof(KoloInvocation, reduceNumbers)), Type(),
                           {move.list, integer64(1), move.list, integer64(2), size, integer64(0)});
  buildIf(isNot(isPlain), [&] { pack(move.to, sum, target, size, move.hash, element); });
}

/// One granule, or the end of a block. A side that holds numbers is not copied to a tile first.
void ConvertFunctions::convert(const Move &move, Value target, Value source, Value size, Value element) {
  Value isSourcePlain = holdsNumbers(move.from, size), isTargetPlain = holdsNumbers(move.to, size);
  Value isStreamed = both(isTargetPlain, isNotZero(builder, loc, move.nonTemporal));
  Value isDecoded = both(both(isTargetPlain, isNot(isStreamed)), isNot(either(isSourcePlain, move.isCombining)));
  buildIf(
      isDecoded, [&] { unpack(move.from, source, target, size); },
      [&] {
        buildIf(isNot(isSourcePlain), [&] { unpack(move.from, source, move.sourceTile, size); });
        Value numbers = choose(isSourcePlain, source, move.sourceTile);
        buildIf(
            move.isCombining, [&] { combine(move, target, numbers, size, element); },
            [&] {
              buildIf(
                  isStreamed, [&] { call(streamFunction, {target, numbers, integer64(granule * 4)}); },
                  [&] { pack(move.to, numbers, target, size, move.hash, element); });
            });
      });
}

void ConvertFunctions::defineConvert() {
  if (!create(convertFunction, {pointer, pointer, pointer, i64, i64, i64, i64, pointer, pointer, i64}))
    return;
  Value to = argument(1), from = argument(2), numElements = argument(3);
  Value isCombining = isNotZero(builder, loc, argument(9));
  Move move{argument(7), argument(8),           argument(6),           isCombining,
            {},          allocate(granule * 4), allocate(granule * 4), allocate(2 * sizeof(void *))};
  move.hash = createHash(argument(4));
  Value targetBytes = bytesOf(move.to, integer64(granule)), sourceBytes = bytesOf(move.from, integer64(granule));
  loop(integer64(0), numElements, granule, [&](Value first) {
    Value size = least64(sub64(numElements, first), integer64(granule)), number = div64(first, granule);
    convert(move, at(to, product(number, targetBytes)), at(from, product(number, sourceBytes)), size,
            add64(argument(5), first));
  });
  buildIf(isNotZero(builder, loc, argument(6)), [&] { createStoreFence(builder, loc); });
  finish();
}

/// Directly where the peer's buffer is mapped, and through this lane's tile, as many granules at a time as fit, where
/// it is not.
void ConvertFunctions::defineRemote(bool isPut) {
  if (!create(isPut ? convertPutFunction : convertGetFunction,
              {pointer, i64, i64, i64, pointer, i64, i64, i64, i64, pointer, pointer, i64}))
    return;
  Value peer = argument(1), role = argument(2), offset = argument(3), local = argument(4), numElements = argument(5);
  Value codecTo = argument(9), codecFrom = argument(10);
  Value base = invocation().peerBuffer(role, peer);
  auto convertAll = [&](Value there, Value here, Value size, Value element, Value nonTemporal) {
    call(convertFunction, {argument(0), isPut ? there : here, isPut ? here : there, size, argument(6), element,
                           nonTemporal, codecTo, codecFrom, argument(11)});
  };
  auto convertPieces = [&] {
    Value there = isPut ? codecTo : codecFrom, here = isPut ? codecFrom : codecTo;
    Value tile = invocation().loadPointer(offsetof(KoloInvocation, tile));
    Value role32 = arith::TruncIOp::create(builder, loc, i32, role), granuleBytes = bytesOf(there, integer64(granule));
    Value granules =
        arith::DivUIOp::create(builder, loc, invocationNumber(offsetof(KoloInvocation, tileBytes)), granuleBytes);
    Value most = mul64(granules, granule);
    auto pieces =
        scf::ForOp::create(builder, loc, index(0), toIndex(builder, loc, numElements), toIndex(builder, loc, most));
    builder.setInsertionPointToStart(pieces.getBody());
    Value first = toInteger(builder, loc, pieces.getInductionVar()), size = least64(sub64(numElements, first), most);
    Value place = add64(offset, bytesOf(there, first)), mine = at(local, bytesOf(here, first));
    Value numBytes = bytesOf(there, size), element = add64(argument(7), first);
    auto moveTile = [&](size_t service) {
      invocation().callService(service, Type(), {peer, role32, place, tile, numBytes});
    };
    if (!isPut)
      moveTile(offsetof(KoloServices, get));
    convertAll(tile, mine, size, element, isPut ? integer64(0) : argument(8));
    if (isPut) {
      moveTile(offsetof(KoloServices, put));
      invocation().callService(offsetof(KoloServices, flush), Type(), {}); // the tile is used again
    }
  };
  buildIf(isNull(base), convertPieces,
          [&] { convertAll(at(base, offset), local, numElements, argument(7), argument(8)); });
  finish();
}

/// Of an entry of a list, at the granule that begins with element `first`.
ConvertFunctions::Side ConvertFunctions::sideOf(Value list, Value number, Value first) {
  Value entry = toIndex(builder, loc, mul64(number, 2));
  Value codec = loadEntry(builder, loc, list, createAdd(builder, loc, entry, index(1)));
  Value offset = product(div64(first, granule), bytesOf(codec, integer64(granule)));
  return {at(loadEntry(builder, loc, list, entry), offset), codec};
}

/// Between sides of one codec; the input of an in-place call may be at its destination already.
void ConvertFunctions::copyBytes(Value target, const Side &source, Value size) {
  buildIf(isNot(areSame(target, source.address)),
          [&] { call(copyFunction, {target, source.address, bytesOf(source.codec, size), integer64(0)}); });
}

void ConvertFunctions::convertInto(const Fused &fused, const Side &source, Value isCombining) {
  const Side &chunk = fused.chunk;
  Value isAlike = areSame(source.codec, chunk.codec), zero = integer64(0);
  buildIf(
      both(isAlike, isNot(isCombining)), [&] { copyBytes(chunk.address, source, fused.size); },
      [&] {
        buildIf(
            both(isAlike, isNull(chunk.codec)),
            [&] {
              storeEntry(builder, loc, fused.list, index(0), chunk.address);
              storeEntry(builder, loc, fused.list, index(1), source.address);
              invocation().callPointer(invocation().loadPointer(offsetof(KoloInvocation, reduce)), Type(),
                                       {fused.list, integer64(1), fused.list, integer64(2), fused.size, zero});
            },
            [&] {
              Value combines = arith::ExtUIOp::create(builder, loc, i64, isCombining);
              call(convertFunction, {argument(0), chunk.address, source.address, fused.size, argument(8), fused.element,
                                     zero, chunk.codec, source.codec, combines});
            });
      });
}

/// Numbers that go to an output are streamed; a fence follows the last granule.
void ConvertFunctions::convertOut(const Fused &fused, const Side &destination) {
  const Side &chunk = fused.chunk;
  Value arePlain = both(holdsNumbers(chunk.codec, fused.size), holdsNumbers(destination.codec, fused.size));
  Value isStreamed = both(both(arePlain, isNull(destination.codec)), isNotZero(builder, loc, fused.nonTemporal));
  buildIf(
      isStreamed, [&] { call(streamFunction, {destination.address, chunk.address, integer64(granule * 4)}); },
      [&] {
        buildIf(
            areSame(destination.codec, chunk.codec), [&] { copyBytes(destination.address, chunk, fused.size); },
            [&] {
              call(convertFunction, {argument(0), destination.address, chunk.address, fused.size, argument(8),
                                     fused.element, integer64(0), destination.codec, chunk.codec, integer64(0)});
            });
      });
}

void ConvertFunctions::defineFused() {
  if (!create(convertFusedFunction,
              {pointer, pointer, i64, pointer, i64, pointer, pointer, i64, i64, i64, i64, i64, i64}))
    return;
  Value destinations = argument(1), sources = argument(3), codec = argument(6), numElements = argument(7);
  Value overwrites = isNotZero(builder, loc, argument(11)), isKept = isNotZero(builder, loc, argument(12));
  Value zero = integer64(0), tile = allocate(granule * 4), list = allocate(2 * sizeof(void *));
  auto isAfter = [&](Value number) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, number, zero);
  };
  loop(zero, numElements, granule, [&](Value first) {
    Value size = least64(sub64(numElements, first), integer64(granule));
    Value mine = at(argument(5), product(div64(first, granule), bytesOf(codec, integer64(granule))));
    Fused fused{{choose(isKept, mine, tile), codec}, first, size, add64(argument(9), first), argument(10), list};
    buildIf(isNot(either(isKept, overwrites)), [&] { copyBytes(tile, {mine, codec}, size); });
    loop(zero, argument(4), 1, [&](Value number) {
      convertInto(fused, sideOf(sources, number, first), either(isAfter(number), isNot(overwrites)));
    });
    loop(zero, argument(2), 1, [&](Value number) {
      Side destination = sideOf(destinations, number, first);
      Value last = arith::MaxSIOp::create(builder, loc, sub64(number, integer64(1)), zero);
      Side before = sideOf(destinations, last, first);
      buildIf(
          both(isAfter(number), both(areSame(before.codec, destination.codec), isNot(isNull(destination.codec)))),
          [&] { copyBytes(destination.address, before, size); }, [&] { convertOut(fused, destination); });
    });
  });
  buildIf(isNotZero(builder, loc, argument(10)), [&] { createStoreFence(builder, loc); });
  finish();
}

/// What a receiver makes of elements of the call's type, granule by granule.
void ConvertFunctions::defineRoundTrip() {
  if (!create(roundTripFunction, {pointer, pointer}))
    return;
  Value codec = argument(1), encoded = allocate(CodecDescription::mostBytes);
  Value from = invocation().localBuffer(KOLO_INPUT), to = invocation().localBuffer(KOLO_OUTPUT);
  Value numElements = invocationNumber(offsetof(KoloInvocation, count));
  Value zero = integer64(0), none = LLVM::ZeroOp::create(builder, loc, pointer);
  loop(zero, numElements, granule, [&](Value first) {
    Value size = least64(sub64(numElements, first), integer64(granule)), offset = bytesOf(none, first);
    call(convertFunction, {argument(0), encoded, at(from, offset), size, zero, zero, zero, codec, none, zero});
    call(convertFunction, {argument(0), at(to, offset), encoded, size, zero, zero, zero, none, codec, zero});
  });
  finish();
}

} // namespace

void defineCodedMoves(ModuleOp module) {
  defineElementPacking(module);
  TailFunctions(module).definePack();
  TailFunctions(module).defineUnpack();
  ConvertFunctions functions(module);
  functions.defineConvert();
  functions.defineRemote(/*isPut=*/true);
  functions.defineRemote(/*isPut=*/false);
  functions.defineFused();
  functions.defineRoundTrip();
}

} // namespace kolo::cpu
