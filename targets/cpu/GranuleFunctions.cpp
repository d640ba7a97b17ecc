// Encoding and decoding of whole granules of 1024 elements: loops over blocks, vectors in them. ir/README.md defines
// layout and arithmetic.
#include "targets/CodePacking.h"
#include "targets/cpu/CodecFunctions.h"
#include "targets/cpu/FunctionBuilder.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>
#include <numeric>

using namespace mlir;
using kolo::codec::granule;

namespace kolo::cpu {

static constexpr llvm::StringLiteral encodePrefix = "kolo.encode.", decodePrefix = "kolo.decode.";
/// What a granule needs once, or hardly ever: the same code for all processors.
static constexpr llvm::StringLiteral encodeScalesPrefix = "kolo.encodeScales.",
                                     decodeScalesPrefix = "kolo.decodeScales.", firstPrefix = "kolo.firstLargest.";

std::string encodeName(const codec::Codec &codec) { return encodePrefix.str() + codec::textOf(codec); }
std::string decodeName(const codec::Codec &codec) { return decodePrefix.str() + codec::textOf(codec); }
bool isGranuleFunction(llvm::StringRef name) {
  bool isCodec = name.starts_with(encodePrefix) || name.starts_with(decodePrefix);
  return isCodec && name != encodeName(dsl::f32()) && name != decodeName(dsl::f32());
}

namespace {

class GranuleFunctions : FunctionBuilder {
public:
  GranuleFunctions(ModuleOp module, const codec::Codec &codec)
      : FunctionBuilder(module), codec(codec), lanes(builder, loc, codec), packing(builder, loc, codec, 1),
        block(codec::isScaled(codec) ? codec.block() : granule), group(std::min<int64_t>(granule / block, 8)),
        totalBytes(codec::bytes(codec, granule)), scales(granule * codec::bitsOf(codec.element()) / 8),
        granuleScale(totalBytes - 16) {}

  void defineEncode();
  void defineDecode();
  void defineScales();
  void defineFirstLargest();

private:
  std::string nameOf(llvm::StringRef prefix) { return prefix.str() + codec::textOf(codec); }
  Value truncate(Value value, Type type) { return arith::TruncIOp::create(builder, loc, type, value); }
  Value extend(Value value, Type type) { return arith::ExtUIOp::create(builder, loc, type, value); }
  Value broadcast(Value scalar, Type element) {
    return vector::BroadcastOp::create(builder, loc, vectorOf(width, element), scalar);
  }
  Value numbersAt(Value tile, Value element) { return load(vectorOf(width, f32), at(tile, mul64(element, 4))); }
  /// Of the scales of neighbouring blocks.
  Type groupOf(Type element) { return group == 1 ? element : vectorOf(group, element); }
  Value inGroup(Value scalar) {
    return group == 1 ? scalar
                      : vector::BroadcastOp::create(builder, loc, groupOf(scalar.getType()), scalar).getResult();
  }
  /// Numbers that every block of a granule has one of, of 4 bytes each.
  Value allocateForBlocks() { return allocate(granule / block * 4); }
  Value ofBlock(Value numbers, Value number, Type type) { return load(type, at(numbers, mul64(number, 4))); }
  void setOfBlock(Value numbers, Value number, Value value) { store(value, at(numbers, mul64(number, 4))); }
  void forEachGroup(Body body) { loop(granule / block, group, body); }

  Value largestIn(Value tile, Value first);
  Value largestWithSign(Value tile, Value first);
  Value createGranuleScale(Value largest);
  Value createFirstLargest(Value tile, Value first, Value largestBits);
  Value createMean(Value tile, Value first, Value numElements);
  /// What the encoding of a granule knows of its blocks.
  struct BlockNumbers {
    Value largest; // bits of the largest magnitudes
    Value found;   // what rules signed and mean divide; null for others
    Value reciprocals, masks;
  };
  void findLargest(Value tile, const BlockNumbers &blocks);
  void encodeScales(Value to, const BlockNumbers &blocks, Value unit, Value first);
  void encodeBlock(Value tile, Value to, const BlockNumbers &blocks, Value number);
  void decodeScales(Value from, Value factors);
  /// Of the e4m3 scales of a granule; null for others.
  Value loadUnit(Value granule) {
    return codec.scale() == codec::Scale::E4M3 ? inGroup(load(f32, at(granule, granuleScale))) : Value();
  }
  Value createDraws(Value place);
  void prefetchNext(Value tile, Value element);

