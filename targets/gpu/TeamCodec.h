// How a team of threads encodes and decodes a granule of one codec. ir/README.md defines layout and arithmetic. Private
// to this folder.
#pragma once

#include "targets/CodePacking.h"
#include "targets/gpu/TeamBuilder.h"

namespace kolo::gpu {

/// Sizes, i64, are of the elements that the granule has: 1024, or less at the end of a block of `count`.
class TeamCodec : TeamBuilder {
public:
  TeamCodec(const TeamBuilder &team, const codec::Codec &codec)
      : TeamBuilder(team), codec(codec), lanes(builder, loc, codec), packing(builder, loc, codec, granuleAlignment),
        bits(codec::bitsOf(codec.element())), block(codec::isScaled(codec) ? codec.block() : codec::granule),
        scaleBytes(codec::isScaled(codec) ? codec::bytesOf(codec.scale()) : 0) {}

  /// Numbers, one or 16, and the first one's element. A thread may get some of elements that the granule lacks.
  using Absorb = llvm::function_ref<void(mlir::Value numbers, mlir::Value element)>;
  void decode(mlir::Value from, mlir::Value size, Absorb absorb);

  /// Builds a loop over the addresses that an encoded granule goes to.
  using Destinations = llvm::function_ref<void(Body store)>;
  /// What a stochastic codec draws by, for the granule's first element; null for others.
  struct DrawKey {
    mlir::Value hash, element; // i32, i64
  };
  /// Of the numbers in the room, which are 0 where the granule has no elements. Meets at the end.
  void encode(mlir::Value size, const DrawKey &drawKey, Destinations destinations);

  /// Of a cast: the numbers in the room as they are stored.
  void roundAll();

private:
  static constexpr int64_t granuleAlignment = 16, width = CodePacking::width;

  mlir::Value codeBytes(mlir::Value size) { return mul(overUp(mul(size, bits), 128), 16); }
  mlir::Value numBlocks(mlir::Value size) { return overUp(size, block); }
  /// Bytes to the f32 behind e4m3 scales.
  mlir::Value bytesToUnit(mlir::Value size) {
    return add(codeBytes(size), mul(overUp(mul(numBlocks(size), scaleBytes), 16), 16));
  }
  mlir::Value blockOf(mlir::Value unit) { return over(unit, block / width); }
  mlir::Value isWhole(mlir::Value size) { return isEqual(size, codec::granule); }
  mlir::Value broadcast(mlir::Value scalar);
  mlir::Value extract(mlir::Value vector, int64_t position);
  mlir::Value numbersOf(mlir::Value unit) { return load(vectorOf(width, f32), numbersAt(mul(unit, width)), 16); }

  void decodeUnits(mlir::Value from, mlir::Value size, Absorb absorb);
  mlir::Value codesAt(mlir::Value from, mlir::Value size, mlir::Value unit);
  mlir::Value highBits(mlir::Value from, mlir::Value size, mlir::Value unit);
  mlir::Value scaled(mlir::Value values, mlir::Value factor);

  mlir::Value largestIn(mlir::Value numbers);
  mlir::Value largestOf(mlir::Value block);
  mlir::Value createUnit();
  mlir::Value createMean(mlir::Value block, mlir::Value size);
  mlir::Value sumOfMagnitudes(mlir::Value element, int64_t distance);
  void storeSums();
  /// Where sums are, before there are codes.
  mlir::Value sumAt(mlir::Value number) { return at(roomAt(codesOffset), mul(number, 4)); }
  void encodeScales(mlir::Value size, Destinations destinations);
  mlir::Value drawsOf(mlir::Value element, int64_t numElements);
  mlir::Value codesOf(mlir::Value unit, mlir::Value size);
  void encodeUnits(mlir::Value numUnits, mlir::Value size, Destinations destinations);
  void encodeEnd(mlir::Value size, Destinations destinations);
  mlir::Value nibbleOfEnd(mlir::Value number, mlir::Value size);

  const codec::Codec &codec;
  CodecLanes lanes;
  CodePacking packing;
  int64_t bits, block, scaleBytes;
  DrawKey key; // of the granule at hand
};

} // namespace kolo::gpu
