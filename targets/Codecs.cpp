// The arithmetic of codecs as IR.
#include "targets/Codecs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinTypes.h"

#include <bit>
#include <cmath>
#include <numeric>

using namespace mlir;
using kolo::codec::Element;
using kolo::codec::FloatFormat;
using kolo::codec::Rule;
using kolo::codec::Scale;

namespace kolo {

static Type withElement(Type shape, Type element) {
  auto vector = dyn_cast<VectorType>(shape);
  return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
}

static Value splat(OpBuilder &builder, Location loc, Type shape, TypedAttr value) {
  auto vector = dyn_cast<VectorType>(shape);
  if (!vector)
    return arith::ConstantOp::create(builder, loc, value);
  auto type = VectorType::get(vector.getShape(), value.getType());
  return arith::ConstantOp::create(builder, loc, SplatElementsAttr::get(type, Attribute(value)));
}

static constexpr uint32_t infinityBits = 0x7f800000;
static float powerOfTwo(int exponent) { return std::ldexp(1.0f, exponent); }

Value Lanes::integer(Value like, int64_t value) {
  return splat(builder, loc, like.getType(), builder.getI32IntegerAttr(int32_t(uint32_t(value))));
}
Value Lanes::number(Value like, float value) {
  return splat(builder, loc, like.getType(), builder.getF32FloatAttr(value));
}
Value Lanes::bitsOf(Value number) {
  return arith::BitcastOp::create(builder, loc, withElement(number.getType(), builder.getI32Type()), number);
}
Value Lanes::numberOf(Value bits) {
  return arith::BitcastOp::create(builder, loc, withElement(bits.getType(), builder.getF32Type()), bits);
}
Value Lanes::magnitude(Value bits) { return bitAnd(bits, 0x7fffffff); }
Value Lanes::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
Value Lanes::sub(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
Value Lanes::bitAnd(Value a, int64_t mask) { return arith::AndIOp::create(builder, loc, a, integer(a, mask)); }
Value Lanes::bitOr(Value a, Value b) { return arith::OrIOp::create(builder, loc, a, b); }
Value Lanes::shiftLeft(Value a, int64_t numBits) {
  return numBits == 0 ? a : arith::ShLIOp::create(builder, loc, a, integer(a, numBits)).getResult();
}
Value Lanes::shiftRight(Value a, int64_t numBits) {
  return numBits == 0 ? a : arith::ShRUIOp::create(builder, loc, a, integer(a, numBits)).getResult();
}
Value Lanes::mul(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
Value Lanes::sum(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
Value Lanes::isAbove(Value bits, int64_t limit) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, bits, integer(bits, limit));
}
Value Lanes::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}
Value Lanes::clamp(Value value, float low, float high) {
  Value least = number(value, low), most = number(value, high);
  value = select(arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, value, least), value, least);
  return select(arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, value, most), value, most);
}
Value Lanes::smaller(Value a, int64_t most) { return arith::MinUIOp::create(builder, loc, a, integer(a, most)); }

/// Of f16's codes in i32, and back, by the processor's own conversions: exact, and to nearest even.
Value Lanes::fromHalf(Value codes) {
  Value bits = arith::TruncIOp::create(builder, loc, withElement(codes.getType(), builder.getI16Type()), codes);
  Value half = arith::BitcastOp::create(builder, loc, withElement(codes.getType(), builder.getF16Type()), bits);
  return arith::ExtFOp::create(builder, loc, withElement(codes.getType(), builder.getF32Type()), half);
}
Value Lanes::toHalf(Value numbers) {
  Type half = withElement(numbers.getType(), builder.getF16Type());
  Value bits = arith::BitcastOp::create(builder, loc, withElement(half, builder.getI16Type()),
                                        arith::TruncFOp::create(builder, loc, half, numbers));
  return arith::ExtUIOp::create(builder, loc, withElement(half, builder.getI32Type()), bits);
}

