#include "tests/support/TabledAlgorithms.h"

#include "tests/support/Algorithms.h"

#include "ir/BlockTables.h"

namespace kolo::test {

bool isBlockwise(const std::string &name) {
  return mayHaveBlockTables(CollectiveKind(int(definitionOf(name).collective.kind)));
}

std::vector<std::string> forwardingAlgorithmNames() {
  return {"binomialGather", "binomialScatter", "bruckAllToAll", "patAllGather", "patReduceScatter", "twoLevelAllToAll"};
}

static bool isForwarding(const std::string &name) { return llvm::is_contained(forwardingAlgorithmNames(), name); }

std::vector<std::string> tabledOnDevices(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string &name) { return !isBlockwise(name) || isForwarding(name); });
  return names;
}

} // namespace kolo::test
