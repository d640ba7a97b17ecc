// Codes of neighbouring elements as they lie in a granule, which ir/README.md defines. Shared by the targets.
#pragma once

#include "targets/Codecs.h"

namespace kolo {

/// Of vectors of 16 codes, i32, of which no bits but the codec's are set. Blocks have at least as many elements.
class CodePacking : Lanes {
public:
  static constexpr int64_t width = 16;

  /// A granule is aligned to so many bytes, a power of two of at most 16.
  CodePacking(mlir::OpBuilder &builder, mlir::Location loc, const codec::Codec &codec, unsigned granuleAlignment)
      : Lanes(builder, loc), bits(codec::bitsOf(codec.element())), granuleAlignment(granuleAlignment) {}

  /// To and from the layout of a whole granule. `element`, i64, is the first one's number in it, a multiple of 16.
  void pack(mlir::Value codes, mlir::Value granule, mlir::Value element);
  mlir::Value unpack(mlir::Value granule, mlir::Value element);
  /// From the two parts of codes of 6 bits: 8 bytes of the low 4 bits, 4 bytes of the high 2.
  mlir::Value join(mlir::Value low, mlir::Value high);

private:
  mlir::VectorType vectorOf(int64_t size, int64_t elementBits);
  mlir::Value place(mlir::Value granule, mlir::Value element, int64_t bitsOfEach);
  mlir::Value load(mlir::Type type, mlir::Value address);
  void store(mlir::Value value, mlir::Value address);
  mlir::Value joinPairs(mlir::Value codes, int64_t bitsOfEach);
  mlir::Value splitPairs(mlir::Value joined, int64_t bitsOfEach);
  mlir::Value splat64(int64_t size, int64_t value);
  mlir::Value truncate(mlir::Value codes, int64_t elementBits);
  mlir::Value extend(mlir::Value codes);

  const int64_t bits;
  const unsigned granuleAlignment;
};

} // namespace kolo
