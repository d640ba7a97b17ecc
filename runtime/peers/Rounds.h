// Rounds: how hosts tell each other something, so that each hears of all in the fewest rounds, and of each once.
//
// Before round k, host h knows of the m hosts before it, h - 1 to h - m. In round k it hears of as many more, or of one
// more than that, from the host that is m or m + 1 places before it. The numbers m are the leading bits of H - 1, so
// after the last round it knows of all others. H hosts need ceil(log2 H) rounds. No host hears of another one twice, so
// what is added up along the way is exact.
// Source: Bar-Noy, Kipnis and Schieber, An optimal algorithm for computing census functions in message-passing systems,
// Parallel Processing Letters 1993.
#pragma once

#include <bit>

namespace kolo::runtime {

struct Rounds {
  int numHosts = 1;

  int number() const { return std::bit_width(static_cast<unsigned>(numHosts - 1)); }
  /// So many hosts before it a host knows of before this round.
  int numKnown(int round) const { return (numHosts - 1) >> (number() - round); }
  /// Whether a message of this round is about its sender, too.
  bool carriesSender(int round) const { return numKnown(round + 1) % 2 != 0; }
  int target(int host, int round) const { return (host + distance(round)) % numHosts; }
  int source(int host, int round) const { return (host + numHosts - distance(round)) % numHosts; }
  /// A message of this round is about the hosts that are so many places before its sender, from the first to the last.
  int firstCarried(int round) const { return carriesSender(round) ? 0 : 1; }
  int lastCarried(int round) const { return numKnown(round); }
  /// The host that is so many places before this one.
  int before(int host, int places) const { return (host + numHosts - places) % numHosts; }

private:
  int distance(int round) const { return numKnown(round) + (carriesSender(round) ? 1 : 0); }
};

} // namespace kolo::runtime
