// The element types and reductions that a call may use, and their arithmetic. Used by the interpreters and the oracle.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::reference {

enum class ElementType { F16, BF16, F32, F64, I8, U8, I32, U32, I64, U64 };
inline constexpr ElementType allElementTypes[] = {
    ElementType::F16, ElementType::BF16, ElementType::F32, ElementType::F64, ElementType::I8,
    ElementType::U8,  ElementType::I32,  ElementType::U32, ElementType::I64, ElementType::U64};

enum class Reduction { Sum, Product, Min, Max, Average };
inline constexpr Reduction allReductions[] = {Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max,
                                              Reduction::Average};

int64_t elementBytes(ElementType type);
llvm::StringRef nameOf(ElementType type);
llvm::StringRef nameOf(Reduction reduction);

/// To IEEE binary16 and to bfloat16, rounding to nearest, ties to even; overflow gives infinity, a NaN stays a quiet
/// NaN.
uint16_t halfFromFloat(float value);
uint16_t bfloat16FromFloat(float value);
/// Exact.
float floatFromHalf(uint16_t bits);
float floatFromBfloat16(uint16_t bits);

/// destination[i] = destination[i] op source[i]; average combines as sum. Both hold whole elements, equally many.
/// f16 and bf16 are computed in f32 and rounded once per operation; integers wrap. Min and max of floating-point types
/// are minimum and maximum of IEEE 754-2019: a NaN wins, and -0 is below +0. Every result that is a NaN is the type's
/// one NaN: positive, quiet, without payload. So the operands of every operation may be exchanged.
void combine(ElementType type, Reduction reduction, llvm::MutableArrayRef<std::byte> destination,
             llvm::ArrayRef<std::byte> source);

/// The last step of an average: IEEE division (in f32 for f16 and bf16), or truncation towards zero for integers.
/// A NaN becomes the type's one NaN. `divisor` is positive.
void divide(ElementType type, llvm::MutableArrayRef<std::byte> elements, int64_t divisor);

/// Elements of f16 or bf16 as f32, and back.
std::vector<std::byte> widened(ElementType type, llvm::ArrayRef<std::byte> elements);
void narrow(ElementType type, llvm::ArrayRef<std::byte> wide, llvm::MutableArrayRef<std::byte> elements);
/// Whether ranks compute it in f32.
constexpr bool isWidened(ElementType type, Reduction reduction) {
  return reduction == Reduction::Average && (type == ElementType::F16 || type == ElementType::BF16);
}

/// Writes one element; integers keep the low bits of `value`.
void storeInteger(ElementType type, std::byte *element, int64_t value);

/// One element as text, for messages.
std::string show(ElementType type, const std::byte *element);

} // namespace kolo::reference
