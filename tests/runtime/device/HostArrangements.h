// Ranks on several hosts, which KOLO_HOSTID makes of processes of one.
#pragma once

#include "device/Member.h"

#include <functional>
#include <string>
#include <vector>

namespace kolo::test {

inline std::string alternating(int rank) { return "host" + std::to_string(rank % 2); }

struct Arrangement {
  const char *name;
  int numRanks;
  HostOf hostOf;
};
inline const Arrangement twoHosts = {"two hosts", 2, alone}, pairsOfRanks = {"two hosts of two", 4, pairs};
inline const Arrangement fourHosts = {"four hosts", 4, alone};
inline const Arrangement arrangements[] = {twoHosts, pairsOfRanks, fourHosts};

inline std::string onDevices(const Arrangement &ranks, const RankBody &body, int timeoutMs = 15000,
                             const std::function<void(const std::vector<int> &)> &meanwhile = {}) {
  (void)devicePlugin();
  return onHosts(ranks.numRanks, ranks.hostOf, {.timeoutMs = timeoutMs}, guardedBody(body), meanwhile);
}

} // namespace kolo::test
