// Numbers that are affine in the size n of a mesh dimension, and decisions that hold for every n. Used by the proof for
// all sizes; README.md has the argument. Includes no MLIR.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kolo::sizes {

/// constant + size * n + round * s + place * k: n is the size, s the iteration of the loop at hand, and k the place
/// that the number belongs to, if it belongs to a run of places.
struct Affine {
  int64_t constant = 0, size = 0, round = 0, place = 0;

  Affine() = default;
  Affine(int64_t constant, int64_t size = 0, int64_t round = 0, int64_t place = 0)
      : constant(constant), size(size), round(round), place(place) {}
  static Affine n() { return {0, 1}; }
  static Affine s() { return {0, 0, 1}; }
  static Affine k() { return {0, 0, 0, 1}; }

  bool isConstant() const { return size == 0 && round == 0 && place == 0; }
  bool operator==(const Affine &) const = default;
  Affine operator+(const Affine &other) const {
    return {constant + other.constant, size + other.size, round + other.round, place + other.place};
  }
  Affine operator-(const Affine &other) const { return *this + other * -1; }
  Affine operator*(int64_t factor) const { return {constant * factor, size * factor, round * factor, place * factor}; }
  /// The number at another place, or in another round.
  Affine at(const Affine &other) const { return Affine(constant, size, round) + other * place; }
  Affine inRound(const Affine &other) const { return Affine(constant, size, 0, place) + other * round; }
  /// The same remainder modulo n for all numbers that have it.
  Affine modSize() const { return {constant, 0, round, place}; }
  std::string text() const;
};

/// All n that are at least a smallest one. In a loop, also all iterations from `firstRound` to n + `lastRound`.
struct Region {
  int64_t least = 0;
  std::optional<int64_t> firstRound;
  int64_t lastRound = 0;

  bool isEmpty() const { return firstRound && least + lastRound < *firstRound; }
  /// Whether a number without a place is at least this everywhere in the region. Exact over the rationals, since an
  /// affine function is least at a vertex, or falls along a ray.
  bool isAtLeast(const Affine &number, int64_t bound) const;
  /// The same at all places from `begin` to before `end`.
  bool isAtLeast(const Affine &number, int64_t bound, const Affine &begin, const Affine &end) const {
    return isAtLeast(number.at(begin), bound) && isAtLeast(number.at(end - 1), bound);
  }
};

/// What is known of numbers beside their region: n has this remainder modulo a period, and so has the first iteration
/// of so many that are taken together.
struct Residues {
  int64_t period = 1, size = 0, round = 0;
  /// The remainder, from 0 on, of a number without a place; nothing where it is not the same in the whole region.
  std::optional<int64_t> modulo(const Affine &number, int64_t divisor) const;
};

/// Takes decisions that hold in the whole region. The first one that does not is remembered, and ends the proof.
class Decisions {
public:
  Region region;
  Residues residues;

  bool isLess(const Affine &a, const Affine &b) {
    if (region.isAtLeast(b - a, 1))
      return true;
    if (!region.isAtLeast(a - b, 0))
      fail("nothing shows whether " + a.text() + " < " + b.text() + " for every size n");
    return false;
  }
  bool isAtMost(const Affine &a, const Affine &b) { return !isLess(b, a); }
  Affine larger(const Affine &a, const Affine &b) { return isLess(a, b) ? b : a; }
  Affine smaller(const Affine &a, const Affine &b) { return isLess(b, a) ? b : a; }
  /// A number that is congruent to this one modulo n, and lies between 0 and n - 1.
  Affine reduce(const Affine &number);

  void fail(std::string what) {
    if (!reason)
      reason = std::move(what);
  }
  bool hasFailed() const { return reason.has_value(); }
  /// What was undecided first.
  std::optional<std::string> reason;
};

} // namespace kolo::sizes