  const codec::Codec &codec;
  static constexpr int64_t width = CodePacking::width;
  CodecLanes lanes;
  CodePacking packing;
  int64_t block, group, totalBytes;
  int64_t scales, granuleScale; // bytes to the scales, to the granule's own
  Value sums;                   // room for the means
};

/// The bits of the largest magnitude of a block.
Value GranuleFunctions::largestIn(Value tile, Value first) {
  Value start = broadcast(constantI32(builder, loc, 0), i32);
  Value most = fold(block, width, start, [&](Value place, Value value) -> Value {
    Value size = lanes.magnitude(lanes.bitsOf(numbersAt(tile, add64(first, place))));
    return arith::MaxUIOp::create(builder, loc, value, size);
  });
  return vector::ReductionOp::create(builder, loc, vector::CombiningKind::MAXUI, most);
}

/// The first number that has the largest magnitude. As integers, the largest positive number has the largest signed
/// bits, and the negative number of the largest magnitude has the largest unsigned bits.
Value GranuleFunctions::largestWithSign(Value tile, Value first) {
  Value zero = constantI32(builder, loc, 0), least = constantI32(builder, loc, std::numeric_limits<int32_t>::min());
  Values most =
      foldAll(block, width, {broadcast(least, i32), broadcast(zero, i32)}, [&](Value place, ValueRange found) {
        Value number = lanes.bitsOf(numbersAt(tile, add64(first, place)));
        return Values{arith::MaxSIOp::create(builder, loc, found[0], number),
                      arith::MaxUIOp::create(builder, loc, found[1], number)};
      });
  Value above = vector::ReductionOp::create(builder, loc, vector::CombiningKind::MAXSI, most[0]);
  Value below = vector::ReductionOp::create(builder, loc, vector::CombiningKind::MAXUI, most[1]);
  above = arith::MaxSIOp::create(builder, loc, above, zero);
  below = lanes.select(lanes.isAbove(below, 0x7fffffff), lanes.magnitude(below), zero);
  Value isTie = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, above, below);
  auto found = scf::IfOp::create(builder, loc, TypeRange(i32), isTie, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(found.thenBlock());
  Value number = LLVM::CallOp::create(builder, loc, TypeRange(f32), nameOf(firstPrefix), ValueRange{tile, first, above})
                     .getResult();
  scf::YieldOp::create(builder, loc, lanes.bitsOf(number));
  builder.setInsertionPointToStart(found.elseBlock());
  Value isAbove = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, above, below);
  Value negative = lanes.bitOr(below, lanes.integer(below, 0x80000000));
  scf::YieldOp::create(builder, loc, lanes.select(isAbove, above, negative));
  return found.getResult(0);
}

void GranuleFunctions::findLargest(Value tile, const BlockNumbers &blocks) {
  loop(granule / block, 1, [&](Value number) {
    Value first = mul64(number, block);
    if (codec.rule() != codec::Rule::Signed) {
      setOfBlock(blocks.largest, number, largestIn(tile, first));
      if (codec.rule() == codec::Rule::Mean)
        setOfBlock(blocks.found, number, createMean(tile, first, argument(2)));
      return;
    }
    Value found = largestWithSign(tile, first);
    setOfBlock(blocks.found, number, found);
    setOfBlock(blocks.largest, number, lanes.magnitude(found));
  });
}

/// Of the blocks that have neither NaN nor infinity.
Value GranuleFunctions::createGranuleScale(Value largest) {
  Value most = fold(granule / block, 1, constantI32(builder, loc, 0), [&](Value number, Value value) -> Value {
    Value size = load(i32, at(largest, mul64(number, 4)));
    Value finite = lanes.select(lanes.isAbove(size, 0x7f7fffff), lanes.integer(size, 0), size);
    return arith::MaxUIOp::create(builder, loc, value, finite);
  });
  return lanes.granuleScale(most);
}

/// The first element that has the largest magnitude.
Value GranuleFunctions::createFirstLargest(Value tile, Value first, Value largestBits) {
  SmallVector<int32_t> numbers(static_cast<size_t>(width));
  std::iota(numbers.begin(), numbers.end(), 0);
  Value places =
      arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(vectorOf(width, i32), ArrayRef<int32_t>(numbers)));
  Value wanted = broadcast(largestBits, i32), none = lanes.integer(places, granule);
  Value least = fold(block, width, none, [&](Value place, Value value) -> Value {
    Value size = lanes.magnitude(lanes.bitsOf(numbersAt(tile, add64(first, place))));
    Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, size, wanted);
    Value here = lanes.add(places, broadcast(truncate(place, i32), i32));
    return arith::MinUIOp::create(builder, loc, value, lanes.select(isThere, here, none));
  });
  Value place = vector::ReductionOp::create(builder, loc, vector::CombiningKind::MINUI, least);
  return load(f32, at(tile, mul64(add64(first, extend(lanes.smaller(place, block - 1), i64)), 4)));
}

