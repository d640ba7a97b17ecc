#include "Data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace kolo::bench {
namespace {

// A prime, so that no chunk is a multiple of it and a misplaced chunk is a wrong one.
constexpr int64_t period = 61;

using Pattern = std::array<float, period>;

Pattern patternOf(int rank) {
  Pattern pattern;
  for (int64_t at = 0; at < period; ++at)
    pattern[static_cast<size_t>(at)] = static_cast<float>((at * 3 + rank * 17) % period + 1);
  return pattern;
}

Pattern sumOfPatterns(int numRanks) {
  Pattern sum = {};
  for (int rank = 0; rank < numRanks; ++rank) {
    Pattern pattern = patternOf(rank);
    for (size_t at = 0; at < sum.size(); ++at)
      sum[at] += pattern[at];
  }
  return sum;
}

#define KOLO_NAME(CONSTANT, ENUMERATOR, NAME, ...) NAME,
constexpr const char *names[] = {KOLO_FOR_EACH_COLLECTIVE(KOLO_NAME)};
#undef KOLO_NAME

struct Expected {
  Pattern pattern;
  int64_t first; // place in its rank's input
};

/// Where the input of the rank that gives the block begins with what this one takes.
int64_t placeInInput(const Cell &cell, int64_t block, int rank) {
  return cell.blocks ? cell.blocks->placeInInput(static_cast<int>(block), rank) : rank * cell.count;
}

/// What a block of the output must be.
Expected expectedBlock(const Cell &cell, int64_t block, int rank, int numRanks) {
  switch (cell.collective) {
  case Collective::AllReduce:
    return {sumOfPatterns(numRanks), 0};
  case Collective::AllGather:
    return {patternOf(static_cast<int>(block)), 0};
  case Collective::ReduceScatter:
    return {sumOfPatterns(numRanks), placeInInput(cell, 0, rank)};
  case Collective::AllToAll:
    return {patternOf(static_cast<int>(block)), placeInInput(cell, block, rank)};
  case Collective::Broadcast:
    return {patternOf(0), 0};
  }
  return {};
}

} // namespace

Cell shapeOf(Collective collective, int64_t sizeBytes, int numRanks) {
  int64_t numElements = std::max<int64_t>(1, sizeBytes / static_cast<int64_t>(sizeof(float)));
  int64_t part = std::max<int64_t>(1, numElements / numRanks);
  switch (collective) {
  case Collective::AllReduce:
  case Collective::Broadcast:
    return {collective, numElements, numElements, numElements};
  case Collective::AllGather:
    return {collective, part, part, part * numRanks};
  case Collective::ReduceScatter:
    return {collective, part, part * numRanks, part};
  case Collective::AllToAll:
    return {collective, part, part * numRanks, part * numRanks};
  }
  return {};
}

Cell shapeOf(const Command &command, int numRanks, int rank) {
  using enum Collective;
  if (command.distribution == Distribution::None)
    return shapeOf(command.collective, command.sizeBytes, numRanks);
  if (command.collective != AllGather && command.collective != ReduceScatter && command.collective != AllToAll)
    throw Failure(std::string(toString(command.collective)) + " has no blocks");
  const int64_t numElements = std::max<int64_t>(1, command.sizeBytes / static_cast<int64_t>(sizeof(float)));
  const CountMatrix blocks(command.collective, command.distribution, numElements, numRanks);
  const Tables tables = blocks.tablesOf(rank);
  auto sum = [](const std::vector<int> &counts) { return std::accumulate(counts.begin(), counts.end(), int64_t(0)); };
  return {command.collective, 0, sum(tables.inputCounts), sum(tables.outputCounts), tables, blocks};
}

std::optional<Collective> parseCollective(const std::string &name) {
  using enum Collective;
  for (Collective collective : {AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast})
    if (name == toString(collective))
      return collective;
  return std::nullopt;
}

const char *toString(Collective collective) { return names[static_cast<size_t>(collective)]; }

void fillInput(float *input, int64_t numElements, int rank) {
  Pattern pattern = patternOf(rank);
  for (int64_t at = 0; at < numElements; at += period)
    std::copy_n(pattern.begin(), std::min(period, numElements - at), input + at);
}

void poisonOutput(const Cell &cell, const float *input, float *output, int rank) {
  if (cell.collective == Collective::Broadcast && rank == 0)
    std::memcpy(output, input, static_cast<size_t>(cell.numOutput) * sizeof(float));
  else
    std::fill_n(output, cell.numOutput, std::numeric_limits<float>::quiet_NaN());
}

/// Elements of a block of the output, and where it begins.
static std::pair<int64_t, int64_t> extentOf(const Cell &cell, int64_t block) {
  if (!cell.tables)
    return {cell.count, block * cell.count};
  return {cell.tables->outputCounts[static_cast<size_t>(block)], cell.tables->outputPlaces[static_cast<size_t>(block)]};
}

std::optional<std::string> findMistake(const Cell &cell, const float *output, int rank, int numRanks) {
  const int64_t numBlocks = cell.tables ? static_cast<int64_t>(cell.tables->outputCounts.size())
                                        : cell.numOutput / std::max<int64_t>(cell.count, 1);
  for (int64_t block = 0; block < numBlocks; ++block) {
    Expected expected = expectedBlock(cell, block, rank, numRanks);
    const auto [count, place] = extentOf(cell, block);
    int64_t phase = expected.first % period;
    for (int64_t at = 0; at < count; ++at, phase = phase + 1 == period ? 0 : phase + 1)
      if (output[place + at] != expected.pattern[static_cast<size_t>(phase)])
        return "wrong result: rank " + std::to_string(rank) + " has " + std::to_string(output[place + at]) +
               " at element " + std::to_string(place + at) + ", not " +
               std::to_string(expected.pattern[static_cast<size_t>(phase)]);
  }
  return std::nullopt;
}

} // namespace kolo::bench
