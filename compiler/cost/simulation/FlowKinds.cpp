#include "compiler/cost/simulation/FlowKinds.h"

#include <limits>
#include <utility>

namespace kolo::cost {

constexpr double farFromFull = 0.5;   // a resource that was contended, and is so no more
constexpr size_t fewKinds = 256;      // that may all be idle
constexpr uint32_t farthestBound = 8; // in uses
constexpr size_t mostBounds = 32;     // of one resource; more do not bound it well

void FlowKinds::reserve(size_t numKinds) {
  constexpr size_t usesOfEach = 12;
  kinds.reserve(numKinds);
  groups.reserve(numKinds);
  byHash.reserve(numKinds);
  uses.reserve(numKinds * usesOfEach);
  alikeResources.reserve(numKinds);
}

/// A use that sets its flow's cap: of several the nearest, which most flows of the resource share.
uint32_t FlowKinds::narrowestNear(uint32_t number) const {
  const Kind &kind = kinds[uses[number].kind];
  uint32_t before = number - kind.uses.first, after = kind.uses.size - 1 - before;
  for (uint32_t distance = 0; distance <= farthestBound; ++distance) {
    if (distance <= before && uses[number - distance].setsCap)
      return number - distance;
    if (distance <= after && uses[number + distance].setsCap)
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
void FlowKinds::addDemand(const Use &use, int numFlows) {
  Resource &at = resources[use.resource];
  at.numFlows += uint32_t(numFlows);
  if (at.numFlows == 0) { // no rounding error is carried along
    at.demand = 0;
    at.isBounded = false;
    at.bounds.size = 0;
    return;
  }
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
  resources[number].numFlows = 0;
  for (uint32_t use = resources[number].firstUse; use != none; use = uses[use].next) {
    uses[use].bound = boundFor(use);
    if (uint32_t numFlows = kinds[uses[use].kind].numFlows; numFlows > 0)
      addDemand(uses[use], int(numFlows));
  }
}

/// Most resources of a large network have no flows.
uint32_t FlowKinds::numberOf(uint32_t resource) {
  uint32_t &number = numbers[resource];
  if (number == none) {
    number = uint32_t(resources.size());
    resources.push_back({bandwidths[resource]});
  }
  return number;
}

/// A kind with the uses of `wanted`.
uint32_t FlowKinds::make() {
  if (idleKinds.size() > std::max(fewKinds, size() / 4))
    clearIdle();
  if (freeKinds.empty()) {
    freeKinds.push_back(uint32_t(kinds.size()));
    kinds.emplace_back();
    groups.emplace_back();
  }
  uint32_t number = freeKinds.back();
  freeKinds.pop_back();
  Kind &kind = kinds[number];
  kind = {.cap = std::numeric_limits<double>::infinity(), .narrowest = none, .uses = uses.make(wanted.size())};
  groups[number] = none;
  uint32_t first = kind.uses.first, end = first;
  for (const ResourceUse &use : wanted) {
    Resource &at = resources[use.resource];
    if (double alone = at.bandwidth / use.load; alone < kind.cap) {
      kind.cap = alone;
      kind.narrowest = end;
    }
    uses[end] = {use.load, use.resource, number, at.firstUse, none, none, false};
    if (at.firstUse != none)
      uses[at.firstUse].previous = end;
    at.firstUse = end++;
  }
  for (Use &use : uses.of(kind.uses))
    use.setsCap = resources[use.resource].bandwidth <= use.load * kind.cap * (1 + 1e-9);
  alikeResources.addKind(number, kind.cap);
  for (uint32_t use = first; use < end; ++use) {
    const Resource &at = resources[uses[use].resource];
    if (at.isBounded)
      uses[use].bound = boundFor(use);
    if (at.isContended)
      alikeResources.addUse(number, at.alike, uses[use].load);
  }
  return number;
}

void FlowKinds::clear(uint32_t number) {
  for (const Use &use : uses.of(kinds[number].uses)) {
    Resource &at = resources[use.resource];
    (use.previous == none ? at.firstUse : uses[use.previous].next) = use.next;
    if (use.next != none)
      uses[use.next].previous = use.previous;
  }
  byHash.remove(number);
  uses.clear(kinds[number].uses);
  alikeResources.removeKind(number);
  freeKinds.push_back(number);
}

uint32_t FlowKinds::add(std::span<const ResourceUse> given) {
  wanted.clear();
  for (const ResourceUse &use : given)
    wanted.push_back({numberOf(use.resource), use.load});
  uint64_t hash = hashOf(wanted);
  uint32_t number = byHash.find(hash, [&](uint32_t kind) {
    return areSame(std::as_const(uses).of(kinds[kind].uses), std::span<const ResourceUse>(wanted));
  });
  if (number == none) {
    number = make();
    byHash.add(hash, number);
  }
  ++kinds[number].numFlows;
  alikeResources.addFlow(number);
  for (const Use &use : uses.of(kinds[number].uses)) {
    addDemand(use, 1);
    const Resource &at = resources[use.resource];
    auto demandsTooMuch = [&] { return at.demand > at.bandwidth * (1 + 1e-9); };
    if (at.isContended || !demandsTooMuch())
      continue;
    if (!at.isBounded)
      bound(use.resource);
    if (demandsTooMuch())
      contend(use.resource);
  }
  return number;
}

void FlowKinds::remove(uint32_t number) {
  for (const Use &use : uses.of(kinds[number].uses))
    addDemand(use, -1);
  alikeResources.removeFlow(number);
  if (--kinds[number].numFlows > 0)
    return;
  groups[number] = none;
  if (!std::exchange(kinds[number].isIdle, true))
    idleKinds.push_back(number);
}

/// Kinds without flows may soon have some again. So they are kept, until a quarter of all kinds are so.
void FlowKinds::clearIdle() {
  for (uint32_t number : idleKinds) {
    kinds[number].isIdle = false;
    if (kinds[number].numFlows == 0)
      clear(number);
  }
  idleKinds.clear();
}

void FlowKinds::contend(uint32_t number) {
  Resource &resource = resources[number];
  if (resource.alike == none)
    resource.alike = alikeResources.addResource(resource.bandwidth);
  alikeResources.enter(resource.alike);
  for (uint32_t use = resource.firstUse; use != none; use = uses[use].next)
    alikeResources.addUse(uses[use].kind, resource.alike, uses[use].load);
  resource.isContended = true;
  contended.push_back(number);
}

void FlowKinds::classify(bool anew) {
  if (!anew) {
    alikeResources.refine();
    return;
  }
  std::erase_if(contended, [&](uint32_t number) {
    Resource &resource = resources[number];
    if (resource.demand > resource.bandwidth * farFromFull)
      return false;
    resource.isContended = false;
    alikeResources.leave(resource.alike);
    return true;
  });
  alikeResources.findAnew();
}

} // namespace kolo::cost
