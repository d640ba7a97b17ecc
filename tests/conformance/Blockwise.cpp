// Algorithms that have blocks.
#include "Blockwise.h"

namespace kolo::conformance {

std::vector<std::string> blockwiseAlgorithmNames() {
  std::vector<std::string> names = test::algorithmNames();
  std::erase_if(names, [](const std::string &name) { return !test::isBlockwise(name); });
  return names;
}

std::vector<std::string> tabledAlgorithmNames() { return test::tabledOf(test::algorithmNames()); }

std::vector<std::string> packetTabledNames() { return test::tabledOf(packetAlgorithmNames()); }

std::vector<std::string> publishingTabledNames() { return test::tabledOf(publishingAlgorithmNames()); }

} // namespace kolo::conformance
