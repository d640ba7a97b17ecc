// Algorithms that have blocks, and how long these are.
#include "Blockwise.h"

#include "ir/BlockTables.h"

namespace kolo::conformance {

Counts drawCounts(Distribution distribution, size_t number, int64_t most, std::mt19937_64 &random) {
  Counts counts(number, 0);
  const size_t chosen = random() % number;
  for (size_t i = 0; i < number; ++i)
    switch (distribution) {
    case Distribution::Equal:
      counts[i] = most;
      break;
    case Distribution::Random:
      counts[i] = random() % 4 == 0 ? 0 : int64_t(random() % uint64_t(most + 1));
      break;
    case Distribution::Zipf:
      counts[i] = most / int64_t((i + chosen) % number + 1);
      break;
    case Distribution::OneHot:
      counts[i] = i == chosen ? most : 0;
      break;
    case Distribution::AllZero:
      break;
    case Distribution::OneHuge:
      counts[i] = i == chosen ? most : int64_t(random() % 5);
      break;
    }
  return counts;
}

std::vector<std::string> refusingAlgorithmNames() {
  return {"binomialGather", "binomialScatter", "bruckAllToAll", "patAllGather", "patReduceScatter", "twoLevelAllToAll"};
}

static bool hasBlocks(const std::string &name) {
  return mayHaveBlockTables(CollectiveKind(int(definitionOf(name).collective.kind)));
}

bool isRefusing(const std::string &name) { return llvm::is_contained(refusingAlgorithmNames(), name); }

std::vector<std::string> blockwiseAlgorithmNames() {
  std::vector<std::string> names = test::algorithmNames();
  std::erase_if(names, [](const std::string &name) { return !hasBlocks(name); });
  return names;
}

static std::vector<std::string> tabledOf(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string &name) { return !hasBlocks(name) || isRefusing(name); });
  return names;
}

std::vector<std::string> tabledAlgorithmNames() { return tabledOf(test::algorithmNames()); }

std::vector<std::string> packetTabledNames() { return tabledOf(packetAlgorithmNames()); }

std::vector<std::string> publishingTabledNames() { return tabledOf(publishingAlgorithmNames()); }

} // namespace kolo::conformance
