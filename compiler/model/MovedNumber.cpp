// Arithmetic on numbers that depend on how far ranks are translated.
#include "compiler/model/MovedNumber.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace kolo {

static int64_t modulo(int64_t value, int64_t divisor) { return ((value % divisor) + divisor) % divisor; }

MovedNumber MovedNumber::coordinate(uint8_t dim, Translation kind, int32_t size, int32_t offset) {
  MovedNumber result(kind == Translation::None ? offset : 0);
  if (kind != Translation::None)
    result.addTerm({dim, kind, size, offset, 1, 0});
  return result;
}

MovedNumber MovedNumber::block(uint8_t dim, int32_t size, int32_t offset, uint8_t log2Size) {
  MovedNumber result;
  if ((size - 1) >> log2Size != 0)
    result.addTerm({dim, Translation::Xor, size, offset >> log2Size << log2Size, int64_t(1) << log2Size, log2Size});
  return result;
}

std::optional<int64_t> MovedNumber::asConstant() const {
  return isKnown && numTerms == 0 && jump == 0 ? std::optional(constant) : std::nullopt;
}

std::optional<int64_t> MovedNumber::at(std::span<const int32_t> amounts) const {
  if (!isKnown || jump != 0)
    return std::nullopt;
  int64_t result = constant;
  for (size_t i = 0; i < numTerms; ++i) {
    const Term &term = terms[i];
    int32_t place = translatePlace(term.kind, term.offset, amounts[term.dim], term.size, /*isBack=*/false);
    result += term.factor * (place >> term.shift);
  }
  return result;
}

bool MovedNumber::operator==(const MovedNumber &other) const {
  return isKnown && other.isKnown && constant == other.constant && jump == other.jump &&
         (jump == 0 || condition == other.condition) && numTerms == other.numTerms &&
         std::equal(terms.begin(), terms.begin() + numTerms, other.terms.begin());
}

/// False when there is no place for it.
bool MovedNumber::addTerm(const Term &term) {
  auto key = [](const Term &t) { return std::tuple(t.dim, t.offset, t.shift); };
  size_t place = 0;
  while (place < numTerms && key(terms[place]) < key(term))
    ++place;
  if (place < numTerms && terms[place].isLike(term)) {
    terms[place].factor += term.factor;
    if (terms[place].factor == 0) {
      std::move(terms.begin() + ptrdiff_t(place) + 1, terms.begin() + numTerms, terms.begin() + ptrdiff_t(place));
      --numTerms;
    }
    return true;
  }
  if (numTerms == terms.size())
    return false;
  std::move_backward(terms.begin() + ptrdiff_t(place), terms.begin() + numTerms, terms.begin() + numTerms + 1);
  terms[place] = term;
  ++numTerms;
  return true;
}

MovedNumber MovedNumber::add(const MovedNumber &a, const MovedNumber &b, int64_t sign) {
  if (!a.isKnown || !b.isKnown || (a.jump != 0 && b.jump != 0 && a.condition != b.condition))
    return unknown();
  MovedNumber result = a;
  result.constant += sign * b.constant;
  result.condition = a.jump != 0 ? a.condition : b.condition;
  result.jump += sign * b.jump;
  for (size_t i = 0; i < b.numTerms; ++i) {
    Term term = b.terms[i];
    term.factor *= sign;
    if (!result.addTerm(term))
      return unknown();
  }
  return result;
}

MovedNumber operator*(const MovedNumber &a, const MovedNumber &b) {
  std::optional<int64_t> factor = b.asConstant();
  if (!factor && a.asConstant())
    return b * a;
  if (!a.isKnown || !factor)
    return MovedNumber::unknown();
  if (*factor == 0)
    return 0;
  MovedNumber result = a;
  result.constant *= *factor;
  result.jump *= *factor;
  for (size_t i = 0; i < result.numTerms; ++i)
    result.terms[i].factor *= *factor;
  return result;
}

MovedNumber operator^(const MovedNumber &a, const MovedNumber &b) {
  std::optional<int64_t> left = a.asConstant(), right = b.asConstant();
  if (left && right)
    return *left ^ *right;
  if (left)
    return b ^ a;
  if (right == 0)
    return a;
  if (right == 1 && a.isBoolean())
    return 1 - a;
  auto isCoordinate = [](const MovedNumber &number) {
    return number.isKnown && number.numTerms == 1 && number.constant == 0 && number.jump == 0 &&
           number.terms[0].factor == 1 && number.terms[0].kind == Translation::Xor && number.terms[0].shift == 0;
  };
  if (!isCoordinate(a))
    return MovedNumber::unknown();
  MovedNumber::Term term = a.terms[0];
  if (right && *right > 0 && *right < term.size)
    return MovedNumber::coordinate(term.dim, term.kind, term.size, term.offset ^ int32_t(*right));
  if (isCoordinate(b) && b.terms[0].dim == term.dim)
    return term.offset ^ b.terms[0].offset;
  return MovedNumber::unknown();
}

MovedNumber::Range MovedNumber::rangeOfTerms() const {
  Range result{constant, constant};
  for (size_t i = 0; i < numTerms; ++i)
    (terms[i].factor < 0 ? result.low : result.high) += terms[i].factor * ((terms[i].size - 1) >> terms[i].shift);
  return result;
}

MovedNumber::Range MovedNumber::range() const {
  Range result = rangeOfTerms();
  (jump < 0 ? result.low : result.high) += jump;
  return result;
}

bool MovedNumber::isNeverNegative() const { return isKnown && range().low >= 0; }

bool MovedNumber::isBoolean() const { return isKnown && range().low >= 0 && range().high <= 1; }

