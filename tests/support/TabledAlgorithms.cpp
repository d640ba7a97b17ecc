#include "tests/support/TabledAlgorithms.h"

#include "tests/support/Algorithms.h"

#include "ir/BlockTables.h"

namespace kolo::test {

bool isBlockwise(const std::string &name) {
  return mayHaveBlockTables(CollectiveKind(int(definitionOf(name).collective.kind)));
}

std::vector<std::string> refusingAlgorithmNames() {
  return {"binomialGather", "binomialScatter", "bruckAllToAll", "patAllGather", "patReduceScatter", "twoLevelAllToAll"};
}

bool isRefusing(const std::string &name) { return llvm::is_contained(refusingAlgorithmNames(), name); }

std::vector<std::string> tabledOf(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string &name) { return !isBlockwise(name) || isRefusing(name); });
  return names;
}

} // namespace kolo::test
