// Rounds: how hosts tell each other something, so that each hears of all in the fewest rounds.
//
// In round k, host h sends to host h + 2^k, modulo the number of hosts, what it has gathered so far. After round k it
// knows of the hosts h, h - 1, ... h - 2^(k+1) + 1. So H hosts need ceil(log2 H) rounds, and each host sends one
// message in each. The last round carries only what the receiver still misses: each host hears of each other once.
// Source: Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, IJPP 1988; Bruck et al., TPDS 1997.
#pragma once

#include <algorithm>
#include <bit>

namespace kolo::runtime {

struct Rounds {
  int numHosts = 1;

  int number() const { return std::bit_width(static_cast<unsigned>(numHosts - 1)); }
  int target(int host, int round) const { return (host + (1 << round)) % numHosts; }
  int source(int host, int round) const { return (host + numHosts - (1 << round)) % numHosts; }
  /// A message of this round is about so many hosts: the sender, and those before it.
  int numCarried(int round) const { return std::min(1 << round, numHosts - (1 << round)); }
  /// The host that is so many places before this one.
  int before(int host, int distance) const { return (host + numHosts - distance) % numHosts; }
};

} // namespace kolo::runtime
