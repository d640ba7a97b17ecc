// The arithmetic of codecs as IR, on vectors of elements or on single numbers, exact to the bit: see ir/README.md.
// Nothing of it is a target's own.
#pragma once

#include "codec/Elements.h"

#include "mlir/IR/Builders.h"

namespace kolo {

/// Builds operations on values of one shape: f32 and i32, or vectors of them.
class Lanes {
public:
  Lanes(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::Value integer(mlir::Value like, int64_t value); ///< An i32 constant in the shape of another value.
  mlir::Value number(mlir::Value like, float value);    ///< Likewise of type f32.
  mlir::Value bitsOf(mlir::Value number);
  mlir::Value numberOf(mlir::Value bits);
  mlir::Value magnitude(mlir::Value bits);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value bitAnd(mlir::Value a, int64_t mask);
  mlir::Value bitOr(mlir::Value a, mlir::Value b);
  mlir::Value shiftLeft(mlir::Value a, int64_t numBits);
  mlir::Value shiftRight(mlir::Value a, int64_t numBits); ///< Zeros come in.
  mlir::Value mul(mlir::Value a, mlir::Value b);          ///< Of numbers.
  mlir::Value sum(mlir::Value a, mlir::Value b);          ///< Of numbers.
  mlir::Value isAbove(mlir::Value bits, int64_t limit);   ///< Of unsigned integers.
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value clamp(mlir::Value number, float low, float high); ///< Of what is no NaN.
  mlir::Value smaller(mlir::Value a, int64_t most);             ///< Of unsigned integers.
  mlir::Value fromHalf(mlir::Value codes);
  mlir::Value toHalf(mlir::Value numbers);

protected:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// Codes of elements. `draws`, from 0 up to below 1, are for stochastic codecs, and null for others.
class CodecLanes : public Lanes {
public:
  CodecLanes(mlir::OpBuilder &builder, mlir::Location loc, const codec::Codec &codec)
      : Lanes(builder, loc), codec(codec) {}

  /// The codes, i32, of numbers: of a codec with scales those of scaled, finite numbers, otherwise the cast.
  mlir::Value codesOf(mlir::Value numbers, mlir::Value draws);
  /// What codes stand for, before any scale. Of a codec with scales, the codes stand for finite numbers.
  mlir::Value valuesOf(mlir::Value codes);

  /// What blocks are encoded with. Codes are those of each number times the reciprocal; where the scale is not plain,
  /// they are those of zero.
  struct BlockScale {
    mlir::Value stored, reciprocal, isPlain; // i32, f32, i1
  };
  /// `largestBits`: of the largest magnitudes. `found`: what rules signed and mean divide; null for others. `unit`: of
  /// an e4m3 scale.
  BlockScale blockScale(mlir::Value largestBits, mlir::Value found, mlir::Value unit);
  /// The unit of e4m3 scales of a granule, from the largest magnitude of its blocks without NaN and infinity.
  mlir::Value granuleScale(mlir::Value largestBits);
  mlir::Value scaleValue(mlir::Value bits, mlir::Value unit, bool isFinite = false);

private:
  mlir::Value floatCodes(const codec::FloatFormat &format, mlir::Value numbers, mlir::Value draws, bool isScaled,
                         bool saturates);
  mlir::Value nearestCodes(const codec::FloatFormat &format, mlir::Value size, bool saturates);
  mlir::Value finiteBits(const codec::FloatFormat &format, mlir::Value size);
  mlir::Value floatValues(const codec::FloatFormat &format, mlir::Value codes, bool isFinite);
  mlir::Value integerCodes(mlir::Value scaled, mlir::Value draws);
  mlir::Value levelCodes(mlir::Value scaled, mlir::Value draws);
  mlir::Value levelValues(mlir::Value codes);
  /// A scale before it is rounded to its type.
  struct StoredScale {
    mlir::Value bits, value; // i32, f32: 0 where all codes are those of zero
  };
  /// `largestBits`: of the largest magnitude, finite. `exact`: null for e8m0.
  StoredScale scaleOf(mlir::Value largestBits, mlir::Value exact, mlir::Value unit);
  mlir::Value exactScale(mlir::Value largestBits, mlir::Value found);
  int64_t nanScale() const;
  mlir::Value inSteps(const codec::FloatFormat &format, mlir::Value number, mlir::Value exponent);

  const codec::Codec &codec;
};

/// f16 and bf16 of calls, whose NaNs keep their payload: to and from codes, i32.
mlir::Value createNarrowed(mlir::OpBuilder &builder, mlir::Location loc, codec::Element element, mlir::Value numbers);
mlir::Value createWidened(mlir::OpBuilder &builder, mlir::Location loc, codec::Element element, mlir::Value codes);

/// What all elements of a rank have in common in a call, i32, of two i64.
mlir::Value createDrawHash(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value call, mlir::Value rank);
/// What so many neighbouring elements draw, the first one of this number, i64: a vector, or for one a number.
mlir::Value createDraws(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value hash, mlir::Value element,
                        int64_t numElements);

} // namespace kolo
