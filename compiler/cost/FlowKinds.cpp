#include "compiler/cost/FlowKinds.h"

#include <limits>
#include <utility>

namespace kolo::cost {

constexpr double farFromFull = 0.5;   // a resource that was contended, and is so no more
constexpr uint32_t farthestBound = 8; // in uses
constexpr size_t mostBounds = 32;     // of one resource; more do not bound it well

FlowKinds::FlowKinds(std::span<const double> bandwidths) {
  resources.reserve(bandwidths.size());
  for (double bandwidth : bandwidths)
    resources.push_back({bandwidth});
}

/// A use that sets its flow's cap: of several the nearest, which most flows of the resource share.
uint32_t FlowKinds::narrowestNear(uint32_t number) const {
  const Kind &kind = kinds[uses[number].kind];
  auto setsCap = [&](const Use &use) { return resources[use.resource].bandwidth <= use.load * kind.cap * (1 + 1e-9); };
  uint32_t before = number - kind.uses.first, after = kind.uses.size - 1 - before;
  for (uint32_t distance = 0; distance <= farthestBound; ++distance) {
    if (distance <= before && setsCap(uses[number - distance]))
      return number - distance;
    if (distance <= after && setsCap(uses[number + distance]))
      return number + distance;
  }
  return kind.narrowest;
}

/// Nothing where the use sets its flow's cap itself.
uint32_t FlowKinds::boundFor(uint32_t number) {
  uint32_t nearest = narrowestNear(number);
  if (nearest == number)
    return none;
  uint32_t narrower = uses[nearest].resource;
  double most = uses[number].load / uses[nearest].load * resources[narrower].bandwidth;
  PooledList &known = resources[uses[number].resource].bounds;
  for (uint32_t place = 0; place < known.size; ++place)
    if (const Bound &bound = bounds.of(known)[place]; bound.narrower == narrower && bound.most == most)
      return place;
  if (known.size == mostBounds)
    return none;
  bounds.push(known, {narrower, 0, most});
  return known.size - 1;
}

/// Adds what so many flows demand of the use's resource, or takes it away.
void FlowKinds::addDemand(const Use &use, double numFlows) {
  Resource &at = resources[use.resource];
  double demand = numFlows * use.load * kinds[use.kind].cap;
  if (!at.isBounded || use.bound == none) {
    at.demand += demand;
    return;
  }
  Bound &bound = bounds.of(at.bounds)[use.bound];
  double before = bound.bounded();
  bound.demand += demand;
  at.demand += bound.bounded() - before;
}

/// Counts the resource's bounds from here on.
void FlowKinds::bound(uint32_t number) {
  resources[number].isBounded = true;
  resources[number].demand = 0;
  for (uint32_t use = resources[number].firstUse; use != none; use = uses[use].next) {
    uses[use].bound = boundFor(use);
    addDemand(uses[use], kinds[uses[use].kind].numFlows);
  }
}

uint32_t FlowKinds::make(std::span<const ResourceUse> wanted) {
  if (freeKinds.empty()) {
    freeKinds.push_back(uint32_t(kinds.size()));
    kinds.emplace_back();
  }
  uint32_t number = freeKinds.back();
  freeKinds.pop_back();
  Kind &kind = kinds[number];
  kind = {std::numeric_limits<double>::infinity(), none, 0, uses.make(wanted.size()), none};
  uint32_t first = kind.uses.first, end = first;
  for (const ResourceUse &use : wanted) {
    Resource &at = resources[use.resource];
    if (double alone = at.bandwidth / use.load; alone < kind.cap) {
      kind.cap = alone;
      kind.narrowest = end;
    }
    uses[end] = {use.load, use.resource, number, at.firstUse, none, none};
    if (at.firstUse != none)
      uses[at.firstUse].previous = end;
    at.firstUse = end++;
  }
  for (uint32_t use = first; use < end; ++use)
    if (resources[uses[use].resource].isBounded)
      uses[use].bound = boundFor(use);
  return number;
}

void FlowKinds::clear(uint32_t number) {
  for (const Use &use : uses.of(kinds[number].uses)) {
    Resource &at = resources[use.resource];
    (use.previous == none ? at.firstUse : uses[use.previous].next) = use.next;
    if (use.next != none)
      uses[use.next].previous = use.previous;
    if (at.firstUse == none) { // no rounding error is carried along
      at.demand = 0;
      at.isBounded = false;
      at.bounds.size = 0;
    }
  }
  byHash.remove(number);
  uses.clear(kinds[number].uses);
  freeKinds.push_back(number);
}

uint32_t FlowKinds::add(std::span<const ResourceUse> wanted) {
  uint64_t hash = hashOf(wanted);
  uint32_t number =
      byHash.find(hash, [&](uint32_t kind) { return areSame(std::as_const(uses).of(kinds[kind].uses), wanted); });
  if (number == none) {
    number = make(wanted);
    byHash.add(hash, number);
  }
  ++kinds[number].numFlows;
  for (const Use &use : uses.of(kinds[number].uses)) {
    addDemand(use, 1);
    Resource &at = resources[use.resource];
    auto demandsTooMuch = [&] { return at.demand > at.bandwidth * (1 + 1e-9); };
    if (at.isContended || !demandsTooMuch())
      continue;
    if (!at.isBounded)
      bound(use.resource);
    if (!demandsTooMuch())
      continue;
    at.isContended = true;
    changed.push_back(use.resource);
  }
  return number;
}

void FlowKinds::remove(uint32_t number) {
  for (const Use &use : uses.of(kinds[number].uses)) {
    addDemand(use, -1);
    Resource &at = resources[use.resource];
    if (!at.isContended || at.demand >= at.bandwidth * farFromFull)
      continue;
    at.isContended = false;
    changed.push_back(use.resource);
  }
  if (--kinds[number].numFlows == 0)
    clear(number);
}

void FlowKinds::findContended(uint32_t kind, std::vector<ResourceUse> &found) const {
  found.clear();
  for (const Use &use : uses.of(kinds[kind].uses))
    if (const Resource &at = resources[use.resource]; at.isContended)
      found.push_back({at.number, use.load});
}

} // namespace kolo::cost
