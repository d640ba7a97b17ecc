// A number that ranks compute, as a function of how far all ranks are translated. Used by MovedTrace to verify the
// symmetry of a program for all ranks at once. Includes no MLIR.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace kolo {

/// How translations act along one mesh dimension: not at all, by addition modulo the size, or by exclusive or. ToFront
/// is for roots only: place 0 goes to place a, and the places in between close up, so that others keep their order.
enum class Translation : uint8_t { None, Cyclic, Xor, ToFront };

/// Place `value` of `size`, translated by `amount` from 0 to size - 1, or back.
inline int32_t translatePlace(Translation kind, int32_t value, int32_t amount, int32_t size, bool isBack) {
  switch (kind) {
  case Translation::None:
    return value;
  case Translation::Xor:
    return value ^ amount;
  case Translation::Cyclic:
    value += isBack ? size - amount : amount;
    return value >= size ? value - size : value;
  case Translation::ToFront:
    if (isBack)
      return value == amount ? 0 : value + (value < amount);
    return value == 0 ? amount : value - (value <= amount);
  }
  return value;
}

/// constant + sum of factor * moved coordinate + jump, the jump only where some condition holds. A moved coordinate is
/// (offset + a) modulo size, offset ^ a, or as ToFront says, where a is how far ranks are translated along a dimension.
/// What an operation cannot express is unknown: then nothing is said about the number.
class MovedNumber {
public:
  struct Term {
    uint8_t dim;
    Translation kind;
    int32_t size, offset; // 0 <= offset < size
    int64_t factor;
    uint8_t shift; // for Xor; bits of `offset` that it drops are 0
    bool isLike(const Term &other) const { return dim == other.dim && offset == other.offset && shift == other.shift; }
    bool operator==(const Term &) const = default;
  };
  using Condition = uint32_t; // 0: none

  MovedNumber(int64_t constant = 0) : constant(constant) {}
  MovedNumber(const MovedNumber &other) { *this = other; }
  MovedNumber &operator=(const MovedNumber &other) {
    isKnown = other.isKnown;
    numTerms = other.numTerms;
    condition = other.condition;
    constant = other.constant;
    jump = other.jump;
    std::copy_n(other.terms.begin(), numTerms, terms.begin()); // most numbers have none
    return *this;
  }
  static MovedNumber unknown() {
    MovedNumber result;
    result.isKnown = false;
    return result;
  }
  static MovedNumber coordinate(uint8_t dim, Translation kind, int32_t size, int32_t offset);
  /// The first place of a moved range of 2^log2Size places that starts at a multiple of its size. For Xor.
  static MovedNumber block(uint8_t dim, int32_t size, int32_t offset, uint8_t log2Size);

  /// The number, if it is the same however ranks are translated.
  std::optional<int64_t> asConstant() const;
  /// The number where ranks are translated so far along every dimension; nothing if that also depends on a condition.
  std::optional<int64_t> at(std::span<const int32_t> amounts) const;
  bool operator==(const MovedNumber &other) const;

  friend MovedNumber operator+(const MovedNumber &a, const MovedNumber &b) { return add(a, b, 1); }
  friend MovedNumber operator-(const MovedNumber &a, const MovedNumber &b) { return add(a, b, -1); }
  friend MovedNumber operator*(const MovedNumber &a, const MovedNumber &b);
  friend MovedNumber operator^(const MovedNumber &a, const MovedNumber &b);
  /// The remainder from 0 to divisor - 1.
  MovedNumber floorMod(int64_t divisor) const;
  MovedNumber floorDiv(int64_t divisor) const;
  /// The remainder with the sign of the number. `fresh` is a condition that no number has yet.
  MovedNumber remainder(int64_t divisor, Condition fresh) const;
  /// 1 or 0.
  static MovedNumber isEqual(const MovedNumber &a, const MovedNumber &b);
  static MovedNumber isLess(const MovedNumber &a, const MovedNumber &b);
  static MovedNumber select(const MovedNumber &condition, const MovedNumber &ifTrue, const MovedNumber &ifFalse);
  bool isNeverNegative() const;
  bool isBoolean() const;

private:
  struct Range {
    int64_t low, high;
  };
  static MovedNumber add(const MovedNumber &a, const MovedNumber &b, int64_t sign);
  bool addTerm(const Term &term);
  /// Bounds without the jump, and with or without it.
  Range rangeOfTerms() const;
  Range range() const;

  bool isKnown = true;
  uint8_t numTerms = 0;
  Condition condition = 0;
  int64_t constant = 0, jump = 0;
  std::array<Term, 4> terms; // so many of them, ordered by dimension, then offset
};

} // namespace kolo
