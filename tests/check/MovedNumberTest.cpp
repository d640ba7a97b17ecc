// Numbers that depend on how far ranks are translated, against the same arithmetic for every translation by itself.
#include "compiler/model/MovedNumber.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace kolo {
namespace {

struct Dim {
  Translation kind;
  int32_t size;
};

/// A number, and its values for all translations.
struct Both {
  MovedNumber moved;
  std::vector<int64_t> values;
};

class Arithmetic {
public:
  Arithmetic(std::vector<Dim> dims, unsigned seed) : dims(std::move(dims)), random(seed) {
    int32_t count = 1;
    for (const Dim &dim : this->dims)
      count *= dim.size;
    for (int32_t number = 0; number < count; ++number) {
      std::vector<int32_t> &amounts = translations.emplace_back();
      int32_t rest = number;
      for (const Dim &dim : this->dims) {
        amounts.push_back(rest % dim.size);
        rest /= dim.size;
      }
    }
  }

  Both leaf() {
    Both result;
    if (random() % 3 == 0) {
      int64_t constant = pick({0, 1, 2, 3, 4, 8, dims[0].size, dims.back().size, -1});
      return {constant, std::vector<int64_t>(translations.size(), constant)};
    }
    size_t dim = random() % dims.size();
    auto offset = int32_t(random() % size_t(dims[dim].size));
    result.moved = MovedNumber::coordinate(uint8_t(dim), dims[dim].kind, dims[dim].size, offset);
    for (const std::vector<int32_t> &amounts : translations)
      result.values.push_back(place(dims[dim], offset, amounts[dim]));
    return result;
  }

  /// A random expression; counts in `numKnown` those of which the arithmetic knows something.
  Both make(int depth) {
    if (depth == 0)
      return leaf();
    Both a = make(depth - 1), b = make(depth - 1), result;
    int64_t divisor = pick({1, 2, 4, 3, dims[0].size, dims.back().size});
    switch (random() % 10) {
    case 0:
      return apply(a.moved + b.moved, a, b, [](int64_t x, int64_t y) { return x + y; });
    case 1:
      return apply(a.moved - b.moved, a, b, [](int64_t x, int64_t y) { return x - y; });
    case 2:
      return apply(a.moved * b.moved, a, b, [](int64_t x, int64_t y) { return x * y; });
    case 3:
      return apply(a.moved ^ b.moved, a, b, [](int64_t x, int64_t y) { return x ^ y; });
    case 4:
      return apply(a.moved.floorMod(divisor), a, a, [&](int64_t x, int64_t) { return floorMod(x, divisor); });
    case 5:
      return apply(a.moved.floorDiv(divisor), a, a,
                   [&](int64_t x, int64_t) { return (x - floorMod(x, divisor)) / divisor; });
    case 6:
      return apply(MovedNumber::isEqual(a.moved, b.moved), a, b, [](int64_t x, int64_t y) { return x == y; });
    case 7:
      return apply(MovedNumber::isLess(a.moved, b.moved), a, b, [](int64_t x, int64_t y) { return x < y; });
    case 8: { // as programs take a remainder that is never negative
      MovedNumber rest = a.moved.remainder(divisor, ++numConditions);
      MovedNumber moved = MovedNumber::select(MovedNumber::isLess(rest, 0), rest + divisor, rest);
      return apply(moved, a, a, [&](int64_t x, int64_t) { return floorMod(x, divisor); });
    }
    default: {
      Both condition = apply(MovedNumber::isLess(a.moved, b.moved), a, b, [](int64_t x, int64_t y) { return x < y; });
      MovedNumber moved = MovedNumber::select(condition.moved, a.moved, b.moved);
      return apply(moved, a, b, [](int64_t x, int64_t y) { return x < y ? x : y; });
    }
    }
  }

  int numKnown = 0, numMoved = 0;

private:
  static int32_t place(const Dim &dim, int32_t offset, int32_t amount) {
    if (dim.kind == Translation::Cyclic)
      return (offset + amount) % dim.size;
    if (dim.kind == Translation::Xor)
      return offset ^ amount;
    return offset == 0 ? amount : offset > amount ? offset : offset - 1;
  }
  static int64_t floorMod(int64_t value, int64_t divisor) { return ((value % divisor) + divisor) % divisor; }
  int64_t pick(std::initializer_list<int64_t> numbers) { return *(numbers.begin() + random() % numbers.size()); }

