// What flows take of resources. Used by FlowKinds, AlikeResources, FairRates and Simulator.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace kolo::cost {

/// What one byte of a flow takes of a resource.
struct ResourceUse {
  uint32_t resource;
  double load;         // bytes; more than 0
  double messages = 0; // of the whole flow; for those who make flows: only the load is shared
};

/// A number whose bits all depend on all of the given one's.
inline uint64_t mix(uint64_t bits) {
  bits = (bits ^ bits >> 32) * 0xff51afd7ed558ccd;
  bits = (bits ^ bits >> 32) * 0xc4ceb9fe1a85ec53;
  return bits ^ bits >> 32;
}

inline uint64_t hashOf(uint32_t resource, double load) {
  return mix(std::bit_cast<uint64_t>(load) ^ (resource + 1) * 0x9e3779b97f4a7c15);
}

/// The same for the same uses in any order.
inline uint64_t hashOf(std::span<const ResourceUse> uses) {
  uint64_t all = 0;
  for (const ResourceUse &use : uses)
    all += hashOf(use.resource, use.load);
  return all;
}

/// Whether the loads are the same on the same resources, in any order.
template <typename Use> bool areSame(std::span<const Use> uses, std::span<const ResourceUse> wanted) {
  auto areEqual = [](const Use &use, const ResourceUse &other) {
    return use.resource == other.resource && use.load == other.load;
  };
  for (size_t i = 0; i < uses.size() && uses.size() == wanted.size(); ++i)
    if (!areEqual(uses[i], wanted[i]) &&
        std::ranges::none_of(uses, [&](const Use &use) { return areEqual(use, wanted[i]); }))
      return false;
  return uses.size() == wanted.size();
}

} // namespace kolo::cost