/// MurmurHash3's finalizer, of integers.
static Value createMixed(OpBuilder &builder, Location loc, Value bits) {
  Lanes lanes(builder, loc);
  auto step = [&](Value value, int64_t shift, uint32_t factor) -> Value {
    Value folded = arith::XOrIOp::create(builder, loc, value, lanes.shiftRight(value, shift));
    return arith::MulIOp::create(builder, loc, folded, lanes.integer(value, factor));
  };
  bits = step(step(bits, 16, 0x85ebca6b), 13, 0xc2b2ae35);
  return arith::XOrIOp::create(builder, loc, bits, lanes.shiftRight(bits, 16));
}

/// The hash goes on with another word.
static Value createHashed(OpBuilder &builder, Location loc, Value hash, Value word) {
  return createMixed(builder, loc, arith::XOrIOp::create(builder, loc, hash, word));
}

static std::pair<Value, Value> createHalves(OpBuilder &builder, Location loc, Value number) {
  Type i32 = builder.getI32Type();
  Value high = arith::ShRUIOp::create(builder, loc, number, arith::ConstantIntOp::create(builder, loc, 32, 64));
  return {arith::TruncIOp::create(builder, loc, i32, high), arith::TruncIOp::create(builder, loc, i32, number)};
}

Value createDrawHash(OpBuilder &builder, Location loc, Value call, Value rank) {
  auto [high, low] = createHalves(builder, loc, call);
  Value hash = arith::ConstantIntOp::create(builder, loc, int32_t(0x9e3779b9), 32);
  for (Value word : {low, high, createHalves(builder, loc, rank).second})
    hash = createHashed(builder, loc, hash, word);
  return hash;
}

Value createDraws(OpBuilder &builder, Location loc, Value hash, Value element, int64_t numElements) {
  Lanes lanes(builder, loc);
  auto [high, low] = createHalves(builder, loc, element);
  Value ofHigh = createHashed(builder, loc, hash, high), words = low;
  Type numbers = builder.getF32Type();
  if (numElements > 1) {
    auto type = VectorType::get({numElements}, builder.getI32Type());
    auto broadcast = [&](Value value) { return vector::BroadcastOp::create(builder, loc, type, value).getResult(); };
    SmallVector<int32_t> places(static_cast<size_t>(numElements));
    std::iota(places.begin(), places.end(), 0);
    Value place = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(places)));
    Value first = broadcast(low);
    words = lanes.add(place, first);
    Value hasCarried = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, words, first);
    Value ofNextHigh = createHashed(builder, loc, hash, lanes.add(high, lanes.integer(high, 1)));
    ofHigh = lanes.select(hasCarried, broadcast(ofNextHigh), broadcast(ofHigh));
    numbers = VectorType::get({numElements}, numbers);
  }
  Value drawn = lanes.shiftRight(createHashed(builder, loc, ofHigh, words), 8);
  Value number = arith::SIToFPOp::create(builder, loc, numbers, drawn);
  return lanes.mul(number, lanes.number(number, 0x1p-24f));
}

static bool isHalf(const FloatFormat &format) { return format.bias == 15 && format.mantissaBits == 10; }

/// A number in steps of the gap between codes of its binade; `exponent` is f32's, biased. Exact.
Value CodecLanes::inSteps(const FloatFormat &format, Value number, Value exponent) {
  // 2^(mantissaBits - e), in two factors where it may be above f32's range.
  Value power = sub(integer(exponent, format.mantissaBits + 254), exponent);
  if (format.bias < 127)
    return mul(number, numberOf(shiftLeft(power, 23)));
  Value half = shiftRight(add(power, integer(power, 127)), 1); // the sum of both is power + 127
  Value rest = sub(add(power, integer(power, 127)), half);
  return mul(mul(number, numberOf(shiftLeft(half, 23))), numberOf(shiftLeft(rest, 23)));
}

