#include "call/BlockTables.h"

#include "base/Error.h"

#include <algorithm>
#include <numeric>

namespace kolo::runtime {
namespace {

/// The group of a rank: ranks that differ along the dimensions of the collective alone.
struct Group {
  int64_t size = 1;
  int64_t number = 0; // of the rank in it
  int64_t first = 0;  // its rank with number 0
};

Group groupOf(const Call &call, int rank) {
  Group group;
  int64_t strides[KOLO_MAX_MESH_DIMS], stride = 1;
  for (int dim = KOLO_MAX_MESH_DIMS; dim-- > 0; stride *= call.dimSizes[dim])
    strides[dim] = stride;
  group.first = rank;
  for (int index : call.info->groupDims) {
    auto dim = static_cast<size_t>(index);
    int64_t coordinate = rank / strides[dim] % call.dimSizes[dim];
    group.size *= call.dimSizes[dim];
    group.number = group.number * call.dimSizes[dim] + coordinate;
    group.first -= coordinate * strides[dim];
  }
  return group;
}

int memberOf(const Call &call, const Group &group, int64_t number) {
  int64_t strides[KOLO_MAX_MESH_DIMS], stride = 1, rank = group.first;
  for (int dim = KOLO_MAX_MESH_DIMS; dim-- > 0; stride *= call.dimSizes[dim])
    strides[dim] = stride;
  for (size_t i = call.info->groupDims.size(); i-- > 0;) {
    auto dim = static_cast<size_t>(call.info->groupDims[i]);
    rank += number % call.dimSizes[dim] * strides[dim];
    number /= call.dimSizes[dim];
  }
  return static_cast<int>(rank);
}

/// Elements that the member with this number gives to another one, by its own table; -1: it gives it no block.
int64_t givenTo(const Call &call, int64_t self, int64_t other) {
  const CollectiveFacts facts = factsOf(call.info->collective);
  if ((isAtRoot(facts.input) && self != call.root) || (isAtRoot(facts.output) && other != call.root))
    return -1;
  return call.tables->counts[KOLO_INPUT][static_cast<size_t>(isPerRank(facts.input) ? other : 0)];
}

int64_t takenFrom(const Call &call, int64_t self, int64_t other) {
  const CollectiveFacts facts = factsOf(call.info->collective);
  if ((isAtRoot(facts.output) && self != call.root) || (isAtRoot(facts.input) && other != call.root))
    return -1;
  return call.tables->counts[KOLO_OUTPUT][static_cast<size_t>(isPerRank(facts.output) ? other : 0)];
}

uint64_t mix(uint64_t value) { // the finalizer of splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// A block as one of its ranks knows it, in one number: its elements, and whether its rows land where a list of the
/// output says. Both of its ranks must have the same. -1: there is no block.
int64_t announced(int64_t count, bool isListed) { return isListed && count > 0 ? -2 - count : count; }
int64_t countOf(int64_t block) { return block < -1 ? -2 - block : block; }

int64_t announcedGiven(const Call &call, int64_t self, int64_t other) {
  return announced(givenTo(call, self, other), call.tables->hasLanding);
}
int64_t announcedTaken(const Call &call, int64_t self, int64_t other) {
  return announced(takenFrom(call, self, other), call.tables->hasOutputList);
}

/// Of a block, so that sums over blocks are equal if all blocks are.
uint64_t digestOf(int64_t giver, int64_t taker, int64_t block) {
  return mix(mix(mix(static_cast<uint64_t>(giver)) + static_cast<uint64_t>(taker)) + static_cast<uint64_t>(block));
}

CountDigests digestsOf(const Call &call, const Group &group) {
  CountDigests digests;
  for (int64_t other = 0; other < group.size; ++other) {
    if (int64_t block = announcedGiven(call, group.number, other); block != -1)
      digests.given += digestOf(group.first + group.number, group.first + other, block);
    if (int64_t block = announcedTaken(call, group.number, other); block != -1)
      digests.taken += digestOf(group.first + other, group.first + group.number, block);
  }
  return digests;
}

/// Adds a block to the bytes of its buffer. InvalidArgument.
Status addBlock(const char *role, size_t block, int64_t count, int64_t place, int64_t elementBytes, int64_t &end) {
  int64_t last = 0, numBytes = 0;
  if (count < 0)
    return error(StatusCode::InvalidArgument, "block {} of the {} has {} elements", block, role, count);
  if (place < 0)
    return error(StatusCode::InvalidArgument, "block {} of the {} begins at element {}", block, role, place);
  if (__builtin_add_overflow(place, count, &last) || __builtin_mul_overflow(last, elementBytes, &numBytes))
    return error(StatusCode::InvalidArgument, "block {} of the {} ends beyond 2^63 bytes", block, role);
  if (count > 0)
    end = std::max(end, numBytes);
  return {};
}

Status takeTable(const BlockTable &given, size_t role, int64_t numBlocks, int64_t elementBytes, CallTables &tables) {
  const char *name = roleNames[role];
  const auto number = static_cast<size_t>(numBlocks);
  std::vector<int64_t> &counts = tables.counts[role], &places = tables.places[role];
  if (given.counts.size() != number)
    return error(StatusCode::InvalidArgument, "the table of the {} has {} counts, for {} blocks on this rank", name,
                 given.counts.size(), number);
  if (!given.places.empty() && given.places.size() != number)
    return error(StatusCode::InvalidArgument, "the table of the {} has {} places, for {} blocks on this rank", name,
                 given.places.size(), number);
  counts.assign(given.counts.begin(), given.counts.end());
  places.assign(given.places.begin(), given.places.end());
  int64_t next = 0;
  for (size_t block = 0; block < number; ++block) {
    if (given.places.empty())
      places.push_back(next);
    if (Status status = addBlock(name, block, counts[block], places[block], elementBytes, tables.numBytes[role]);
        !status.isOk())
      return status;
    if (__builtin_add_overflow(next, counts[block], &next))
      return error(StatusCode::InvalidArgument, "the counts of the {} are together beyond 2^63", name);
    tables.longest = std::max(tables.longest, counts[block]);
  }
  tables.numElements[role] = next;
  return {};
}

/// Blocks that are written must not overlap.
Status checkOverlap(const CallTables &tables) {
  const std::vector<int64_t> &counts = tables.counts[KOLO_OUTPUT], &places = tables.places[KOLO_OUTPUT];
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::erase_if(order, [&](size_t block) { return counts[block] == 0; });
  std::ranges::sort(order, {}, [&](size_t block) { return places[block]; });
  for (size_t i = 1; i < order.size(); ++i)
    if (places[order[i - 1]] + counts[order[i - 1]] > places[order[i]])
      return error(StatusCode::InvalidArgument, "blocks {} and {} of the output overlap",
                   std::min(order[i - 1], order[i]), std::max(order[i - 1], order[i]));
  return {};
}

/// Where the input lies in the output if a call is in place, in elements; nothing: such a call cannot be.
std::optional<int64_t> inPlaceElements(const CollectiveFacts &facts, const Group &group, const CallTables &tables) {
  const auto &[input, output] = tables.places;
  const auto own = static_cast<size_t>(group.number);
  if (isPerRank(facts.input) && isPerRank(facts.output))
    return tables.counts[KOLO_INPUT] == tables.counts[KOLO_OUTPUT] && input == output ? std::optional<int64_t>(0)
                                                                                      : std::nullopt;
  if (isPerRank(facts.output))
    return output.empty() ? std::nullopt : std::optional(output[own] - input[0]);
  return input.empty() || output.empty() ? std::nullopt : std::optional(output[0] - input[own]);
}

} // namespace

Status takeTables(const BlockTables &given, const CallArguments &arguments, Call &call) {
  const CollectiveFacts facts = factsOf(call.info->collective);
  const Group group = groupOf(call, call.rank);
  auto tables = std::make_shared<CallTables>();
  const std::pair<const BlockTable *, int64_t> roles[] = {{&given.input, call.extent.input},
                                                          {&given.output, call.extent.output}};
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    if (Status status = takeTable(*roles[role].first, role, roles[role].second, call.elementBytes, *tables);
        !status.isOk())
      return status;
  if (Status status = checkOverlap(*tables); !status.isOk())
    return status;
  tables->inPlaceElements = inPlaceElements(facts, group, *tables);
  tables->hasLanding = arguments.rows && !arguments.rows->landing.empty();
  tables->hasOutputList = arguments.rows && !arguments.rows->output.empty();
  call.inputBytes = static_cast<size_t>(tables->numBytes[KOLO_INPUT]);
  call.outputBytes = static_cast<size_t>(tables->numBytes[KOLO_OUTPUT]);
  call.tables = std::move(tables);
  call.key.hasTables = true;
  call.digests = digestsOf(call, group);
  call.setPointers(arguments);
  return arguments.rows ? Status() : call.checkPointers(); // of buffers of rows: see RowLists.cpp
}

bool areCountsAlike(std::span<const CountDigests> digests) {
  CountDigests sum;
  for (const CountDigests &each : digests) {
    sum.given += each.given;
    sum.taken += each.taken;
  }
  return sum.given == sum.taken;
}

int64_t numDistances(const Call &call) { return groupOf(call, call.rank).size; }

std::array<int64_t, 2> countsAtDistance(const Call &call, int rank, int64_t distance) {
  const Group group = groupOf(call, rank);
  return {announcedGiven(call, group.number, (group.number + distance) % group.size),
          announcedTaken(call, group.number, (group.number + group.size - distance) % group.size)};
}

/// Mismatch, if giver and taker have two different numbers for a block.
static Status compareSides(const Call &call, int giver, int64_t distance, int64_t given, int64_t taken) {
  const Group group = groupOf(call, giver);
  const int taker = memberOf(call, group, (group.number + distance) % group.size);
  if (countOf(given) != countOf(taken))
    return rankError(StatusCode::Mismatch, taker,
                     "ranks disagree on a block: rank {} gives {} elements to rank {}, which takes {}", giver,
                     countOf(given), taker, countOf(taken));
  if (given != taken)
    return rankError(StatusCode::Mismatch, taker,
                     "ranks disagree on row lists: rank {} gives a block to rank {} {} landing rows, and that rank has "
                     "{} list of its output",
                     giver, taker, given < -1 ? "with" : "without", taken < -1 ? "a" : "no");
  return {};
}

Status compareCounts(const Call &call, std::span<const std::array<int64_t, 2>> all, int64_t distance) {
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    const Group group = groupOf(call, rank);
    const int taker = memberOf(call, group, (group.number + distance) % group.size);
    if (Status status =
            compareSides(call, rank, distance, all[static_cast<size_t>(rank)][0], all[static_cast<size_t>(taker)][1]);
        !status.isOk())
      return status;
  }
  return {};
}

CountDigests digestsIn(const Call &call, int rank, const BlockRange &range) {
  const Group group = groupOf(call, rank);
  auto isGiver = [&](int giver) { return giver >= range.firstGiver && giver < range.endGiver; };
  CountDigests digests;
  for (int64_t distance = range.firstDistance; distance < range.endDistance; ++distance) {
    const int64_t after = (group.number + distance) % group.size;
    const int64_t before = (group.number + group.size - distance) % group.size;
    if (int64_t block = announcedGiven(call, group.number, after); block != -1 && isGiver(rank))
      digests.given += digestOf(group.first + group.number, group.first + after, block);
    if (int64_t block = announcedTaken(call, group.number, before);
        block != -1 && isGiver(memberOf(call, group, before)))
      digests.taken += digestOf(group.first + before, group.first + group.number, block);
  }
  return digests;
}

std::array<int64_t, 2> countsOfBlock(const Call &call, int rank, const BlockRange &range) {
  const Group group = groupOf(call, rank);
  const int64_t before = (group.number + group.size - range.firstDistance) % group.size;
  const std::array<int64_t, 2> counts = countsAtDistance(call, rank, range.firstDistance);
  return {rank == range.firstGiver ? counts[0] : 0, memberOf(call, group, before) == range.firstGiver ? counts[1] : 0};
}

Status compareBlock(const Call &call, const BlockRange &range, const std::array<int64_t, 2> &counts) {
  return compareSides(call, range.firstGiver, range.firstDistance, counts[0], counts[1]);
}

} // namespace kolo::runtime
