// Symbolic expressions: construction and queries.
#include "dsl/Expression.h"

#include <algorithm>
#include <bit>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace kolo::dsl {

using Kind = Expression::Kind;

ExpressionRef makeLeaf(Kind kind, int64_t value, std::shared_ptr<const Relation> relation) {
  return std::make_shared<const Expression>(Expression{kind, value, std::move(relation)});
}

ExpressionRef makeExpression(Kind kind, std::vector<ExpressionRef> operands) {
  return std::make_shared<const Expression>(Expression{kind, 0, nullptr, std::move(operands)});
}

bool anyNode(const ExpressionRef &expression, const std::function<bool(const Expression &)> &predicate) {
  std::unordered_set<const Expression *> seen = {expression.get()};
  std::vector<const Expression *> open = {expression.get()};
  while (!open.empty()) {
    const Expression *node = open.back();
    open.pop_back();
    if (predicate(*node))
      return true;
    for (const ExpressionRef &operand : node->operands)
      if (seen.insert(operand.get()).second)
        open.push_back(operand.get());
  }
  return false;
}

bool dependsOnRank(const ExpressionRef &expression) {
  return anyNode(expression, [](const Expression &node) {
    return node.kind == Kind::Coordinate || node.kind == Kind::PeerCoordinate;
  });
}

std::optional<int64_t> combine(Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  const bool hasOverflown = kind == Kind::Add   ? __builtin_add_overflow(a, b, &result)
                            : kind == Kind::Sub ? __builtin_sub_overflow(a, b, &result)
                                                : __builtin_mul_overflow(a, b, &result);
  return hasOverflown ? std::nullopt : std::optional(result);
}

namespace {

class ConstantAdder {
public:
  bool isHuge(const ExpressionRef &expression) {
    (void)of(*expression);
    return hasOverflown;
  }

private:
  /// Of a number: the constant that it adds to a sum, and to a product. Both are all of it if it is constant.
  struct ConstantParts {
    int64_t term = 0, factor = 1;
    bool isConstant = false;
  };
  static ConstantParts whole(int64_t value) { return {value, value, true}; }

  ConstantParts of(const Expression &node) {
    if (auto found = known.find(&node); found != known.end())
      return found->second;
    return known[&node] = compute(node);
  }

  ConstantParts compute(const Expression &node) {
    if (node.kind == Kind::Constant)
      return whole(node.value);
    std::vector<ConstantParts> parts;
    for (const ExpressionRef &operand : node.operands)
      parts.push_back(of(*operand));
    if (node.kind == Kind::Pow2 && parts[0].isConstant && parts[0].term >= 0 && parts[0].term < 63)
      return whole(int64_t(1) << parts[0].term);
    if (node.kind != Kind::Add && node.kind != Kind::Sub && node.kind != Kind::Mul)
      return {};
    const bool isConstant = parts[0].isConstant && parts[1].isConstant;
    const bool isProduct = node.kind == Kind::Mul;
    const std::optional<int64_t> together = isProduct ? combine(node.kind, parts[0].factor, parts[1].factor)
                                                      : combine(node.kind, parts[0].term, parts[1].term);
    hasOverflown |= !together;
    const int64_t value = together.value_or(0);
    if (isConstant)
      return whole(value);
    return isProduct ? ConstantParts{0, value} : ConstantParts{value, 1};
  }

  std::unordered_map<const Expression *, ConstantParts> known;
  bool hasOverflown = false;
};

} // namespace

bool hasHugeConstants(const ExpressionRef &expression) { return ConstantAdder().isHuge(expression); }

static bool isSameNode(const Expression &a, const Expression &b) {
  return a.kind == b.kind && a.value == b.value && a.relation == b.relation && a.operands.size() == b.operands.size() &&
         (a.table == b.table || (a.table && b.table && *a.table == *b.table));
}

