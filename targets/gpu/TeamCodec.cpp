// How a team of threads encodes and decodes a granule: each thread takes units of 16 elements, and the team meets where
// blocks are larger than that. The end of a block of `count` has a layout of its own, in which codes of less than 16
// bits lie as in a whole granule, but for the high parts of codes of 6 bits.
#include "targets/gpu/TeamCodec.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;
using kolo::codec::granule;

namespace kolo::gpu {

static constexpr int64_t unitsOfGranule = granule / CodePacking::width;

Value TeamCodec::broadcast(Value scalar) {
  return vector::BroadcastOp::create(builder, loc, vectorOf(width, scalar.getType()), scalar);
}

Value TeamCodec::extract(Value vector, int64_t position) {
  return vector::ExtractOp::create(builder, loc, vector, ArrayRef<int64_t>{position});
}

/// The high 2 bits of each code of a unit, in 32 bits. At the end of a block they follow the low bits at once, where no
/// byte need begin.
Value TeamCodec::highBits(Value from, Value size, Value unit) {
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i32), isWhole(size), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(builder, loc, load(i32, at(from, add(mul(unit, 4), integer(granule / 2))), 4));
  builder.setInsertionPointToStart(choice.elseBlock());
  Value first = add(over(size, 2), mul(unit, 4)), packed = integer(0);
  for (int64_t byte = 0; byte < 5; ++byte) {
    Value found = extend(load(i8, at(from, add(first, integer(byte))), 1), i64);
    packed = arith::OrIOp::create(builder, loc, packed, mul(found, int64_t(1) << (8 * byte)));
  }
  packed = arith::ShRUIOp::create(builder, loc, packed, mul(bitsBelow(size, 2), 4));
  scf::YieldOp::create(builder, loc, truncate(packed, i32));
  return choice.getResult(0);
}

Value TeamCodec::codesAt(Value from, Value size, Value unit) {
  if (bits != 6)
    return packing.unpack(from, mul(unit, width));
  Value low = load(vectorOf(width / 2, i8), at(from, mul(unit, width / 2)), width / 2);
  Value high = LLVM::BitcastOp::create(builder, loc, vectorOf(width / 4, i8), highBits(from, size, unit));
  return packing.join(low, high);
}

/// The NaN of a scale stays as it is: devices differ in the bits of a product that is one.
Value TeamCodec::scaled(Value values, Value factor) {
  Value isNan = lanes.isAbove(lanes.magnitude(lanes.bitsOf(factor)), 0x7f800000);
  return select(isNan, broadcast(factor), lanes.mul(values, broadcast(factor)));
}

void TeamCodec::decodeUnits(Value from, Value size, Absorb absorb) {
  Value unitScale, scales = at(from, codeBytes(size));
  if (codec.scale() == codec::Scale::E4M3)
    unitScale = load(f32, at(from, bytesToUnit(size)), granuleAlignment);
  share(integer(0), overUp(size, width), [&](Value unit) {
    Value values = lanes.valuesOf(codesAt(from, size, unit));
    if (codec::isScaled(codec)) {
      Type stored = builder.getIntegerType(unsigned(8 * scaleBytes));
      Value found = load(stored, at(scales, mul(blockOf(unit), scaleBytes)), scaleBytes);
      values = scaled(values, lanes.scaleValue(scaleBytes == 4 ? found : extend(found, i32), unitScale));
    }
    absorb(values, mul(unit, width));
  });
}

void TeamCodec::decode(Value from, Value size, Absorb absorb) {
  if (bits < 16)
    return decodeUnits(from, size, absorb);
  auto decodeEnd = [&] { // a unit may end behind the memory
    share(integer(0), size, [&](Value element) {
      Type stored = builder.getIntegerType(unsigned(bits));
      Value code = load(stored, at(from, mul(element, bits / 8)), bits / 8);
      absorb(lanes.valuesOf(bits == 32 ? code : extend(code, i32)), element);
    });
  };
  ifThen(isWhole(size), [&] { decodeUnits(from, size, absorb); }, decodeEnd);
}

void TeamCodec::roundAll() {
  share(unitsOfGranule, [&](Value unit) {
    store(lanes.valuesOf(lanes.codesOf(numbersOf(unit), {})), numbersAt(mul(unit, width)), 16);
  });
}

/// The bits of the largest magnitude of a unit; with rule signed, of the first number that has it.
Value TeamCodec::largestIn(Value numbers) {
  Value found = lanes.bitsOf(numbers);
  if (codec.rule() != codec::Rule::Signed)
    return vector::ReductionOp::create(builder, loc, vector::CombiningKind::MAXUI, lanes.magnitude(found));
  Value first = extract(found, 0);
  for (int64_t i = 1; i < width; ++i) {
    Value next = extract(found, i);
    Value isLarger =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, lanes.magnitude(next), lanes.magnitude(first));
    first = select(isLarger, next, first);
  }
  return first;
}

