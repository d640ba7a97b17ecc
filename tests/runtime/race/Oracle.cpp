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

int64_t CallShape::blockCount(int64_t giver, int64_t taker) const {
  if (!hasTables)
    return count;
  const bool isTakers = hasBlocks(KOLO_INPUT), isGivers = hasBlocks(KOLO_OUTPUT);
  const int64_t share = (isTakers ? 5 * taker : 0) + (isGivers ? 3 * giver : 0);
  return count * (share % 4) / 3;
}

/// Whether the buffer has a block for each member of the group.
bool CallShape::hasBlocks(size_t role) const {
  return role == KOLO_INPUT ? kind == ReduceScatter || kind == AllToAll || kind == Scatter
                            : kind == AllGather || kind == AllToAll || kind == Gather;
}

std::vector<int64_t> CallShape::counts(size_t role, int rank) const {
  const bool isInput = role == KOLO_INPUT, isAtRoot = kind == (isInput ? Scatter : Gather);
  const int64_t own = groupRank(rank);
  std::vector<int64_t> result;
  if ((isAtRoot || (kind == (isInput ? Broadcast : Reduce))) && !isRoot(rank))
    return result;
  if (kind == Exscan && !isInput && own == 0)
    return result;
  if (!hasBlocks(role))
    return {blockCount(own, own)};
  for (int64_t other = 0; other < groupSize(); ++other)
    result.push_back(isInput ? blockCount(own, other) : blockCount(other, own));
  return result;
}

std::vector<int64_t> CallShape::places(size_t role, int rank) const {
  std::vector<int64_t> result = counts(role, rank);
  std::exclusive_scan(result.begin(), result.end(), result.begin(), int64_t(0));
  return result;
}

int64_t CallShape::elements(size_t role, int rank) const {
  const std::vector<int64_t> all = counts(role, rank);
  return std::accumulate(all.begin(), all.end(), int64_t(0));
}

int64_t CallShape::inputElements(int rank) const { return elements(KOLO_INPUT, rank); }

int64_t CallShape::outputElements(int rank) const { return elements(KOLO_OUTPUT, rank); }

int64_t CallShape::inPlaceOffset(int rank) const {
  const auto own = static_cast<size_t>(groupRank(rank));
  auto placeOf = [&](size_t role) { // also where the rank has no such buffer
    int64_t place = 0;
    for (size_t other = 0; other < own; ++other)
      place += role == KOLO_INPUT ? blockCount(groupRank(rank), static_cast<int64_t>(other))
                                  : blockCount(static_cast<int64_t>(other), groupRank(rank));
    return place;
  };
  if (kind == AllGather || kind == Gather)
    return placeOf(KOLO_OUTPUT);
  return kind == ReduceScatter || kind == Scatter ? -placeOf(KOLO_INPUT) : 0;
}

int64_t CallShape::placeInInput(int64_t giver, int64_t taker) const {
  int64_t place = 0;
  for (int64_t other = 0; hasBlocks(KOLO_INPUT) && other < taker; ++other)
    place += blockCount(giver, other);
  return place;
}

int32_t CallShape::input(int rank, int64_t index, int number) {
  return static_cast<int32_t>((rank * 7919 + index * 31 + number * 1009) % 65521 + 1);
}

std::vector<int32_t> CallShape::output(int rank, int number) const {
  const std::vector<int> ranks = members(rank);
  const int64_t own = groupRank(rank);
  const bool isPrefix = kind == Scan || kind == Exscan;
  const bool isSum = kind == AllReduce || kind == Reduce || kind == ReduceScatter || isPrefix;
  const int64_t numGivers = isPrefix ? own + (kind == Scan) : groupSize();
  auto from = [&](int64_t giver, int64_t within) {
    return input(ranks[static_cast<size_t>(giver)], placeInInput(giver, own) + within, number);
  };
  std::vector<int32_t> result;
  const std::vector<int64_t> blocks = counts(KOLO_OUTPUT, rank);
  for (size_t block = 0; block < blocks.size(); ++block)
    for (int64_t within = 0; within < blocks[block]; ++within) {
      int32_t value = 0;
      if (isSum)
        for (int64_t giver = 0; giver < numGivers; ++giver)
          value += from(giver, within);
      else
        value = from(hasBlocks(KOLO_OUTPUT) ? static_cast<int64_t>(block) : root, within);
      result.push_back(value);
    }
  return result;
}

} // namespace kolo::race