/// Sums a_j + a_(j + B/2), then halves of that, and divides by the number of elements.
Value GranuleFunctions::createMean(Value tile, Value first, Value numElements) {
  auto sizeAt = [&](Value element) {
    return lanes.numberOf(lanes.magnitude(lanes.bitsOf(numbersAt(tile, add64(first, element)))));
  };
  Value rest;
  if (block == width) {
    rest = sizeAt(integer64(0));
  } else {
    loop(block / 2, width,
         [&](Value j) { store(lanes.sum(sizeAt(j), sizeAt(add64(j, integer64(block / 2)))), at(sums, mul64(j, 4))); });
    for (int64_t half = block / 4; half >= width; half /= 2)
      loop(half, width, [&](Value j) {
        store(lanes.sum(numbersAt(sums, j), numbersAt(sums, add64(j, integer64(half)))), at(sums, mul64(j, 4)));
      });
    rest = numbersAt(sums, integer64(0));
  }
  for (int64_t half = width / 2; half > 0; half /= 2) {
    auto part = [&](int64_t begin) {
      return vector::ExtractStridedSliceOp::create(builder, loc, rest, ArrayRef<int64_t>{begin},
                                                   ArrayRef<int64_t>{half}, ArrayRef<int64_t>{1});
    };
    rest = lanes.sum(part(0), part(half));
  }
  Value total = vector::ExtractOp::create(builder, loc, rest, ArrayRef<int64_t>{0});
  Value present = least64(sub64(numElements, first), integer64(block));
  present = arith::MaxSIOp::create(builder, loc, present, integer64(1));
  return arith::DivFOp::create(builder, loc, total, arith::SIToFPOp::create(builder, loc, f32, present));
}

/// Of the group of blocks from this one on.
void GranuleFunctions::encodeScales(Value to, const BlockNumbers &blocks, Value unit, Value first) {
  Value largestBits = ofBlock(blocks.largest, first, groupOf(i32));
  Value found = blocks.found ? ofBlock(blocks.found, first, groupOf(f32)) : Value();
  CodecLanes::BlockScale scale = lanes.blockScale(largestBits, found, unit);
  Value stored = scale.stored;
  int64_t size = codec::bytesOf(codec.scale());
  if (size < 4)
    stored = truncate(stored, groupOf(builder.getIntegerType(unsigned(8 * size))));
  store(stored, at(at(to, scales), mul64(first, size)));
  setOfBlock(blocks.reciprocals, first, scale.reciprocal);
  setOfBlock(blocks.masks, first, arith::ExtSIOp::create(builder, loc, groupOf(i32), scale.isPlain));
}

/// What the elements from `place` in the granule on draw; null if the codec does not.
Value GranuleFunctions::createDraws(Value place) {
  if (!codec.isStochastic())
    return {};
  return kolo::createDraws(builder, loc, argument(3), add64(argument(4), place), width);
}

/// Moves are long: the granule that follows is probably next. A prefetch from where there is no memory does nothing.
void GranuleFunctions::prefetchNext(Value tile, Value element) {
  LLVM::Prefetch::create(builder, loc, at(tile, mul64(add64(element, integer64(granule)), 4)), /*rw=*/0, /*hint=*/3,
                         /*cache=*/1);
}

void GranuleFunctions::encodeBlock(Value tile, Value to, const BlockNumbers &blocks, Value number) {
  Value first = mul64(number, block);
  Value reciprocal = broadcast(ofBlock(blocks.reciprocals, number, f32), f32);
  Value mask = broadcast(ofBlock(blocks.masks, number, i32), i32);
  loop(block, width, [&](Value place) {
    Value element = add64(first, place);
    prefetchNext(tile, element);
    // Where the scale says zeros or NaN, the codes are those of zero.
    Value kept = arith::AndIOp::create(builder, loc, lanes.bitsOf(numbersAt(tile, element)), mask);
    packing.pack(lanes.codesOf(lanes.mul(lanes.numberOf(kept), reciprocal), createDraws(element)), to, element);
  });
}