  template <typename Function> Both apply(const MovedNumber &moved, const Both &a, const Both &b, Function function) {
    Both result{moved, {}};
    for (size_t i = 0; i < translations.size(); ++i) {
      result.values.push_back(function(a.values[i], b.values[i]));
      if (std::optional<int64_t> value = moved.at(translations[i])) {
        EXPECT_EQ(*value, result.values.back());
        ++numKnown;
        numMoved += !moved.asConstant();
      }
    }
    if (std::optional<int64_t> constant = moved.asConstant()) {
      for (int64_t value : result.values)
        EXPECT_EQ(*constant, value);
    }
    return result;
  }

  std::vector<Dim> dims;
  std::mt19937 random;
  std::vector<std::vector<int32_t>> translations;
  MovedNumber::Condition numConditions = 0;
};

TEST(MovedNumbers, AreRightForEveryTranslation) {
  const std::vector<std::vector<Dim>> meshes = {{{Translation::Cyclic, 5}},
                                                {{Translation::Xor, 8}},
                                                {{Translation::Cyclic, 6}, {Translation::Cyclic, 4}},
                                                {{Translation::Xor, 4}, {Translation::Cyclic, 3}},
                                                {{Translation::ToFront, 7}},
                                                {{Translation::ToFront, 3}, {Translation::Cyclic, 4}}};
  for (const std::vector<Dim> &mesh : meshes) {
    Arithmetic arithmetic(mesh, 7);
    for (int i = 0; i < 4000 && !testing::Test::HasFailure(); ++i)
      arithmetic.make(1 + i % 4);
    EXPECT_GT(arithmetic.numKnown, 10000);
    EXPECT_GT(arithmetic.numMoved, 2000);
  }
}

TEST(MovedNumbers, MoveARankToTheFrontAndBack) {
  for (int32_t size : {1, 2, 3, 8})
    for (int32_t amount = 0; amount < size; ++amount) {
      EXPECT_EQ(translatePlace(Translation::ToFront, 0, amount, size, false), amount);
      int32_t before = -1;
      for (int32_t place = 0; place < size; ++place) {
        int32_t moved = translatePlace(Translation::ToFront, place, amount, size, false);
        EXPECT_EQ(translatePlace(Translation::ToFront, moved, amount, size, true), place);
        if (place > 0) // the others keep their order
          EXPECT_GT(moved, std::exchange(before, moved));
      }
    }
}

/// What rings, all pairs, trees and hypercubes compute.
TEST(MovedNumbers, KnowTheNumbersOfCollectives) {
  constexpr int32_t n = 12;
  MovedNumber me = MovedNumber::coordinate(0, Translation::Cyclic, n, 3);
  MovedNumber root = MovedNumber::coordinate(0, Translation::Cyclic, n, 0);
  auto coordinate = [](int32_t offset) { return MovedNumber::coordinate(0, Translation::Cyclic, n, offset); };
  auto modulo = [](const MovedNumber &number) {
    MovedNumber rest = number.remainder(n, 1);
    return MovedNumber::select(MovedNumber::isLess(rest, 0), rest + n, rest);
  };
  EXPECT_EQ(modulo(me + 1), coordinate(4));
  EXPECT_EQ(modulo(me - 5), coordinate(10));
  EXPECT_EQ((me - 100).floorMod(n), coordinate(11));
  EXPECT_EQ(modulo(me - root), MovedNumber(3));
  EXPECT_EQ(MovedNumber::isEqual(me, root), MovedNumber(0));
  EXPECT_EQ(MovedNumber::isEqual(me, coordinate(3)), MovedNumber(1));
  EXPECT_FALSE(MovedNumber::isLess(me, root).asConstant());
  MovedNumber bits = MovedNumber::coordinate(0, Translation::Xor, 16, 5);
  EXPECT_EQ(bits ^ 4, MovedNumber::coordinate(0, Translation::Xor, 16, 1));
  EXPECT_EQ(bits.floorDiv(4) * 4, MovedNumber::block(0, 16, 4, 2));
  EXPECT_FALSE((bits + 1 == MovedNumber::coordinate(0, Translation::Xor, 16, 6)));
}

} // namespace
} // namespace kolo
