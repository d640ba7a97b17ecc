// The arithmetic of reductions, and of the division that ends an average, on elements or on vectors of them. Shared by
// the targets.
#pragma once

#include "targets/DeviceCode.h"

#include "mlir/IR/Builders.h"

#include <optional>
#include <string>

namespace kolo {

bool isFloat(KoloType type);
bool isUnsigned(KoloType type);
/// The type that elements have in memory.
mlir::Type storedType(mlir::OpBuilder &builder, KoloType type);

/// "sum.f32": the same for every pair that is computed alike.
std::string reductionName(KoloType type, KoloReduction reduction);
/// "f32", "sum".
const char *nameOf(KoloType type);
const char *nameOf(KoloReduction reduction);
/// The inverse of nameOf; nothing for any other text.
std::optional<KoloType> parseType(llvm::StringRef name);
std::optional<KoloReduction> parseReduction(llvm::StringRef name);

/// left op right, of stored elements; an average combines as a sum. The result has the same bits with its operands
/// exchanged. For floating-point types, min and max are minimum and maximum of IEEE 754-2019: a NaN wins, and -0 is
/// below +0. Every result that is a NaN is the type's one NaN: positive, quiet, without payload.
mlir::Value createReduction(mlir::OpBuilder &builder, mlir::Location loc, KoloType type, KoloReduction reduction,
                            mlir::Value left, mlir::Value right, Accumulation accumulation = Accumulation::F32);
/// The same, but for the bits of a NaN: where more operands follow, only the last result needs `createOneNan`.
mlir::Value createReductionWithAnyNan(mlir::OpBuilder &builder, mlir::Location loc, KoloType type,
                                      KoloReduction reduction, mlir::Value left, mlir::Value right,
                                      Accumulation accumulation = Accumulation::F32);
/// The stored elements, with the type's one NaN for any NaN.
mlir::Value createOneNan(mlir::OpBuilder &builder, mlir::Location loc, KoloType type, mlir::Value value);
/// What createQuotient divides by, or multiplies by.
struct Divisor {
  mlir::Value value;
  bool isInverse = false;
};

/// Whether a floating-point average over so many ranks, an i64, may multiply by the inverse instead of dividing. The
/// inverse of a power of two is exact, so that the result is the same to the last bit; a division takes several times
/// as long.
mlir::Value hasExactInverse(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value numRanks);
/// From a number of ranks of type i64. The inverse is for floating-point types.
Divisor createDivisor(mlir::OpBuilder &builder, mlir::Location loc, KoloType type, mlir::Value numRanks,
                      bool isInverse = false);
/// Of a stored element, or of a vector of floating-point ones: IEEE division, in f32 for f16 and bf16, with the type's
/// one NaN; integers towards zero.
mlir::Value createQuotient(mlir::OpBuilder &builder, mlir::Location loc, KoloType type, mlir::Value dividend,
                           const Divisor &divisor);
/// The same, but for the bits of a NaN.
mlir::Value createQuotientWithAnyNan(mlir::OpBuilder &builder, mlir::Location loc, KoloType type, mlir::Value dividend,
                                     const Divisor &divisor);

} // namespace kolo
