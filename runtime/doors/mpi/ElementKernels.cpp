#include "ElementKernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kolo::mpi {
namespace {

/// A value and where it was found. Laid out as C lays out MPI's own pairs.
template <class Value, class Location> struct Pair {
  Value value;
  Location location;
};

template <class T> constexpr bool isPair = false;
template <class Value, class Location> constexpr bool isPair<Pair<Value, Location>> = true;
template <class T> constexpr bool isComplex = false;
template <class T> constexpr bool isComplex<std::complex<T>> = true;

/// As Kolo's own kernels: every result that is a NaN is the type's one NaN, whichever operand was one. So the bits do
/// not depend on the order of the operands.
template <class T> T withOneNan(T value) {
  if constexpr (isComplex<T>)
    return {withOneNan(value.real()), withOneNan(value.imag())};
  else if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  else
    return value;
}

/// IEEE 754-2019's maximum: a NaN is above all numbers, and -0 is below +0.
template <class T> bool isAbove(T left, T right) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(left) || std::isnan(right))
      return std::isnan(left) && !std::isnan(right);
    if (left == right)
      return !std::signbit(left) && std::signbit(right);
  }
  return left > right;
}

/// The same for the minimum, of which a NaN is below all numbers.
template <class T> bool isBelow(T left, T right) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(left) || std::isnan(right))
      return std::isnan(left) && !std::isnan(right);
  return isAbove(right, left);
}

/// Whether the left pair wins. Of equal values, among which are -0 and +0, the lower location does.
template <Operation operation, class P> bool wins(const P &left, const P &right) {
  auto beats = [](auto one, auto other) {
    return operation == Operation::MaxLocation ? isAbove(one, other) : isBelow(one, other);
  };
  const bool areEqual = left.value == right.value;
  if (!areEqual && (beats(left.value, right.value) || beats(right.value, left.value)))
    return beats(left.value, right.value);
  if (left.location != right.location)
    return isBelow(left.location, right.location);
  return beats(left.value, right.value);
}

template <Operation operation, class T> T combine(const T &left, const T &right) {
  if constexpr (isPair<T>) {
    T winner = wins<operation>(left, right) ? left : right;
    winner.value = withOneNan(winner.value);
    winner.location = withOneNan(winner.location);
    return winner;
  } else if constexpr (operation == Operation::Sum) {
    return withOneNan(T(left + right));
  } else if constexpr (operation == Operation::Product) {
    if constexpr (isComplex<T>) // without C's recovery of infinities, which depends on the order of the operands
      return withOneNan(T(left.real() * right.real() - left.imag() * right.imag(),
                          left.real() * right.imag() + left.imag() * right.real()));
    else if constexpr (std::is_integral_v<T>)
      return T(static_cast<unsigned>(left) * static_cast<unsigned>(right)); // wraps; of at most 16 bits
    else
      return withOneNan(T(left * right));
  } else if constexpr (operation == Operation::Min) {
    return withOneNan(isBelow(left, right) ? left : right);
  } else if constexpr (operation == Operation::Max) {
    return withOneNan(isAbove(left, right) ? left : right);
  } else if constexpr (operation == Operation::And) {
    return T(left && right);
  } else if constexpr (operation == Operation::Or) {
    return T(left || right);
  } else if constexpr (operation == Operation::Xor) {
    return T(!left != !right);
  } else if constexpr (operation == Operation::BitAnd) {
    return T(left & right);
  } else if constexpr (operation == Operation::BitOr) {
    return T(left | right);
  } else {
    static_assert(operation == Operation::BitXor);
    return T(left ^ right);
  }
}

/// A KoloReduceKernel. Elements need not be aligned. Goes block by block, so that a destination may be a source.
template <Operation operation, class T>
void reduce(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs, int64_t numElements,
            int64_t /*nonTemporal*/) {
  constexpr int64_t blockElements = 2048 / int64_t(sizeof(T));
  T results[blockElements], others[blockElements];
  for (int64_t begin = 0; begin < numElements; begin += blockElements) {
    const int64_t number = std::min(blockElements, numElements - begin);
    const size_t offset = static_cast<size_t>(begin) * sizeof(T), bytes = static_cast<size_t>(number) * sizeof(T);
    std::memcpy(static_cast<void *>(results), static_cast<const std::byte *>(srcs[0]) + offset, bytes);
    for (int64_t source = 1; source < numSrcs; ++source) {
      std::memcpy(static_cast<void *>(others), static_cast<const std::byte *>(srcs[source]) + offset, bytes);
      for (int64_t i = 0; i < number; ++i)
        results[i] = combine<operation>(results[i], others[i]);
    }
    for (int64_t destination = 0; destination < numDsts; ++destination)
      std::memcpy(static_cast<std::byte *>(dsts[destination]) + offset, static_cast<const void *>(results), bytes);
  }
}

/// The kernels for one type of elements, by Operation.
using Kernels = std::array<KoloReduceKernel, numOperations>;

template <class T, Operation... operations> constexpr Kernels kernels() {
  Kernels all = {};
  ((all[size_t(operations)] = &reduce<operations, T>), ...);
  return all;
}

template <class T> constexpr Kernels logical = kernels<T, Operation::And, Operation::Or, Operation::Xor>();
template <class T> constexpr Kernels bitwise = kernels<T, Operation::BitAnd, Operation::BitOr, Operation::BitXor>();
template <class T>
constexpr Kernels integer =
    kernels<T, Operation::And, Operation::Or, Operation::Xor, Operation::BitAnd, Operation::BitOr, Operation::BitXor>();
template <class T>
constexpr Kernels wholeInteger =
    kernels<T, Operation::Sum, Operation::Product, Operation::Min, Operation::Max, Operation::And, Operation::Or,
            Operation::Xor, Operation::BitAnd, Operation::BitOr, Operation::BitXor>();
template <class T>
constexpr Kernels real = kernels<T, Operation::Sum, Operation::Product, Operation::Min, Operation::Max>();
template <class T> constexpr Kernels complex = kernels<T, Operation::Sum, Operation::Product>();
template <class T> constexpr Kernels location = kernels<T, Operation::MinLocation, Operation::MaxLocation>();
template <class T> constexpr Kernels none = kernels<T>();

struct Facts {
  const char *name;
  int64_t sizeBytes;
  const Kernels *kernels;
};

constexpr std::array<const char *, numOperations> operationNames = {
    "sum",         "product",     "min",        "max",         "logical and", "logical or",
    "logical xor", "bitwise and", "bitwise or", "bitwise xor", "minloc",      "maxloc"};

#define KOLO_FACTS(ENUMERATOR, NAME, SIZE, OPERATIONS, ...) Facts{NAME, SIZE, &OPERATIONS<__VA_ARGS__>},
constexpr Facts elements[] = {KOLO_FOR_EACH_ELEMENT(KOLO_FACTS)};
#undef KOLO_FACTS
#define KOLO_SIZE(ENUMERATOR, NAME, SIZE, OPERATIONS, ...) static_assert(sizeof(__VA_ARGS__) == SIZE);
KOLO_FOR_EACH_ELEMENT(KOLO_SIZE)
#undef KOLO_SIZE

} // namespace

const char *nameOf(Operation operation) { return operationNames[size_t(operation)]; }
const char *nameOf(Element element) { return elements[size_t(element)].name; }
int64_t sizeBytes(Element element) { return elements[size_t(element)].sizeBytes; }

KoloReduceKernel kernelOf(Operation operation, Element element) {
  return (*elements[size_t(element)].kernels)[size_t(operation)];
}

} // namespace kolo::mpi
