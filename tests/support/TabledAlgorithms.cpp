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

/// On the meshes of tests of devices the checker takes no tables for these: they move chunks of other blocks than those
/// that say how long they are.
static bool movesOtherBlocks(const std::string &name) { return name == "bineAllGather" || name == "bineReduceScatter"; }

std::vector<std::string> tabledOnDevices(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string &name) {
    return !isBlockwise(name) || isForwarding(name) || movesOtherBlocks(name);
  });
  return names;
}

} // namespace kolo::test