/// Modulo the size of a dimension, a sum of coordinates that are translated along it is a multiple of a, plus a
/// constant.
MovedNumber MovedNumber::floorMod(int64_t divisor) const {
  if (!isKnown || divisor < 1)
    return unknown();
  if (jump == 0 && rangeOfTerms().low >= 0 && rangeOfTerms().high < divisor)
    return *this;
  if (jump % divisor != 0)
    return unknown();
  int64_t rest = constant, factors = 0;
  const Term *moved = nullptr;
  for (size_t i = 0; i < numTerms; ++i) {
    int64_t factor = modulo(terms[i].factor, divisor);
    if (factor == 0)
      continue;
    if (terms[i].kind != Translation::Cyclic || terms[i].size != divisor || (moved && moved->dim != terms[i].dim))
      return unknown();
    moved = &terms[i];
    factors += factor;
    rest += factor * terms[i].offset;
  }
  rest = modulo(rest, divisor);
  factors = modulo(factors, divisor);
  if (factors == 0)
    return rest;
  if (factors != 1)
    return unknown();
  return coordinate(moved->dim, moved->kind, moved->size, int32_t(rest));
}

MovedNumber MovedNumber::floorDiv(int64_t divisor) const {
  if (!isKnown || divisor < 1 || jump != 0)
    return unknown();
  int64_t rest = modulo(constant, divisor);
  MovedNumber quotient((constant - rest) / divisor), remaining(rest);
  for (size_t i = 0; i < numTerms; ++i) {
    Term term = terms[i];
    bool isMultiple = term.factor % divisor == 0;
    if (isMultiple)
      term.factor /= divisor;
    (isMultiple ? quotient : remaining).addTerm(term);
  }
  if (Range left = remaining.rangeOfTerms(); left.low >= 0 && left.high < divisor)
    return quotient;
  // Of exclusive or, the upper bits are exclusive or of upper bits.
  const Term &term = remaining.terms[0];
  bool isBlock = remaining.numTerms == 1 && rest == 0 && term.kind == Translation::Xor && term.factor == 1 &&
                 std::has_single_bit(uint64_t(divisor));
  if (!isBlock)
    return unknown();
  auto shift = uint8_t(term.shift + std::countr_zero(uint64_t(divisor)));
  return quotient.addTerm({term.dim, term.kind, term.size, term.offset >> shift << shift, 1, shift}) ? quotient
                                                                                                     : unknown();
}

MovedNumber MovedNumber::remainder(int64_t divisor, Condition fresh) const {
  MovedNumber result = floorMod(divisor);
  if (!result.isKnown || isNeverNegative() || result.asConstant() == 0)
    return result;
  // Negative numbers have negative remainders: which ones are negative is not known.
  if (result.jump != 0)
    return unknown();
  result.condition = fresh;
  result.jump = -divisor;
  return result;
}

MovedNumber MovedNumber::isEqual(const MovedNumber &a, const MovedNumber &b) {
  MovedNumber difference = a - b;
  if (!difference.isKnown)
    return unknown();
  if (std::optional<int64_t> known = difference.asConstant())
    return *known == 0;
  if (Range range = difference.range(); range.low > 0 || range.high < 0)
    return 0;
  // Two numbers that differ modulo the size of a dimension are not equal.
  for (size_t i = 0; i < difference.numTerms; ++i)
    if (std::optional<int64_t> rest = difference.floorMod(difference.terms[i].size).asConstant(); rest && *rest != 0)
      return 0;
  // So do two coordinates that were translated from different places.
  if (difference.numTerms == 2 && difference.constant == 0 && difference.jump == 0 &&
      difference.terms[0].kind != Translation::Cyclic && difference.terms[0].dim == difference.terms[1].dim &&
      difference.terms[0].factor == -difference.terms[1].factor &&
      difference.terms[0].shift == difference.terms[1].shift)
    return 0;
  return unknown();
}

MovedNumber MovedNumber::isLess(const MovedNumber &a, const MovedNumber &b) {
  MovedNumber difference = a - b;
  if (!difference.isKnown)
    return unknown();
  Range whole = difference.range();
  if (whole.high < 0 || whole.low >= 0)
    return whole.high < 0;
  Range without = difference.rangeOfTerms();
  Range with{without.low + difference.jump, without.high + difference.jump};
  MovedNumber result;
  result.condition = difference.condition;
  if (without.low >= 0 && with.high < 0) {
    result.jump = 1; // less exactly where the condition holds
    return result;
  }
  if (without.high < 0 && with.low >= 0) {
    result.constant = 1;
    result.jump = -1;
    return result;
  }
  return unknown();
}

MovedNumber MovedNumber::select(const MovedNumber &condition, const MovedNumber &ifTrue, const MovedNumber &ifFalse) {
  if (std::optional<int64_t> known = condition.asConstant())
    return *known ? ifTrue : ifFalse;
  bool isBoolean =
      condition.isKnown && condition.numTerms == 0 &&
      ((condition.constant == 0 && condition.jump == 1) || (condition.constant == 1 && condition.jump == -1));
  if (!isBoolean)
    return unknown();
  // What each side is where it is taken: with its own jump, or without it.
  bool isTrueWithJump = condition.jump == 1;
  auto where = [&](const MovedNumber &side, bool holds) {
    if (!side.isKnown || (side.jump != 0 && side.condition != condition.condition))
      return unknown();
    MovedNumber result = side;
    result.constant += holds ? side.jump : 0;
    result.jump = 0;
    return result;
  };
  MovedNumber with = where(isTrueWithJump ? ifTrue : ifFalse, true);
  MovedNumber without = where(isTrueWithJump ? ifFalse : ifTrue, false);
  std::optional<int64_t> jump = (with - without).asConstant();
  if (!jump)
    return unknown();
  without.jump = *jump;
  without.condition = condition.condition;
  return without;
}

} // namespace kolo