bool isSame(const ExpressionRef &a, const ExpressionRef &b) {
  std::set<std::pair<const Expression *, const Expression *>> seen; // each pair is looked at once
  std::vector<std::pair<const Expression *, const Expression *>> open = {{a.get(), b.get()}};
  while (!open.empty()) {
    auto [one, other] = open.back();
    open.pop_back();
    if (one == other || !seen.insert({one, other}).second)
      continue;
    if (!isSameNode(*one, *other))
      return false;
    for (size_t i = 0; i < one->operands.size(); ++i)
      open.emplace_back(one->operands[i].get(), other->operands[i].get());
  }
  return true;
}

Index Index::constant(int64_t value) { return Index(makeLeaf(Kind::Constant, value)); }

static ExpressionRef binary(Kind kind, const auto &a, const auto &b) {
  return makeExpression(kind, {a.expression(), b.expression()});
}

Index operator+(const Index &a, const Index &b) { return Index(binary(Kind::Add, a, b)); }
Index operator-(const Index &a, const Index &b) { return Index(binary(Kind::Sub, a, b)); }
Index operator*(const Index &a, const Index &b) { return Index(binary(Kind::Mul, a, b)); }
Index operator/(const Index &a, const Index &b) { return Index(binary(Kind::FloorDiv, a, b)); }
Index operator%(const Index &a, const Index &b) { return Index(binary(Kind::Mod, a, b)); }
Index operator^(const Index &a, const Index &b) { return Index(binary(Kind::Xor, a, b)); }
Index min(const Index &a, const Index &b) { return Index(binary(Kind::Min, a, b)); }
Index max(const Index &a, const Index &b) { return Index(binary(Kind::Max, a, b)); }
Index pow2(const Index &exponent) { return Index(makeExpression(Kind::Pow2, {exponent.expression()})); }
Index log2(const Index &value) { return Index(makeExpression(Kind::Log2, {value.expression()})); }

/// Calls `body` with base, base^2, ... below 2^62.
static void forEachPower(int64_t base, const std::function<void(int64_t power)> &body) {
  constexpr int64_t limit = int64_t(1) << 62;
  for (int64_t power = std::max<int64_t>(base, 2); power < limit; power *= base) {
    body(power);
    if (power > limit / std::max<int64_t>(base, 2))
      return;
  }
}

Index pow(int64_t base, const Index &exponent) {
  if (std::has_single_bit(uint64_t(base)))
    return pow2(std::countr_zero(uint64_t(base)) * exponent);
  Index result = 1, left = exponent;
  forEachPower(base, [&](int64_t) {
    result = result * (1 + (base - 1) * min(max(left, 0), 1));
    left = left - 1;
  });
  return result;
}

Index log(int64_t base, const Index &value) {
  if (std::has_single_bit(uint64_t(base)))
    return log2(value) / std::countr_zero(uint64_t(base));
  Index result = 0;
  forEachPower(base, [&](int64_t power) { result = result + min(value / power, 1); });
  return result;
}

Index reverseBits(const Index &value, const Index &numBits) {
  constexpr int mostBits = 20; // as many as a mesh has ranks
  Index result = 0, left = value;
  for (int bit = 0; bit < mostBits; ++bit) {
    result = 2 * result + left % 2;
    left = left / 2;
  }
  return result / pow2(mostBits - numBits);
}

Index Table::operator[](const Index &index) const {
  return Index(std::make_shared<const Expression>(Expression{Kind::Lookup, 0, nullptr, {index.expression()}, entries}));
}

Condition operator==(const Index &a, const Index &b) { return Condition(binary(Kind::Equal, a, b)); }
Condition operator!=(const Index &a, const Index &b) { return Condition(binary(Kind::NotEqual, a, b)); }
Condition operator<(const Index &a, const Index &b) { return Condition(binary(Kind::Less, a, b)); }
Condition operator<=(const Index &a, const Index &b) { return Condition(binary(Kind::LessEqual, a, b)); }
Condition operator>(const Index &a, const Index &b) { return b < a; }
Condition operator>=(const Index &a, const Index &b) { return b <= a; }
Condition operator&&(const Condition &a, const Condition &b) { return Condition(binary(Kind::And, a, b)); }
Condition operator||(const Condition &a, const Condition &b) { return Condition(binary(Kind::Or, a, b)); }
Condition operator!(const Condition &a) { return Condition(makeExpression(Kind::Not, {a.expression()})); }

} // namespace kolo::dsl
