#include "Oracle.h"

#include <numeric>

namespace kolo::race {

using enum runtime::CollectiveKind;

int CallShape::numRanks() const {
  int64_t number = 1;
  for (int64_t size : mesh)
    number *= size;
  return static_cast<int>(number);
}

int CallShape::groupSize() const {
  int64_t number = 1;
  for (int dim : groupDims)
    number *= mesh[static_cast<size_t>(dim)];
  return static_cast<int>(number);
}

bool CallShape::isRooted() const { return kind == Broadcast || kind == Reduce || kind == Gather || kind == Scatter; }

std::vector<int64_t> CallShape::coordinates(int rank) const {
  std::vector<int64_t> result(mesh.size());
  int64_t rest = rank;
  for (size_t dim = mesh.size(); dim-- > 0; rest /= mesh[dim])
    result[dim] = rest % mesh[dim];
  return result;
}

int CallShape::groupRank(int rank) const {
  std::vector<int64_t> where = coordinates(rank);
  int64_t number = 0;
  for (int dim : groupDims)
    number = number * mesh[static_cast<size_t>(dim)] + where[static_cast<size_t>(dim)];
  return static_cast<int>(number);
}

std::vector<int> CallShape::members(int rank) const {
  auto outside = [&](int other) {
    std::vector<int64_t> where = coordinates(other);
    for (int dim : groupDims)
      where[static_cast<size_t>(dim)] = 0;
    return where;
  };
  std::vector<int> result(static_cast<size_t>(groupSize()));
  for (int other = 0; other < numRanks(); ++other)
    if (outside(other) == outside(rank))
      result[static_cast<size_t>(groupRank(other))] = other;
  return result;
}

int64_t CallShape::inputElements(int rank) const {
  bool isWhole = kind == ReduceScatter || kind == AllToAll || kind == Scatter;
  bool isUsed = (kind != Broadcast && kind != Scatter) || isRoot(rank);
  return !isUsed ? 0 : isWhole ? groupSize() * count : count;
}

int64_t CallShape::outputElements(int rank) const {
  bool isWhole = kind == AllGather || kind == AllToAll || kind == Gather;
  bool isUsed = (kind != Reduce && kind != Gather) || isRoot(rank);
  return !isUsed ? 0 : isWhole ? groupSize() * count : count;
}

int64_t CallShape::inPlaceOffset(int rank) const {
  if (kind == AllGather || kind == Gather)
    return groupRank(rank) * count;
  return kind == ReduceScatter || kind == Scatter ? -groupRank(rank) * count : 0;
}

int32_t CallShape::input(int rank, int64_t index, int number) {
  return static_cast<int32_t>((rank * 7919 + index * 31 + number * 1009) % 65521 + 1);
}

std::vector<int32_t> CallShape::output(int rank, int number) const {
  const std::vector<int> ranks = members(rank);
  const int64_t own = groupRank(rank) * count;
  auto from = [&](int64_t member, int64_t at) { return input(ranks[static_cast<size_t>(member)], at, number); };
  auto sum = [&](int64_t at) {
    return std::accumulate(ranks.begin(), ranks.end(), 0,
                           [&](int32_t total, int member) { return total + input(member, at, number); });
  };
  auto element = [&](int64_t index) -> int32_t {
    int64_t block = index / count, within = index % count;
    switch (kind) {
    case AllGather:
    case Gather:
      return from(block, within);
    case AllToAll:
      return from(block, own + within);
    case Broadcast:
      return from(root, index);
    case Scatter:
      return from(root, own + index);
    case AllReduce:
    case Reduce:
      return sum(index);
    case ReduceScatter:
      return sum(own + index);
    }
    return 0;
  };
  std::vector<int32_t> result(static_cast<size_t>(outputElements(rank)));
  for (size_t index = 0; index < result.size(); ++index)
    result[index] = element(static_cast<int64_t>(index));
  return result;
}

} // namespace kolo::race
