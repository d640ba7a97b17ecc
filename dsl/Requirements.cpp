// Which sizes of the mesh a choreography is for.
#include "dsl/Recording.h"

#include <algorithm>
#include <bit>
#include <map>

namespace kolo::dsl {

using Kind = Expression::Kind;

namespace {

/// The value of an expression of sizes. Nothing where there is none: a division by 0, a power or a table's entry that
/// does not exist, a number beyond 64 bits.
class SizeEvaluator {
public:
  explicit SizeEvaluator(const std::vector<int64_t> &sizes) : sizes(sizes) {}

  std::optional<int64_t> evaluate(const Expression &expression) {
    if (auto known = values.find(&expression); known != values.end())
      return known->second;
    std::vector<int64_t> operands;
    for (const ExpressionRef &operand : expression.operands) {
      std::optional<int64_t> value = evaluate(*operand);
      if (!value)
        return std::nullopt;
      operands.push_back(*value);
    }
    return values[&expression] = operands.empty() ? leaf(expression) : apply(expression, operands);
  }

private:
  std::optional<int64_t> leaf(const Expression &expression) const {
    return expression.kind == Kind::DimSize ? sizes[size_t(expression.value)] : expression.value;
  }

  static std::optional<int64_t> apply(const Expression &expression, const std::vector<int64_t> &operands) {
    const int64_t a = operands.front(), b = operands.back();
    switch (expression.kind) {
    case Kind::FloorDiv:
    case Kind::Mod: {
      if (b <= 0)
        return std::nullopt;
      const bool isBelow = a % b < 0;
      return expression.kind == Kind::Mod ? a % b + (isBelow ? b : 0) : a / b - (isBelow ? 1 : 0);
    }
    case Kind::Pow2:
      return a >= 0 && a < 63 ? std::optional(int64_t(1) << a) : std::nullopt;
    case Kind::Log2:
      return a >= 1 ? std::optional<int64_t>(std::bit_width(uint64_t(a)) - 1) : std::nullopt;
    case Kind::Lookup:
      return a >= 0 && size_t(a) < expression.table->size() ? std::optional((*expression.table)[size_t(a)])
                                                            : std::nullopt;
    case Kind::Add:
    case Kind::Sub:
    case Kind::Mul:
      return combine(expression.kind, a, b);
    default:
      return total(expression.kind, a, b);
    }
  }

  /// Of the operations that have a value for all operands.
  static int64_t total(Kind kind, int64_t a, int64_t b) {
    switch (kind) {
    case Kind::Xor:
      return a ^ b;
    case Kind::Min:
      return std::min(a, b);
    case Kind::Max:
      return std::max(a, b);
    case Kind::Equal:
      return a == b;
    case Kind::NotEqual:
      return a != b;
    case Kind::Less:
      return a < b;
    case Kind::LessEqual:
      return a <= b;
    case Kind::And:
      return a && b;
    case Kind::Or:
      return a || b;
    default:
      return !a;
    }
  }

  const std::vector<int64_t> &sizes;
  std::map<const Expression *, std::optional<int64_t>> values;
};

} // namespace

const Requirement *findUnmet(const Recording &recording, const std::vector<int64_t> &sizes) {
  SizeEvaluator evaluator(sizes);
  for (const Requirement &requirement : recording.requirements)
    if (evaluator.evaluate(*requirement.condition).value_or(0) == 0)
      return &requirement;
  return nullptr;
}

std::string describeUnmet(const Recording &recording, const Requirement &unmet, const std::vector<int64_t> &sizes) {
  std::string mesh;
  for (size_t i = 0; i < sizes.size(); ++i)
    mesh += (i ? "," : "") + recording.definition.mesh.dims[i] + "=" + std::to_string(sizes[i]);
  return recording.definition.name + " needs " + unmet.what + ", which " + mesh + " is not";
}

} // namespace kolo::dsl
