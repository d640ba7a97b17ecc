// ElementKernels: MPI's predefined operations on the elements of its predefined datatypes, as kernels. Knows no MPI
// library.
#pragma once

#include "kolo/runtime/Types.h"

#include <cstddef>
#include <cstdint>

namespace kolo::mpi {

enum class Operation : uint8_t {
  Sum,
  Product,
  Min,
  Max,
  And,
  Or,
  Xor,
  BitAnd,
  BitOr,
  BitXor,
  MinLocation,
  MaxLocation
};
inline constexpr size_t numOperations = size_t(Operation::MaxLocation) + 1;

/// X(enumerator, name, size in bytes, its operations, type in C++). Pairs are laid out as C and Fortran lay them out.
#define KOLO_FOR_EACH_ELEMENT(X)                                                                                       \
  X(I8, "i8", 1, integer, int8_t)                                                                                      \
  X(U8, "u8", 1, integer, uint8_t)                                                                                     \
  X(I16, "i16", 2, wholeInteger, int16_t)                                                                              \
  X(U16, "u16", 2, wholeInteger, uint16_t)                                                                             \
  X(I32, "i32", 4, integer, int32_t)                                                                                   \
  X(U32, "u32", 4, integer, uint32_t)                                                                                  \
  X(I64, "i64", 8, integer, int64_t)                                                                                   \
  X(U64, "u64", 8, integer, uint64_t)                                                                                  \
  X(F32, "f32", 4, none, float)                                                                                        \
  X(F64, "f64", 8, none, double)                                                                                       \
  X(LongDouble, "long double", sizeof(long double), real, long double)                                                 \
  X(ComplexF32, "complex f32", 8, complex, std::complex<float>)                                                        \
  X(ComplexF64, "complex f64", 16, complex, std::complex<double>)                                                      \
  X(Byte, "byte", 1, bitwise, uint8_t)                                                                                 \
  X(Bool, "bool", 1, logical, uint8_t)                                                                                 \
  X(Logical, "logical", 4, logical, int32_t)                                                                           \
  X(F32AndI32, "(f32, i32)", 8, location, Pair<float, int32_t>)                                                        \
  X(F64AndI32, "(f64, i32)", 16, location, Pair<double, int32_t>)                                                      \
  X(I64AndI32, "(i64, i32)", 16, location, Pair<int64_t, int32_t>)                                                     \
  X(I32AndI32, "(i32, i32)", 8, location, Pair<int32_t, int32_t>)                                                      \
  X(I16AndI32, "(i16, i32)", 8, location, Pair<int16_t, int32_t>)                                                      \
  X(F32AndF32, "(f32, f32)", 8, location, Pair<float, float>)                                                          \
  X(F64AndF64, "(f64, f64)", 16, location, Pair<double, double>)

#define KOLO_ENUMERATOR(ENUMERATOR, ...) ENUMERATOR,
#define KOLO_ONE(...) +1
enum class Element : uint8_t { KOLO_FOR_EACH_ELEMENT(KOLO_ENUMERATOR) };
inline constexpr size_t numElements = 0 KOLO_FOR_EACH_ELEMENT(KOLO_ONE);
#undef KOLO_ONE
#undef KOLO_ENUMERATOR

const char *nameOf(Operation operation);
const char *nameOf(Element element);
int64_t sizeBytes(Element element);

/// Null where MPI defines no such operation on such elements, or Kolo has a type and a reduction for it. As Kolo's own
/// kernels, they give every NaN the bits of one, and their minimum and maximum are those of IEEE 754-2019. Of pairs
/// with equal values the one with the lower location wins, whatever the signs of zeros.
KoloReduceKernel kernelOf(Operation operation, Element element);

} // namespace kolo::mpi