/// Without the sign. A magnitude plus 2^23 steps of its binade's codes is rounded to a whole step.
Value CodecLanes::nearestCodes(const FloatFormat &format, Value size, bool saturates) {
  int64_t least = 128 - format.bias, unused = 23 - format.mantissaBits;
  float most = codec::decodeFloat(format, format.largest);
  if (!saturates) // what the next code would stand for
    most += most - codec::decodeFloat(format, format.largest - 1);
  size = smaller(size, std::bit_cast<uint32_t>(most));
  Value binade = arith::MaxUIOp::create(builder, loc, bitAnd(size, infinityBits), integer(size, least << 23));
  Value steps = add(binade, integer(size, unused << 23));
  Value rounded = sub(bitsOf(sum(numberOf(size), numberOf(steps))), steps);
  return sub(add(rounded, shiftRight(binade, unused)), integer(size, least << format.mantissaBits));
}

Value CodecLanes::floatCodes(const FloatFormat &format, Value numbers, Value draws, bool isScaled, bool saturates) {
  Value bits = bitsOf(numbers), size = magnitude(bits), code;
  int64_t largest = format.largest + !saturates; // the code of infinity, or else of NaN, is the next one
  if (isHalf(format) && !draws && !saturates) {
    code = toHalf(numberOf(size));
  } else if (format.bias == 127 && !draws) { // bf16: the upper half
    Value odd = bitAnd(shiftRight(size, 16), 1);
    code = shiftRight(add(size, add(odd, integer(size, 0x7fff))), 16);
    code = smaller(code, largest);
  } else if (draws) {
    int64_t least = 128 - format.bias;
    Value exponent = arith::MaxUIOp::create(builder, loc, shiftRight(size, 23), integer(size, least));
    Value drawn = math::FloorOp::create(builder, loc, sum(inSteps(format, numbers, exponent), draws));
    Value steps = arith::FPToSIOp::create(builder, loc, size.getType(), drawn);
    steps = arith::MaxSIOp::create(builder, loc, steps, sub(integer(steps, 0), steps));
    code = add(shiftLeft(sub(exponent, integer(exponent, least)), format.mantissaBits), steps);
    code = smaller(code, largest);
  } else {
    code = nearestCodes(format, size, saturates);
  }
  bool hasInfinity = format.special == FloatFormat::Special::InfinityAndNan;
  if (!isScaled && hasInfinity)
    code = select(isAbove(size, infinityBits - 1), integer(code, format.infinity()), code);
  Value sign = arith::AndIOp::create(builder, loc, shiftRight(bits, 31 - (std::bit_width(format.signBit()) - 1)),
                                     integer(bits, format.signBit()));
  if (isScaled) // zero has none
    sign = select(isAbove(code, 0), sign, integer(sign, 0));
  else if (!saturates && !hasInfinity) // nor has NaN
    sign = select(isAbove(code, format.largest), integer(sign, 0), sign);
  code = bitOr(code, sign);
  if (isScaled)
    return code;
  return select(isAbove(size, hasInfinity ? infinityBits : infinityBits - 1), integer(code, format.nan()), code);
}

/// Of codes without the sign, not those of infinity and NaN. Processors take long for arithmetic on denormal numbers in
/// f32, so that there are none on the way.
Value CodecLanes::finiteBits(const FloatFormat &format, Value size) {
  Value shifted = shiftLeft(size, 23 - format.mantissaBits);
  if (format.bias == 127)
    return shifted;
  if (isHalf(format))
    return bitsOf(fromHalf(size));
  Value normal = add(shifted, integer(size, int64_t(127 - format.bias) << 23));
  Value steps = arith::SIToFPOp::create(builder, loc, withElement(size.getType(), builder.getF32Type()), size);
  Value small = mul(steps, number(steps, powerOfTwo(1 - format.bias - format.mantissaBits)));
  return select(isAbove(size, (1 << format.mantissaBits) - 1), normal, bitsOf(small));
}

