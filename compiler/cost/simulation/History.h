// Which statements the time up to some moment went to, along the chain of events that led there. Used by Simulator.
#pragma once

#include <cstdint>
#include <vector>

namespace kolo::cost {

/// Chains share their beginnings. Consecutive times of one statement are one link, so that a chain is as long as its
/// statements alternate, and what no chain needs any more is used again.
class History {
public:
  using Chain = uint32_t;
  static constexpr Chain empty = 0;

  struct Link {
    Chain earlier;
    uint32_t statement;
    double seconds, latencySeconds; // the second is a part of the first
    uint32_t numOwners;
  };

  History() : links(1) {}
  void reserve(size_t numLinks) { links.reserve(numLinks); }

  Chain share(Chain chain) {
    ++links[chain].numOwners;
    return chain;
  }
  void release(Chain chain) {
    while (chain != empty && --links[chain].numOwners == 0) {
      free.push_back(chain);
      chain = links[chain].earlier;
    }
  }
  /// Takes over the caller's share of `chain`, and gives one of the longer chain.
  Chain extend(Chain chain, uint32_t statement, double seconds, bool isLatency) {
    double latency = isLatency ? seconds : 0;
    if (chain == empty || links[chain].statement != statement)
      return add({chain, statement, seconds, latency, 1});
    if (links[chain].numOwners == 1) {
      links[chain].seconds += seconds;
      links[chain].latencySeconds += latency;
      return chain;
    }
    Link link = links[chain];
    Chain longer = add({share(link.earlier), statement, link.seconds + seconds, link.latencySeconds + latency, 1});
    release(chain);
    return longer;
  }

  const Link &operator[](Chain chain) const { return links[chain]; }

private:
  Chain add(const Link &link) {
    if (free.empty()) {
      links.push_back(link);
      return Chain(links.size() - 1);
    }
    Chain chain = free.back();
    free.pop_back();
    links[chain] = link;
    return chain;
  }

  std::vector<Link> links; // the first stands for the empty chain
  std::vector<Chain> free;
};

} // namespace kolo::cost
