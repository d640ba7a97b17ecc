#include "Blocks.h"

#include <algorithm>
#include <numeric>

namespace kolo::test {

DeviceBlocks::DeviceBlocks(const DeviceCall &call, Distribution distribution, bool withPlaces, std::mt19937_64 &random)
    : elementBytes(runtime::sizeBytes(call.type)), wholeBytes(size_t(call.count) * elementBytes),
      hasPlaces(withPlaces) {
  const auto size = size_t(call.groupSize());
  const auto numRanks = size_t(call.mesh.numRanks());
  matrices.resize(numRanks);
  for (size_t rank = 0; rank < numRanks; ++rank) {
    const auto first = size_t(call.groupOf(int(rank)).front());
    matrices[rank] = first == rank ? drawCounts(distribution, size * size, call.count, random) : matrices[first];
  }
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    for (size_t rank = 0; rank < numRanks; ++rank)
      draw(call, role, int(rank), random);
}

void DeviceBlocks::draw(const DeviceCall &call, size_t role, int rank, std::mt19937_64 &random) {
  const runtime::CollectiveFacts facts = runtime::factsOf(call.collective);
  const bool isInput = role == KOLO_INPUT, isForEach = runtime::isPerRank(facts.input);
  const KoloExtent extent = isInput ? facts.input : facts.output;
  const std::vector<int> group = call.groupOf(rank);
  const auto size = group.size(), self = size_t(std::ranges::find(group, rank) - group.begin());
  const DrawnCounts &matrix = matrices[size_t(rank)];
  std::vector<int64_t> &ownCounts = counts[role].emplace_back(), &ownPlaces = places[role].emplace_back();
  const bool isHere = !runtime::isAtRoot(extent) || self == size_t(call.root);
  for (size_t block = 0; isHere && block < (runtime::isPerRank(extent) ? size : 1); ++block) {
    const size_t other = runtime::isPerRank(extent) ? block : self;
    const size_t giver = isInput ? self : other, taker = isInput ? other : self;
    if (call.collective == runtime::CollectiveKind::AllToAll)
      ownCounts.push_back(matrix[giver * size + taker]);
    else
      ownCounts.push_back(matrix[isForEach ? taker : giver]);
  }
  std::vector<size_t> order(ownCounts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  if (hasPlaces)
    std::ranges::shuffle(order, random);
  ownPlaces.resize(order.size());
  int64_t next = 0;
  for (size_t block : order) {
    next += hasPlaces ? int64_t(random() % 20) : 0;
    ownPlaces[block] = next;
    next += ownCounts[block];
  }
  sizes[role].push_back(size_t(next) * elementBytes);
}

runtime::BlockTables DeviceBlocks::tablesOf(size_t rank) const {
  runtime::BlockTables tables;
  for (auto [role, table] : {std::pair(KOLO_INPUT, &tables.input), {KOLO_OUTPUT, &tables.output}}) {
    table->counts = counts[role][rank];
    if (hasPlaces)
      table->places = places[role][rank];
  }
  return tables;
}

size_t DeviceBlocks::sizeBytes(size_t role, size_t rank) const { return sizes[role][rank]; }

Bytes DeviceBlocks::placed(size_t role, size_t rank, const Bytes &whole) const {
  Bytes bytes(sizeBytes(role, rank), poison);
  for (size_t block = 0; block < counts[role][rank].size(); ++block)
    std::copy_n(whole.begin() + ptrdiff_t(block * wholeBytes), size_t(counts[role][rank][block]) * elementBytes,
                bytes.begin() + ptrdiff_t(size_t(places[role][rank][block]) * elementBytes));
  return bytes;
}

std::string DeviceBlocks::check(const DeviceCall &call, const std::vector<Bytes> &inputs, int rank,
                                const Bytes &actual) const {
  const std::optional<Bytes> whole = expectedOutput(call, inputs, rank);
  const Bytes expected = whole ? placed(KOLO_OUTPUT, size_t(rank), *whole) : Bytes(actual.size(), poison);
  if (expected.size() != actual.size())
    return "the output of rank " + std::to_string(rank) + " has a wrong size; ";
  const auto differs = size_t(std::ranges::mismatch(actual, expected).in1 - actual.begin());
  if (differs == actual.size())
    return "";
  return "element " + std::to_string(differs / elementBytes) + " of the output of rank " + std::to_string(rank) +
         " is not what the tables say; ";
}

} // namespace kolo::test
