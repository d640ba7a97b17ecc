// Ranks and relations.
#include "dsl/Recording.h"

namespace kolo::dsl {

using Kind = Expression::Kind;

Index::Index(const Dim &dim) : Index(dim.size()) {}

Index Dim::size() const { return Index(makeLeaf(Kind::DimSize, dimNumber)); }

Index Rank::operator[](const Dim &dim) const {
  if (!relation)
    return Index(makeLeaf(Kind::Coordinate, dim.number()));
  // A fixed coordinate is known to everybody, not only to the statement that sends there.
  if (size_t(dim.number()) < relation->steps.size() && relation->steps[dim.number()].kind == Step::Kind::At)
    return Index(relation->steps[dim.number()].amount);
  return Index(makeLeaf(Kind::PeerCoordinate, dim.number(), relation));
}

static std::shared_ptr<const Relation> extend(const std::shared_ptr<const Relation> &base, size_t numDims,
                                              const Dim &dim, Step step, const std::string &name) {
  auto result = base ? std::make_shared<Relation>(*base) : std::make_shared<Relation>();
  result->steps.resize(numDims);
  if (dim.number() < 0 || size_t(dim.number()) >= numDims) {
    result->mistakes.push_back(name + " goes along a dimension that the mesh does not have");
    return result;
  }
  if (result->steps[dim.number()].kind != Step::Kind::Keep)
    result->mistakes.push_back(name + " goes along a dimension that the relation already goes along");
  if (step.amount && dependsOnRank(step.amount))
    result->mistakes.push_back(name + " depends on a coordinate of the sender, so the relation has no inverse");
  result->steps[dim.number()] = std::move(step);
  return result;
}

static size_t numDims(const Recording &recording) { return recording.definition.mesh.dims.size(); }

Rank Rank::next(const Dim &dim, const Index &distance) const {
  return {recording,
          extend(relation, numDims(*recording), dim, {Step::Kind::Next, distance.expression()}, "next(dim, distance)")};
}

Rank Rank::flip(const Dim &dim, const Index &mask) const {
  return {recording,
          extend(relation, numDims(*recording), dim, {Step::Kind::Flip, mask.expression()}, "flip(dim, mask)")};
}

Rank Rank::others(const Dim &dim) const {
  return {recording, extend(relation, numDims(*recording), dim, {Step::Kind::Others}, "others(dim)")};
}

Rank Rank::at(const Dim &dim, const Index &coordinate) const {
  return {recording,
          extend(relation, numDims(*recording), dim, {Step::Kind::At, coordinate.expression()}, "at(dim, coordinate)")};
}

Rank Rank::mapped(const Dim &dim, std::vector<int64_t> table) const {
  std::vector<bool> seen(table.size(), false);
  bool isPermutation = true;
  for (int64_t entry : table) {
    bool isNew = entry >= 0 && size_t(entry) < table.size() && !seen[size_t(entry)];
    isPermutation &= isNew;
    if (isNew)
      seen[size_t(entry)] = true;
  }
  auto result = extend(relation, numDims(*recording), dim, {Step::Kind::Mapped, nullptr, std::move(table)}, "mapped");
  if (isPermutation)
    return {recording, result};
  auto mistaken = std::make_shared<Relation>(*result);
  mistaken->mistakes.push_back("mapped(dim, table) needs a permutation of 0 to size - 1; this table has no inverse");
  return {recording, mistaken};
}

Condition operator==(const Rank &a, const Rank &b) {
  ExpressionRef result;
  for (int dim : a.recording->groupDims) {
    Dim d = Choreography(*a.recording).dim(a.recording->definition.mesh.dims[size_t(dim)]);
    ExpressionRef equal = (a[d] == b[d]).expression();
    result = result ? makeExpression(Kind::And, {result, equal}) : equal;
  }
  return Condition(result);
}

} // namespace kolo::dsl