/// Likewise of a block, from its units.
Value TeamCodec::largestOf(Value number) {
  auto wordAt = [&](Value unit) { return load(i32, at(roomAt(largestOffset), mul(unit, 4)), 4); };
  int64_t numUnits = block / width;
  Value first = mul(number, numUnits);
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  return fold(numUnits, zero, [&](Value unit, Value value) -> Value {
    Value next = wordAt(add(first, unit));
    Value isLarger =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, lanes.magnitude(next), lanes.magnitude(value));
    return select(isLarger, next, value);
  });
}

/// The unit of e4m3 scales, from the blocks that have neither NaN nor infinity.
Value TeamCodec::createUnit() {
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  return lanes.granuleScale(fold(granule / block, zero, [&](Value number, Value value) -> Value {
    Value size = lanes.magnitude(largestOf(number));
    Value finite = lanes.select(lanes.isAbove(size, 0x7f7fffff), zero, size);
    return arith::MaxUIOp::create(builder, loc, value, finite);
  }));
}

/// Of 16 elements of a block that are `distance` apart, from this one on, as a tree.
Value TeamCodec::sumOfMagnitudes(Value element, int64_t distance) {
  if (distance == block)
    return lanes.numberOf(lanes.magnitude(lanes.bitsOf(load(f32, numbersAt(element), 4))));
  Value left = sumOfMagnitudes(element, 2 * distance);
  return lanes.sum(left, sumOfMagnitudes(add(element, integer(distance)), 2 * distance));
}

/// Of all blocks: a_j + a_(j + B/2), then halves of that, until the first sum of a block is that of all its elements.
void TeamCodec::storeSums() {
  int64_t numSums = block / width;
  auto place = [&](Value part, int64_t partsOfBlock) {
    return sumAt(add(mul(over(part, partsOfBlock), numSums), bitsBelow(part, partsOfBlock)));
  };
  share(unitsOfGranule, [&](Value part) {
    Value first = add(mul(over(part, numSums), block), bitsBelow(part, numSums));
    store(sumOfMagnitudes(first, numSums), place(part, numSums), 4);
  });
  for (int64_t half = numSums / 2; half > 0; half /= 2) {
    meet();
    share(granule / block * half, [&](Value part) {
      Value left = place(part, half), right = at(left, integer(4 * half));
      store(lanes.sum(load(f32, left, 4), load(f32, right, 4)), left, 4);
    });
  }
}

/// Of the elements that the granule has.
Value TeamCodec::createMean(Value number, Value size) {
  Value present = least(sub(size, mul(number, block)), integer(block));
  return arith::DivFOp::create(builder, loc, load(f32, sumAt(mul(number, block / width)), 4),
                               arith::SIToFPOp::create(builder, loc, f32, present));
}

/// Scales go to the destinations, and what elements are multiplied by goes to the room: 0 where codes are those of
/// zero.
void TeamCodec::encodeScales(Value size, Destinations destinations) {
  share(unitsOfGranule,
        [&](Value unit) { store(largestIn(numbersOf(unit)), at(roomAt(largestOffset), mul(unit, 4)), 4); });
  if (codec.rule() == codec::Rule::Mean)
    storeSums();
  meet();
  Value unitScale = codec.scale() == codec::Scale::E4M3 ? createUnit() : Value();
  Type stored = builder.getIntegerType(unsigned(8 * scaleBytes));
  auto storeScale = [&](Value number, Value scale) {
    Value place = add(codeBytes(size), mul(number, scaleBytes));
    destinations([&](Value to) { store(scale, at(to, place), scaleBytes); });
  };
  share(integer(0), numBlocks(size), [&](Value number) {
    Value largest = largestOf(number), found;
    if (codec.rule() == codec::Rule::Signed)
      found = lanes.numberOf(largest);
    if (codec.rule() == codec::Rule::Mean)
      found = createMean(number, size);
    CodecLanes::BlockScale scale = lanes.blockScale(lanes.magnitude(largest), found, unitScale);
    Value factor = select(scale.isPlain, scale.reciprocal, lanes.number(scale.reciprocal, 0));
    store(factor, at(roomAt(factorsOffset), mul(number, 4)), 4);
    storeScale(number, scaleBytes == 4 ? scale.stored : truncate(scale.stored, stored));
  });
  Value numPlaces = mul(overUp(mul(numBlocks(size), scaleBytes), 16), 16 / scaleBytes);
  share(numBlocks(size), numPlaces, [&](Value number) {
    storeScale(number, arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(stored, 0)));
  });
  if (unitScale)
    share(1, [&](Value) {
      Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
      Value words = vector::FromElementsOp::create(builder, loc, vectorOf(4, i32),
                                                   ValueRange{lanes.bitsOf(unitScale), zero, zero, zero});
      destinations([&](Value to) { store(words, at(to, bytesToUnit(size)), granuleAlignment); });
    });
  meet();
}