Value CodecLanes::floatValues(const FloatFormat &format, Value codes, bool isFinite) {
  Value size = bitAnd(codes, format.signBit() - 1);
  Value value = finiteBits(format, size);
  bool hasInfinity = format.special == FloatFormat::Special::InfinityAndNan;
  if (!isFinite && hasInfinity)
    value = select(isAbove(size, format.largest), integer(value, infinityBits), value);
  int shift = 32 - std::bit_width(format.signBit());
  value = bitOr(value, bitAnd(shiftLeft(codes, shift), 0x80000000));
  if (!isFinite && format.special != FloatFormat::Special::None)
    value = select(isAbove(size, hasInfinity ? format.infinity() : format.largest), integer(value, 0x7fc00000), value);
  return numberOf(value);
}

/// Rule power has MXINT8's codes, in units of 1/64.
static float unitOf(const codec::Codec &codec) { return codec.rule() == Rule::Power ? 0x1p-6f : 1.0f; }

Value CodecLanes::integerCodes(Value scaled, Value draws) {
  int bits = codec::bitsOf(codec.element()), half = 1 << (bits - 1);
  bool isSymmetric = codec.rule() == Rule::Fit || codec.rule() == Rule::Power;
  if (codec.rule() == Rule::Power)
    scaled = mul(scaled, number(scaled, 1 / unitOf(codec)));
  Value steps = clamp(scaled, float(isSymmetric ? 1 - half : -half), float(half - 1));
  Value codes;
  if (draws) {
    Value drawn = math::FloorOp::create(builder, loc, sum(steps, draws));
    codes = arith::FPToSIOp::create(builder, loc, withElement(scaled.getType(), builder.getI32Type()), drawn);
    codes = arith::MinSIOp::create(builder, loc, codes, integer(codes, half - 1));
  } else { // a sum with 3 * 2^22 is rounded to an integer
    Value rounded = bitsOf(sum(steps, number(steps, 0x1.8p23f)));
    codes = sub(rounded, integer(rounded, std::bit_cast<uint32_t>(0x1.8p23f)));
  }
  return bitAnd(codes, (int64_t(1) << bits) - 1);
}

/// The smallest number whose nearest level is the upper of two neighbours, the lower having this index.
static float thresholdOf(float low, float high, size_t index) {
  double middle = (double(low) + double(high)) / 2;
  auto threshold = float(middle);
  bool isAbove = threshold > middle || (threshold == middle && index % 2 == 1);
  return isAbove ? threshold : std::nextafter(threshold, INFINITY);
}

Value CodecLanes::levelCodes(Value scaled, Value draws) {
  const std::vector<float> &levels = codec.levels();
  Type i32 = withElement(scaled.getType(), builder.getI32Type());
  auto isAtLeast = [&](Value left, float limit) -> Value {
    return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGE, left, number(left, limit));
  };
  auto count = [&](Value codes, Value condition) {
    return add(codes, arith::ExtUIOp::create(builder, loc, i32, condition));
  };
  Value codes = integer(scaled, 0);
  if (!draws) {
    for (size_t i = 0; i + 1 < levels.size(); ++i)
      codes = count(codes, isAtLeast(scaled, thresholdOf(levels[i], levels[i + 1], i)));
    return codes;
  }
  Value low = number(scaled, levels[0]), gap = number(scaled, levels[1] - levels[0]);
  for (size_t i = 1; i < levels.size(); ++i) {
    Value isAbove = isAtLeast(scaled, levels[i]);
    low = select(isAbove, number(scaled, levels[i]), low);
    gap = select(isAbove, number(scaled, i + 1 < levels.size() ? levels[i + 1] - levels[i] : INFINITY), gap);
    codes = count(codes, isAbove);
  }
  Value share = arith::DivFOp::create(builder, loc, arith::SubFOp::create(builder, loc, scaled, low), gap);
  return count(codes, isAtLeast(sum(share, draws), 1));
}

Value CodecLanes::levelValues(Value codes) {
  const std::vector<float> &levels = codec.levels();
  Value value = number(codes, levels.front());
  for (size_t i = 1; i < levels.size(); ++i)
    value = select(isAbove(codes, int64_t(i) - 1), number(codes, levels[i]), value);
  return value;
}