void GranuleFunctions::defineEncode() {
  if (!create(encodeName(codec), {pointer, pointer, i64, i32, i64}))
    return;
  Value tile = argument(0), to = argument(1);
  if (!codec::isScaled(codec)) {
    loop(granule, width, [&](Value element) {
      packing.pack(lanes.codesOf(numbersAt(tile, element), createDraws(element)), to, element);
    });
    return finish();
  }
  bool isFound = codec.rule() == codec::Rule::Signed || codec.rule() == codec::Rule::Mean;
  BlockNumbers blocks{allocateForBlocks(), isFound ? allocateForBlocks() : Value(), allocateForBlocks(),
                      allocateForBlocks()};
  sums = codec.rule() == codec::Rule::Mean ? allocate(granule / 2 * 4) : Value();
  if (int64_t used = scales + granule / block * codec::bytesOf(codec.scale()); used < totalBytes)
    fillZero(at(to, scales), integer64(totalBytes - scales));
  findLargest(tile, blocks);
  if (codec.scale() == codec::Scale::E4M3)
    store(createGranuleScale(blocks.largest), at(to, granuleScale));
  call(nameOf(encodeScalesPrefix),
       {to, blocks.largest, isFound ? blocks.found : blocks.largest, blocks.reciprocals, blocks.masks});
  loop(granule / block, 1, [&](Value number) { encodeBlock(tile, to, blocks, number); });
  finish();
}

void GranuleFunctions::decodeScales(Value from, Value factors) {
  Value unit = loadUnit(from);
  int64_t size = codec::bytesOf(codec.scale());
  forEachGroup([&](Value first) {
    Type stored = groupOf(builder.getIntegerType(unsigned(8 * size)));
    Value scale = load(stored, at(at(from, scales), mul64(first, size)));
    setOfBlock(factors, first, lanes.scaleValue(size == 4 ? scale : extend(scale, groupOf(i32)), unit));
  });
}

/// Both ways, each for all blocks of a granule.
void GranuleFunctions::defineScales() {
  if (!codec::isScaled(codec) || !create(nameOf(encodeScalesPrefix), {pointer, pointer, pointer, pointer, pointer}))
    return;
  bool isFound = codec.rule() == codec::Rule::Signed || codec.rule() == codec::Rule::Mean;
  BlockNumbers blocks{argument(1), isFound ? argument(2) : Value(), argument(3), argument(4)};
  Value unit = loadUnit(argument(0));
  forEachGroup([&](Value first) { encodeScales(argument(0), blocks, unit, first); });
  finish();
  create(nameOf(decodeScalesPrefix), {pointer, pointer});
  decodeScales(argument(0), argument(1));
  finish();
}

/// (numbers, first element of a block, largest bits) -> f32
void GranuleFunctions::defineFirstLargest() {
  if (codec.rule() != codec::Rule::Signed || !create(nameOf(firstPrefix), {pointer, i64, i32}, f32))
    return;
  finish(createFirstLargest(argument(0), argument(1), argument(2)));
}

void GranuleFunctions::defineDecode() {
  if (!create(decodeName(codec), {pointer, pointer}))
    return;
  Value from = argument(0), tile = argument(1);
  auto storeNumbers = [&](Value numbers, Value element) { store(numbers, at(tile, mul64(element, 4))); };
  if (!codec::isScaled(codec)) {
    loop(granule, width, [&](Value element) { storeNumbers(lanes.valuesOf(packing.unpack(from, element)), element); });
    return finish();
  }
  Value factors = allocateForBlocks();
  call(nameOf(decodeScalesPrefix), {from, factors});
  loop(granule / block, 1, [&](Value number) {
    Value factor = broadcast(ofBlock(factors, number, f32), f32), first = mul64(number, block);
    loop(block, width, [&](Value place) {
      Value element = add64(first, place);
      storeNumbers(lanes.mul(lanes.valuesOf(packing.unpack(from, element)), factor), element);
    });
  });
  finish();
}

} // namespace

void defineGranuleFunctions(ModuleOp module, const codec::Codec &codec) {
  GranuleFunctions(module, codec).defineFirstLargest();
  GranuleFunctions(module, codec).defineScales();
  GranuleFunctions(module, codec).defineEncode();
  GranuleFunctions(module, codec).defineDecode();
}

} // namespace kolo::cpu
