// Algorithms that have blocks.
#include "Blockwise.h"

namespace kolo::conformance {

bool takesTables(const std::string &name, const Schedule &schedule) {
  if (name == "bruckAllToAll") // it keeps blocks on their way in the output, where others belong
    return false;
  // By their names: whether ranks read forwarded blocks of the input of a peer, if that is left to the compiler.
  static const std::map<std::string, bool> forwarding = {{"binomialGather", false},
                                                         {"binomialScatter", true},
                                                         {"patAllGather", false},
                                                         {"patReduceScatter", false},
                                                         {"twoLevelAllToAll", false}};
  const auto found = forwarding.find(name);
  if (found == forwarding.end() || schedule.protocol == Protocol::Published)
    return true;
  const bool pullsInput = schedule.transfers == Transfers::Pull
                              ? found->second || name == "twoLevelAllToAll"
                              : found->second && schedule.transfers == Schedule().transfers;
  return schedule.protocol == Schedule().protocol && !pullsInput;
}

std::vector<std::string> blockwiseAlgorithmNames() {
  std::vector<std::string> names = test::algorithmNames();
  std::erase_if(names, [](const std::string &name) { return !test::isBlockwise(name); });
  return names;
}

static std::vector<std::string> tabledOf(std::vector<std::string> names, const Schedule &schedule) {
  std::erase_if(names,
                [&](const std::string &name) { return !test::isBlockwise(name) || !takesTables(name, schedule); });
  return names;
}

std::vector<std::string> packetTabledNames() { return tabledOf(packetAlgorithmNames(), {.protocol = Protocol::LL}); }

std::vector<std::string> publishingTabledNames() {
  return tabledOf(publishingAlgorithmNames(), {.protocol = Protocol::Published});
}

} // namespace kolo::conformance
