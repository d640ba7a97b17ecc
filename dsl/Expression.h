// Nodes of symbolic expressions, which share their parts: whoever goes through one looks at every node once, since the
// paths to a node may be more than can be counted. Private to dsl/.
#pragma once

#include <kolo/dsl/Index.h>

#include <functional>
#include <optional>
#include <vector>

namespace kolo::dsl {

struct Relation;

struct Expression {
  enum class Kind {
    Constant,       // value
    DimSize,        // value: number of the dimension
    Coordinate,     // of the executing rank; value: number of the dimension
    PeerCoordinate, // of the peers of `relation`; value: number of the dimension
    Root,           // number of the root in its group
    LoopIndex,      // value: number of the loop
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Xor,
    Min,
    Max,
    Pow2,
    Log2,
    Lookup, // of the operand in `table`
    Equal,
    NotEqual,
    Less,
    LessEqual,
    And,
    Or,
    Not
  };
  Kind kind;
  int64_t value = 0;
  std::shared_ptr<const Relation> relation = nullptr;
  std::vector<std::shared_ptr<const Expression>> operands = {};
  std::shared_ptr<const std::vector<int64_t>> table = nullptr;
};

using ExpressionRef = std::shared_ptr<const Expression>;

ExpressionRef makeExpression(Expression::Kind kind, std::vector<ExpressionRef> operands);
ExpressionRef makeLeaf(Expression::Kind kind, int64_t value, std::shared_ptr<const Relation> relation = nullptr);

/// Whether `predicate` holds for any node.
bool anyNode(const ExpressionRef &expression, const std::function<bool(const Expression &)> &predicate);
bool dependsOnRank(const ExpressionRef &expression);
/// The sum, difference or product. Nothing: it is beyond 64 bits.
std::optional<int64_t> combine(Expression::Kind kind, int64_t a, int64_t b);
/// Whether constants of a sum or a product in it are together beyond 64 bits. Passes that put constants together would
/// make another number of them.
bool hasHugeConstants(const ExpressionRef &expression);
/// Structural equality, node by node.
bool isSame(const ExpressionRef &a, const ExpressionRef &b);

} // namespace kolo::dsl