/// Null if the codec does not draw.
Value TeamCodec::drawsOf(Value element, int64_t numElements) {
  if (!codec.isStochastic())
    return {};
  return createDraws(builder, loc, key.hash, add(key.element, element), numElements);
}

/// Of elements that are not there, zero.
Value TeamCodec::codesOf(Value unit, Value size) {
  Value numbers = numbersOf(unit);
  if (codec::isScaled(codec)) {
    Value factor = load(f32, at(roomAt(factorsOffset), mul(blockOf(unit), 4)), 4);
    Value isThere = isBelow(mul(unit, width), size);
    Value isPlain = both(isThere, lanes.isAbove(lanes.magnitude(lanes.bitsOf(factor)), 0));
    Value zeros = lanes.number(numbers, 0);
    numbers = lanes.mul(select(isPlain, numbers, zeros), broadcast(select(isPlain, factor, lanes.number(factor, 0))));
  }
  Value codes = lanes.codesOf(numbers, drawsOf(mul(unit, width), width));
  if (codec::zeroCode(codec) == 0)
    return codes;
  SmallVector<int32_t> places(static_cast<size_t>(width));
  std::iota(places.begin(), places.end(), 0);
  Value place =
      arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(vectorOf(width, i32), ArrayRef<int32_t>(places)));
  Value limit = broadcast(truncate(sub(size, mul(unit, width)), i32));
  Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, place, limit);
  return select(isThere, codes, lanes.integer(codes, 0));
}

void TeamCodec::encodeUnits(Value numUnits, Value size, Destinations destinations) {
  share(integer(0), numUnits, [&](Value unit) {
    Value codes = codesOf(unit, size);
    destinations([&](Value to) { packing.pack(codes, to, mul(unit, width)); });
  });
}

/// Codes of 6 bits at the end of a block, 4 bits at a time: the low parts, then the high parts of two elements each.
Value TeamCodec::nibbleOfEnd(Value number, Value size) {
  Value isLow = isBelow(number, size), place = select(isLow, number, sub(number, size));
  Value isThere = isBelow(place, select(isLow, integer(granule), integer(granule / 2)));
  place = select(isThere, place, integer(0));
  Value byte = add(select(isLow, integer(0), integer(granule / 2)), over(place, 2));
  Value found = extend(load(i8, at(roomAt(codesOffset), byte), 1), i32);
  Value shifted = arith::ShRUIOp::create(builder, loc, found, truncate(mul(bitsBelow(place, 2), 4), i32));
  return select(isThere, lanes.bitAnd(shifted, 0xf), lanes.integer(found, 0));
}

void TeamCodec::encodeEnd(Value size, Destinations destinations) {
  if (bits == 6) {
    share(unitsOfGranule,
          [&](Value unit) { packing.pack(codesOf(unit, size), roomAt(codesOffset), mul(unit, width)); });
    meet();
    return share(integer(0), codeBytes(size), [&](Value byte) {
      Value low = nibbleOfEnd(mul(byte, 2), size), high = nibbleOfEnd(add(mul(byte, 2), integer(1)), size);
      Value packed = truncate(lanes.bitOr(low, lanes.shiftLeft(high, 4)), i8);
      destinations([&](Value to) { store(packed, at(to, byte), 1); });
    });
  }
  share(integer(0), over(codeBytes(size), bits / 8), [&](Value element) {
    Value code = lanes.codesOf(load(f32, numbersAt(element), 4), drawsOf(element, 1));
    if (bits == 16)
      code = truncate(code, builder.getIntegerType(16));
    destinations([&](Value to) { store(code, at(to, mul(element, bits / 8)), bits / 8); });
  });
}

void TeamCodec::encode(Value size, const DrawKey &drawKey, Destinations destinations) {
  key = drawKey;
  if (codec::isScaled(codec))
    encodeScales(size, destinations);
  if (bits < 16 && bits != 6) {
    encodeUnits(over(codeBytes(size), 2 * bits), size, destinations);
  } else {
    ifThen(
        isWhole(size), [&] { encodeUnits(integer(unitsOfGranule), size, destinations); },
        [&] { encodeEnd(size, destinations); });
  }
  meet();
}

} // namespace kolo::gpu