Value CodecLanes::codesOf(Value numbers, Value draws) {
  Element element = codec.element();
  bool isScaled = codec::isScaled(codec);
  if (element == Element::F32)
    return bitsOf(numbers);
  if (codec::isInteger(element))
    return integerCodes(numbers, draws);
  if (element == Element::Levels)
    return levelCodes(numbers, draws);
  if (element == Element::Sign) {
    Value isNegative = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, numbers, number(numbers, 0));
    return arith::ExtUIOp::create(builder, loc, withElement(numbers.getType(), builder.getI32Type()), isNegative);
  }
  return floatCodes(codec::formatOf(element), numbers, draws, isScaled, /*saturates=*/isScaled);
}

Value CodecLanes::valuesOf(Value codes) {
  Element element = codec.element();
  if (element == Element::F32)
    return numberOf(codes);
  if (element == Element::Levels)
    return levelValues(codes);
  if (element == Element::Sign)
    return select(isAbove(codes, 0), number(codes, -1), number(codes, 1));
  if (!codec::isInteger(element))
    return floatValues(codec::formatOf(element), codes, codec::isScaled(codec));
  int unused = 32 - codec::bitsOf(element);
  Value code = arith::ShRSIOp::create(builder, loc, shiftLeft(codes, unused), integer(codes, unused));
  Value value = arith::SIToFPOp::create(builder, loc, withElement(codes.getType(), builder.getF32Type()), code);
  return codec.rule() == Rule::Power ? mul(value, number(value, unitOf(codec))) : value;
}

static Element elementOf(Scale scale) {
  return scale == Scale::F16 ? Element::F16 : scale == Scale::BF16 ? Element::BF16 : Element::E4M3;
}

int64_t CodecLanes::nanScale() const {
  if (codec.scale() == Scale::F32)
    return 0x7fc00000;
  return codec.scale() == Scale::E8M0 ? 0xff : codec::formatOf(elementOf(codec.scale())).nan();
}

Value CodecLanes::scaleValue(Value bits, Value unit, bool isFinite) {
  switch (codec.scale()) {
  case Scale::F32:
    return numberOf(bits);
  case Scale::E8M0: { // 0 is 2^-127
    Value value = select(isAbove(bits, 0), shiftLeft(bits, 23), integer(bits, 0x00400000));
    return numberOf(select(isAbove(bits, 0xfe), integer(bits, 0x7fc00000), value));
  }
  default: {
    Value value = floatValues(codec::formatOf(elementOf(codec.scale())), bits, isFinite);
    return codec.scale() == Scale::E4M3 ? mul(value, unit) : value;
  }
  }
}

CodecLanes::StoredScale CodecLanes::scaleOf(Value largestBits, Value exact, Value unit) {
  Value zero = integer(largestBits, 0), bits, isInside;
  if (codec.scale() == Scale::E8M0) {
    int emax = codec.element() == Element::I8 ? 0 : std::ilogb(codec::largestValue(codec));
    Value exponent = sub(shiftRight(largestBits, 23), integer(largestBits, emax));
    bits = arith::MaxSIOp::create(builder, loc, exponent, zero);
  } else {
    if (codec.scale() == Scale::E4M3)
      exact = arith::DivFOp::create(builder, loc, exact, unit);
    bool isSingle = codec.scale() == Scale::F32;
    codec::FloatFormat format = codec::formatOf(isSingle ? Element::F16 : elementOf(codec.scale()));
    bits = isSingle ? bitsOf(exact) : floatCodes(format, exact, {}, /*isScaled=*/false, /*saturates=*/false);
    Value size = isSingle ? magnitude(bits) : bitAnd(bits, format.signBit() - 1);
    isInside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ule, size,
                                     integer(size, isSingle ? infinityBits - 1 : format.largest));
  }
  Value value = scaleValue(bits, unit, /*isFinite=*/true);
  // Below 2^-126, and where there is nothing but zeros, all codes are those of zero.
  Value isPlain =
      arith::AndIOp::create(builder, loc, isAbove(magnitude(bitsOf(value)), 0x007fffff), isAbove(largestBits, 0));
  if (codec.scale() == Scale::E4M3)
    isPlain = arith::AndIOp::create(builder, loc, isPlain, isAbove(magnitude(bitsOf(unit)), 0));
  Value isOther = isPlain;
  if (isInside) { // beyond the type's largest number, the block decodes to NaN
    bits = select(isInside, bits, integer(bits, nanScale()));
    isPlain = arith::AndIOp::create(builder, loc, isPlain, isInside);
  }
  return {select(isOther, bits, zero), select(isPlain, value, number(value, 0))};
}

