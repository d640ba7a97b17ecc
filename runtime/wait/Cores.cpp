#include "wait/Cores.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::runtime {
namespace {

/// Gives a core to one lane after the other, and moves earlier lanes to other cores where that helps. This is bipartite
/// matching by augmenting paths (H. W. Kuhn, 1955).
class Seating {
public:
  explicit Seating(std::span<const cpu_set_t> allowedCores) : allowed(allowedCores), holder(CPU_SETSIZE, nobody) {}

  bool seat(size_t rank) {
    tried.assign(CPU_SETSIZE, false);
    return findCore(rank);
  }

private:
  static constexpr size_t nobody = SIZE_MAX;

  // The recursion is at most as deep as there are cores, because it tries none twice.
  bool findCore(size_t rank) {
    for (size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &allowed[rank]) || tried[core])
        continue;
      tried[core] = true;
      if (holder[core] != nobody && !findCore(holder[core]))
        continue;
      holder[core] = rank;
      return true;
    }
    return false;
  }

  std::span<const cpu_set_t> allowed;
  std::vector<size_t> holder; // by core: the rank whose lane has it
  std::vector<bool> tried;
};

} // namespace

cpu_set_t currentAffinity() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
    CPU_SET(0, &cores); // unknown: assume one core, which is slow at worst
  return cores;
}

std::vector<cpu_set_t> coresOfJob(std::span<const cpu_set_t> ofCommunicator, size_t numRanks) {
  std::vector<cpu_set_t> all(ofCommunicator.begin(), ofCommunicator.end());
  const bool areFree = std::ranges::all_of(all, [&](const cpu_set_t &each) { return CPU_EQUAL(&each, &all.front()); });
  if (areFree && !all.empty() && numRanks > all.size())
    all.resize(numRanks, cpu_set_t(all.front()));
  return all;
}

bool haveOwnCores(std::span<const cpu_set_t> allowed, int lanesPerRank) {
  Seating seating(allowed);
  for (size_t rank = 0; rank < allowed.size(); ++rank)
    for (int lane = 0; lane < lanesPerRank; ++lane)
      if (!seating.seat(rank))
        return false;
  return true;
}

} // namespace kolo::runtime
