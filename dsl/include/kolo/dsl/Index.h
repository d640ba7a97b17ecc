// Symbolic integers and conditions, which choreographies compute with: their leaves are coordinates, loop indices,
// sizes of mesh dimensions and the root, known only when the collective runs.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace kolo::dsl {

class Dim;
struct Expression; // dsl/Expression.h, private

/// A symbolic integer of 64 bits. Copying shares the expression; it is never modified.
/// Division rounds towards minus infinity, and a remainder by a positive number is never negative.
class Index {
public:
  template <std::integral T> Index(T value) : Index(constant(static_cast<int64_t>(value))) {}
  Index(const Dim &dim); ///< The size of the dimension.
  explicit Index(std::shared_ptr<const Expression> node) : node(std::move(node)) {}

  const std::shared_ptr<const Expression> &expression() const { return node; }

private:
  static Index constant(int64_t value);
  std::shared_ptr<const Expression> node;
};

/// A constant table of integers, to be looked up by symbolic numbers: `Table ring({0, 1, 5, 4}); out[ring[me[d]]]`.
/// Copying shares the entries.
class Table {
public:
  Table(std::vector<int64_t> entries) : entries(std::make_shared<const std::vector<int64_t>>(std::move(entries))) {}

  /// The entry at an index, which must be 0 to size - 1 on every rank, also where a `when` around it does not hold.
  Index operator[](const Index &index) const;

private:
  std::shared_ptr<const std::vector<int64_t>> entries;
};

/// A symbolic truth value: of every rank, none of which exists yet.
class Condition {
public:
  template <typename Never = void> operator bool() const {
    static_assert(!std::is_void_v<Never>, "a condition of the ranks is no bool: write c.when(condition, [&] { ... })");
    return false;
  }
  explicit Condition(std::shared_ptr<const Expression> node) : node(std::move(node)) {}
  const std::shared_ptr<const Expression> &expression() const { return node; }

private:
  std::shared_ptr<const Expression> node;
};

Index operator+(const Index &a, const Index &b);
Index operator-(const Index &a, const Index &b);
Index operator*(const Index &a, const Index &b);
Index operator/(const Index &a, const Index &b);
Index operator%(const Index &a, const Index &b);
Index operator^(const Index &a, const Index &b);
Index min(const Index &a, const Index &b);
Index max(const Index &a, const Index &b);
Index pow2(const Index &exponent); ///< 2 to the power of 0 <= exponent < 63.
Index log2(const Index &value);    ///< The largest k with pow2(k) <= value, for value >= 1.
/// `base`, at least 2, to the power of an exponent of at least 0; the power is below 2^62.
Index pow(int64_t base, const Index &exponent);
/// The largest k with pow(base, k) <= value, for value >= 1.
Index log(int64_t base, const Index &value);
/// The lowest `numBits` bits of a value of at least 0, in reverse order; 0 <= numBits <= 20.
Index reverseBits(const Index &value, const Index &numBits);

Condition operator==(const Index &a, const Index &b);
Condition operator!=(const Index &a, const Index &b);
Condition operator<(const Index &a, const Index &b);
Condition operator<=(const Index &a, const Index &b);
Condition operator>(const Index &a, const Index &b);
Condition operator>=(const Index &a, const Index &b);
Condition operator&&(const Condition &a, const Condition &b);
Condition operator||(const Condition &a, const Condition &b);
Condition operator!(const Condition &a);

} // namespace kolo::dsl
