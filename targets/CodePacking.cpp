// Codes of neighbouring elements as they lie in a granule.
#include "targets/CodePacking.h"

#include "targets/Values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace kolo {

VectorType CodePacking::vectorOf(int64_t size, int64_t elementBits) {
  return VectorType::get({size}, builder.getIntegerType(unsigned(elementBits)));
}

/// Of bytes that elements of so many bits each fill.
Value CodePacking::place(Value granule, Value element, int64_t bitsOfEach) {
  Value numBits = arith::MulIOp::create(builder, loc, element, constantI64(builder, loc, bitsOfEach));
  return advance(builder, loc, granule, arith::ShRUIOp::create(builder, loc, numBits, constantI64(builder, loc, 3)));
}

/// The bytes of 16 elements, which begin at a multiple of their number.
static unsigned alignmentOf(Type type, unsigned most) {
  auto vector = dyn_cast<VectorType>(type);
  int64_t numBytes =
      (vector ? vector.getNumElements() * vector.getElementTypeBitWidth() : type.getIntOrFloatBitWidth()) / 8;
  return unsigned(std::min<int64_t>(numBytes, most));
}
Value CodePacking::load(Type type, Value address) {
  return LLVM::LoadOp::create(builder, loc, type, address, alignmentOf(type, granuleAlignment));
}
void CodePacking::store(Value value, Value address) {
  LLVM::StoreOp::create(builder, loc, value, address, alignmentOf(value.getType(), granuleAlignment));
}

/// Joins neighbouring codes of so many bits to one of twice as many.
Value CodePacking::joinPairs(Value codes, int64_t bitsOfEach) {
  int64_t numPairs = cast<VectorType>(codes.getType()).getNumElements() / 2;
  Value pairs = LLVM::BitcastOp::create(builder, loc, vectorOf(numPairs, 64), codes);
  Value joined = bitOr(pairs, arith::ShRUIOp::create(builder, loc, pairs, splat64(numPairs, 32 - bitsOfEach)));
  return arith::TruncIOp::create(builder, loc, vectorOf(numPairs, 32), joined);
}

/// The opposite. Above its bits, a code has others.
Value CodePacking::splitPairs(Value joined, int64_t bitsOfEach) {
  int64_t numPairs = cast<VectorType>(joined.getType()).getNumElements();
  Value pairs = arith::ExtUIOp::create(builder, loc, vectorOf(numPairs, 64), joined);
  Value split = bitOr(pairs, arith::ShLIOp::create(builder, loc, pairs, splat64(numPairs, 32 - bitsOfEach)));
  return LLVM::BitcastOp::create(builder, loc, vectorOf(2 * numPairs, 32), split);
}

Value CodePacking::splat64(int64_t size, int64_t value) {
  auto type = vectorOf(size, 64);
  return arith::ConstantOp::create(builder, loc, SplatElementsAttr::get(type, builder.getI64IntegerAttr(value)));
}

Value CodePacking::truncate(Value codes, int64_t elementBits) {
  return arith::TruncIOp::create(builder, loc,
                                 vectorOf(cast<VectorType>(codes.getType()).getNumElements(), elementBits), codes);
}
Value CodePacking::extend(Value codes) {
  return arith::ExtUIOp::create(builder, loc, vectorOf(cast<VectorType>(codes.getType()).getNumElements(), 32), codes);
}

void CodePacking::pack(Value codes, Value granule, Value element) {
  if (bits == 32)
    return store(codes, place(granule, element, bits));
  if (bits == 8 || bits == 16)
    return store(truncate(codes, bits), place(granule, element, bits));
  if (bits == 1) {
    Value isSet = isAbove(codes, 0);
    Value packed = LLVM::BitcastOp::create(builder, loc, builder.getIntegerType(unsigned(width)), isSet);
    return store(packed, place(granule, element, bits));
  }
  Value low = bits == 4 ? codes : bitAnd(codes, 15);
  store(truncate(joinPairs(low, 4), 8), place(granule, element, 4));
  if (bits == 4)
    return;
  Value high = joinPairs(joinPairs(shiftRight(codes, 4), 2), 4);
  store(truncate(high, 8),
        advance(builder, loc, place(granule, element, 2), constantI64(builder, loc, codec::granule / 2)));
}

Value CodePacking::join(Value low, Value high) {
  Value twoBits = bitAnd(splitPairs(splitPairs(extend(high), 4), 2), 3);
  return bitOr(bitAnd(splitPairs(extend(low), 4), 15), shiftLeft(twoBits, 4));
}

Value CodePacking::unpack(Value granule, Value element) {
  if (bits == 32)
    return load(vectorOf(width, 32), place(granule, element, bits));
  if (bits == 8 || bits == 16)
    return extend(load(vectorOf(width, bits), place(granule, element, bits)));
  if (bits == 1) {
    Value packed = load(builder.getIntegerType(unsigned(width)), place(granule, element, bits));
    return extend(LLVM::BitcastOp::create(builder, loc, vectorOf(width, 1), packed));
  }
  Value low = load(vectorOf(width / 2, 8), place(granule, element, 4));
  if (bits == 4)
    return bitAnd(splitPairs(extend(low), 4), 15);
  Value high = load(vectorOf(width / 4, 8),
                    advance(builder, loc, place(granule, element, 2), constantI64(builder, loc, codec::granule / 2)));
  return join(low, high);
}

} // namespace kolo
