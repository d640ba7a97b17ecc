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

/// Of integers of any width.
static Value masked(OpBuilder &builder, Location loc, Value a, int64_t mask) {
  auto type = cast<VectorType>(a.getType());
  auto value = builder.getIntegerAttr(type.getElementType(), mask);
  Value constant = arith::ConstantOp::create(builder, loc, SplatElementsAttr::get(type, Attribute(value)));
  return arith::AndIOp::create(builder, loc, a, constant);
}

/// To the left; to the right where negative.
static Value shifted(OpBuilder &builder, Location loc, Value a, int64_t amount) {
  auto type = cast<VectorType>(a.getType());
  auto value = builder.getIntegerAttr(type.getElementType(), std::abs(amount));
  Value constant = arith::ConstantOp::create(builder, loc, SplatElementsAttr::get(type, Attribute(value)));
  return amount < 0 ? arith::ShRUIOp::create(builder, loc, a, constant).getResult()
                    : arith::ShLIOp::create(builder, loc, a, constant).getResult();
}

/// Bytes of which the low 4 bits count, two to a byte.
Value CodePacking::nibbles(Value bytes) {
  Value pairs = LLVM::BitcastOp::create(builder, loc, vectorOf(width / 2, 16), bytes);
  Value even = masked(builder, loc, pairs, 0x0f);
  Value odd = masked(builder, loc, shifted(builder, loc, pairs, -4), 0xf0);
  return arith::TruncIOp::create(builder, loc, vectorOf(width / 2, 8), bitOr(even, odd));
}

Value CodePacking::bytesOfNibbles(Value packed) {
  Value pairs = arith::ExtUIOp::create(builder, loc, vectorOf(width / 2, 16), packed);
  Value even = masked(builder, loc, pairs, 0x0f);
  Value odd = shifted(builder, loc, masked(builder, loc, pairs, 0xf0), 4);
  return LLVM::BitcastOp::create(builder, loc, vectorOf(width, 8), bitOr(even, odd));
}

void CodePacking::pack(Value codes, Value granule, Value element) {
  if (bits == 32)
    return store(codes, place(granule, element, bits));
  if (bits == 16)
    return store(arith::TruncIOp::create(builder, loc, vectorOf(width, 16), codes), place(granule, element, bits));
  if (bits == 1) {
    Value isSet = isAbove(codes, 0);
    Value packed = LLVM::BitcastOp::create(builder, loc, builder.getIntegerType(unsigned(width)), isSet);
    return store(packed, place(granule, element, bits));
  }
  Value bytes = arith::TruncIOp::create(builder, loc, vectorOf(width, 8), codes);
  if (bits == 8)
    return store(bytes, place(granule, element, bits));
  store(nibbles(bytes), place(granule, element, 4));
  if (bits == 4)
    return;
  Value fours = LLVM::BitcastOp::create(builder, loc, vectorOf(width / 4, 32), bytes);
  auto pairAt = [&](int64_t shift, int64_t mask) {
    return masked(builder, loc, shifted(builder, loc, fours, shift), mask);
  };
  Value high = bitOr(bitOr(pairAt(-4, 0x03), pairAt(-10, 0x0c)), bitOr(pairAt(-16, 0x30), pairAt(-22, 0xc0)));
  store(arith::TruncIOp::create(builder, loc, vectorOf(width / 4, 8), high),
        advance(builder, loc, place(granule, element, 2), constantI64(builder, loc, codec::granule / 2)));
}

Value CodePacking::join(Value low, Value high) {
  Value fours = arith::ExtUIOp::create(builder, loc, vectorOf(width / 4, 32), high);
  auto pairAt = [&](int64_t mask, int64_t shift) {
    return shifted(builder, loc, masked(builder, loc, fours, mask), shift);
  };
  Value spread = bitOr(bitOr(pairAt(0x03, 4), pairAt(0x0c, 10)), bitOr(pairAt(0x30, 16), pairAt(0xc0, 22)));
  Value bytes = bitOr(bytesOfNibbles(low), LLVM::BitcastOp::create(builder, loc, vectorOf(width, 8), spread));
  return arith::ExtUIOp::create(builder, loc, vectorOf(width, 32), bytes);
}

Value CodePacking::unpack(Value granule, Value element) {
  auto codes = vectorOf(width, 32);
  if (bits == 32)
    return load(codes, place(granule, element, bits));
  if (bits == 16)
    return arith::ExtUIOp::create(builder, loc, codes, load(vectorOf(width, 16), place(granule, element, bits)));
  if (bits == 1) {
    Value packed = load(builder.getIntegerType(unsigned(width)), place(granule, element, bits));
    return arith::ExtUIOp::create(builder, loc, codes,
                                  LLVM::BitcastOp::create(builder, loc, vectorOf(width, 1), packed));
  }
  if (bits == 8)
    return arith::ExtUIOp::create(builder, loc, codes, load(vectorOf(width, 8), place(granule, element, bits)));
  Value low = load(vectorOf(width / 2, 8), place(granule, element, 4));
  if (bits == 4)
    return arith::ExtUIOp::create(builder, loc, codes, bytesOfNibbles(low));
  Value high = load(vectorOf(width / 4, 8),
                    advance(builder, loc, place(granule, element, 2), constantI64(builder, loc, codec::granule / 2)));
  return join(low, high);
}

} // namespace kolo