/// By the codec's rule; null for e8m0, which needs none.
Value CodecLanes::exactScale(Value largestBits, Value found) {
  auto over = [&](Value value, float divisor) -> Value {
    return arith::DivFOp::create(builder, loc, value, number(value, divisor));
  };
  auto half = float(int64_t(1) << (std::max(codec::bitsOf(codec.element()), 1) - 1));
  switch (codec.rule()) {
  case Rule::Fit:
    return over(numberOf(largestBits), codec::largestValue(codec));
  case Rule::Full:
    return over(numberOf(largestBits), half);
  case Rule::Signed:
    return over(found, -half);
  case Rule::Mean:
    return found;
  case Rule::Power:
    return {};
  }
  return {};
}

CodecLanes::BlockScale CodecLanes::blockScale(Value largestBits, Value found, Value unit) {
  Value isFinite =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, largestBits, integer(largestBits, infinityBits));
  StoredScale scale = scaleOf(largestBits, exactScale(largestBits, found), unit);
  Value stored = select(isFinite, scale.bits, integer(scale.bits, nanScale()));
  Value isPlain = arith::AndIOp::create(builder, loc, isFinite, isAbove(magnitude(bitsOf(scale.value)), 0));
  Value one = number(scale.value, 1), safe = select(isPlain, scale.value, one);
  return {stored, arith::DivFOp::create(builder, loc, one, safe), isPlain};
}

Value CodecLanes::granuleScale(Value largestBits) {
  Value largest = numberOf(largestBits), divisor = number(largest, 448 * codec::largestValue(codec));
  Value scale = arith::DivFOp::create(builder, loc, largest, divisor);
  return select(isAbove(bitsOf(scale), 0x007fffff), scale, number(scale, 0));
}

Value createNarrowed(OpBuilder &builder, Location loc, Element element, Value numbers) {
  codec::Codec cast(element);
  CodecLanes lanes(builder, loc, cast);
  Value codes = lanes.codesOf(numbers, {}), bits = lanes.bitsOf(numbers);
  bool isHalf = element == Element::F16;
  Value payload = isHalf ? lanes.bitOr(lanes.bitAnd(lanes.shiftRight(bits, 16), 0x8000),
                                       lanes.bitAnd(lanes.shiftRight(bits, 13), 0x3ff))
                         : lanes.shiftRight(bits, 16);
  Value nan = lanes.bitOr(payload, lanes.integer(payload, isHalf ? 0x7e00 : 0x40));
  return lanes.select(lanes.isAbove(lanes.magnitude(bits), infinityBits), nan, codes);
}

Value createWidened(OpBuilder &builder, Location loc, Element element, Value codes) {
  Lanes lanes(builder, loc);
  if (element == Element::BF16)
    return lanes.numberOf(lanes.shiftLeft(codes, 16));
  Value size = lanes.bitAnd(codes, 0x7fff), shifted = lanes.shiftLeft(size, 13);
  Value finite = lanes.bitsOf(lanes.fromHalf(size));
  Value other = lanes.bitOr(shifted, lanes.integer(shifted, infinityBits));
  Value value = lanes.select(lanes.isAbove(size, 0x7bff), other, finite);
  return lanes.numberOf(lanes.bitOr(value, lanes.shiftLeft(lanes.bitAnd(codes, 0x8000), 16)));
}

} // namespace kolo
