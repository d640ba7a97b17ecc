#include "compiler/cost/FlowSharing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace kolo::cost {

constexpr double farFromFull = 0.5;   // a resource that was contended, and is so no more
constexpr uint32_t farthestBound = 8; // in uses
constexpr size_t mostBounds = 32;     // of one resource; more do not bound it well

FlowSharing::FlowSharing(std::span<const double> bandwidths)
    : resources(bandwidths.size()), members(bandwidths.size()), freeUses(32) {
  for (size_t number = 0; number < bandwidths.size(); ++number)
    resources[number].bandwidth = bandwidths[number];
}

/// Room for so many uses that follow each other.
uint32_t FlowSharing::allocateUses(size_t number) {
  size_t room = std::bit_ceil(number);
  std::vector<uint32_t> &free = freeUses[size_t(std::countr_zero(room))];
  if (free.empty()) {
    uses.resize(uses.size() + room);
    return uint32_t(uses.size() - room);
  }
  uint32_t first = free.back();
  free.pop_back();
  return first;
}

void FlowSharing::markDirty(uint32_t number) {
  if (resources[number].isDirty)
    return;
  resources[number].isDirty = true;
  dirty.push_back(number);
}

/// A use in the range that sets its flow's cap: of several the nearest, which most flows of the resource share.
uint32_t FlowSharing::narrowestNear(uint32_t number, uint32_t end) const {
  const Flow &flow = flows[uses[number].flow];
  auto setsCap = [&](const Use &use) { return resources[use.resource].bandwidth <= use.load * flow.cap * (1 + 1e-9); };
  uint32_t before = number - flow.firstUse, after = end - 1 - number;
  for (uint32_t distance = 0; distance <= farthestBound; ++distance) {
    if (distance <= before && setsCap(uses[number - distance]))
      return number - distance;
    if (distance <= after && setsCap(uses[number + distance]))
      return number + distance;
  }
  return flow.narrowest;
}

/// Nothing where the use sets its flow's cap itself.
uint32_t FlowSharing::boundFor(uint32_t number, uint32_t end) {
  uint32_t nearest = narrowestNear(number, end);
  if (nearest == number)
    return none;
  uint32_t narrower = uses[nearest].resource;
  double most = uses[number].load / uses[nearest].load * resources[narrower].bandwidth;
  std::vector<Bound> &bounds = members[uses[number].resource].bounds;
  auto found = std::ranges::find_if(
      bounds, [&](const Bound &bound) { return bound.narrower == narrower && bound.most == most; });
  if (found != bounds.end())
    return uint32_t(found - bounds.begin());
  if (bounds.size() == mostBounds)
    return none;
  bounds.push_back({narrower, 0, most});
  return uint32_t(bounds.size() - 1);
}

/// Adds what the use demands of its resource, or takes it away.
void FlowSharing::addDemand(const Use &use, double sign) {
  Members &at = members[use.resource];
  double demand = sign * use.load * flows[use.flow].cap;
  if (use.bound == none) {
    at.demand += demand;
    return;
  }
  Bound &bound = at.bounds[use.bound];
  double before = bound.bounded();
  bound.demand += demand;
  at.demand += bound.bounded() - before;
}

void FlowSharing::swapUses(uint32_t first, uint32_t second) {
  std::swap(uses[first], uses[second]);
  for (uint32_t use : {first, second})
    members[uses[use].resource].all[uses[use].position].use = use;
}

void FlowSharing::setContended(uint32_t number, bool isContended) {
  Resource &resource = resources[number];
  resource.isContended = isContended;
  resource.load = 0;
  for (const Member &member : members[number].all) {
    Flow &flow = flows[member.flow];
    uint32_t use = member.use;
    resource.load += uses[use].load * flow.rate;
    swapUses(use, flow.firstUse + (isContended ? flow.numContended++ : --flow.numContended));
  }
  markDirty(number);
}

uint32_t FlowSharing::start(double bytes, std::span<const ResourceUse> wanted) {
  if (freeFlows.empty()) {
    freeFlows.push_back(uint32_t(flows.size()));
    flows.emplace_back();
  }
  uint32_t number = freeFlows.back();
  freeFlows.pop_back();
  Flow &flow = flows[number];
  flow = {};
  flow.remaining = bytes;
  flow.cap = std::numeric_limits<double>::infinity();
  flow.firstUse = allocateUses(wanted.size());
  flow.numUses = uint16_t(wanted.size());
  flow.bottleneck = none;
  uint32_t end = flow.firstUse;
  for (const ResourceUse &use : wanted) {
    uses[end++] = {use.load, number, use.resource, 0, none};
    if (double alone = resources[use.resource].bandwidth / use.load; alone < flow.cap) {
      flow.cap = alone;
      flow.narrowest = end - 1;
    }
  }
  for (uint32_t use = flow.firstUse; use < end; ++use) {
    std::vector<Member> &all = members[uses[use].resource].all;
    uses[use].bound = boundFor(use, end);
    uses[use].position = uint32_t(all.size());
    all.push_back({use, number});
    addDemand(uses[use], 1);
  }
  flow.narrowest = uses[flow.narrowest].resource; // uses change their places from here on
  for (uint32_t use = flow.firstUse; use < end; ++use)
    if (resources[uses[use].resource].isContended)
      swapUses(use, flow.firstUse + flow.numContended++);
  for (const ResourceUse &use : wanted) {
    const Resource &resource = resources[use.resource];
    if (!resource.isContended && members[use.resource].demand > resource.bandwidth * (1 + 1e-9))
      setContended(use.resource, true);
    else if (resource.isContended && isFull(resource, resource.load))
      markDirty(use.resource);
  }
  started.push_back(number);
  return number;
}

void FlowSharing::end(uint32_t number) {
  Flow &flow = flows[number];
  for (uint32_t i = flow.firstUse; i < flow.firstUse + flow.numUses; ++i) {
    const Use &use = uses[i];
    Resource &resource = resources[use.resource];
    Members &at = members[use.resource];
    if (resource.isContended && isFull(resource, resource.load))
      markDirty(use.resource);
    Member last = at.all.back();
    at.all[use.position] = last;
    uses[last.use].position = use.position;
    at.all.pop_back();
    addDemand(use, -1);
    resource.load -= use.load * flow.rate;
    if (at.all.empty()) { // no rounding error is carried along
      at.demand = resource.load = 0;
      at.bounds.clear();
      resource.isContended = false;
    }
  }
  for (uint32_t i = flow.firstUse; i < flow.firstUse + flow.numUses; ++i)
    if (uint32_t use = uses[i].resource;
        resources[use].isContended && members[use].demand < resources[use].bandwidth * farFromFull)
      setContended(use, false);
  freeUses[size_t(std::countr_zero(std::bit_ceil(size_t(flow.numUses))))].push_back(flow.firstUse);
  freeFlows.push_back(number);
}

void FlowSharing::join(uint32_t number) {
  Flow &flow = flows[number];
  if (isFilled(flow))
    return;
  flow.round = round;
  flow.index = uint32_t(filled.size());
  filled.push_back({number, 0, none});
}

void FlowSharing::joinLimitedBy(uint32_t number) {
  for (const Member &member : members[number].all)
    if (flows[member.flow].bottleneck == number)
      join(member.flow);
}

/// All that resources connect with the flows so far: enough in any case.
void FlowSharing::joinAllConnected() {
  ++pass;
  for (size_t next = 0; next < filled.size(); ++next) {
    for (const Use &use : contendedUses(flows[filled[next].flow])) {
      Resource &resource = resources[use.resource];
      if (resource.round == pass)
        continue;
      resource.round = pass;
      for (const Member &member : members[use.resource].all)
        join(member.flow);
    }
  }
}

/// Counts what the other flows leave of every resource.
void FlowSharing::prepare() {
  ++pass;
  reached.clear();
  for (const Filled &member : filled) {
    Flow &flow = flows[member.flow];
    flow.isFixed = false;
    for (const Use &use : contendedUses(flow)) {
      Resource &resource = resources[use.resource];
      if (resource.round != pass) {
        resource.round = pass;
        resource.left = resource.bandwidth - resource.load;
        resource.weight = 0;
        resource.numOpen = 0;
        resource.isLimit = false;
        reached.push_back(use.resource);
      }
      resource.left += use.load * flow.rate;
      resource.weight += use.load;
      ++resource.numOpen;
    }
  }
  for (uint32_t number : reached) {
    Resource &resource = resources[number];
    resource.numFilled = resource.numOpen;
    if (resource.numOpen == members[number].all.size())
      resource.left = resource.bandwidth;
    resource.left = std::max(resource.left, 0.0);
  }
}

void FlowSharing::fix(uint32_t number, double rate, uint32_t bottleneck) {
  Flow &flow = flows[number];
  flow.isFixed = true;
  filled[flow.index].rate = rate;
  filled[flow.index].bottleneck = bottleneck;
  for (const Use &use : contendedUses(flow)) {
    Resource &resource = resources[use.resource];
    resource.left -= use.load * rate;
    resource.weight -= use.load;
    --resource.numOpen;
  }
}

void FlowSharing::fill() {
  levels.clear();
  for (uint32_t number : reached)
    levels.push_back({resources[number].left / resources[number].weight, number});
  std::ranges::make_heap(levels, isLater);
  byCap.clear();
  for (const Filled &member : filled)
    if (!resources[flows[member.flow].narrowest].isContended) // else that resource's level is no more than the cap
      byCap.push_back(member.flow);
  if (byCap.size() > 1)
    std::ranges::sort(byCap, {}, [&](uint32_t flow) { return std::pair(flows[flow].cap, flow); });
  for (uint32_t narrowest : byCap) {
    while (!flows[narrowest].isFixed && !levels.empty() && levels.front().rate < flows[narrowest].cap)
      fillNextLevel();
    if (!flows[narrowest].isFixed)
      fix(narrowest, flows[narrowest].cap, none);
  }
  while (!levels.empty())
    fillNextLevel();
}

/// Gives the flows of the resource that is full first their rates.
void FlowSharing::fillNextLevel() {
  std::ranges::pop_heap(levels, isLater);
  Level level = levels.back();
  levels.pop_back();
  Resource &resource = resources[level.resource];
  if (resource.numOpen == 0)
    return;
  // Since it was noted, flows of the resource may have got less than their part, and leave the others more.
  double rate = std::max(resource.left, 0.0) / resource.weight;
  if (rate > level.rate * (1 + 1e-12)) {
    levels.push_back({rate, level.resource});
    std::ranges::push_heap(levels, isLater);
    return;
  }
  resource.isLimit = true;
  resource.level = level.rate;
  for (const Member &member : members[level.resource].all)
    if (const Flow &flow = flows[member.flow]; isFilled(flow) && !flow.isFixed)
      fix(member.flow, level.rate, level.resource);
}

/// Lets the flows join that are not filled, but get more at the resource than those that it limits, or are limited by
/// it no more.
void FlowSharing::checkResource(uint32_t number) {
  Resource &resource = resources[number];
  double most = 0;
  const std::vector<Member> &all = members[number].all;
  for (const Member &member : all) {
    const Flow &flow = flows[member.flow];
    most = std::max(most, isFilled(flow) ? filled[flow.index].rate : flow.rate);
  }
  bool isStillFull = isFull(resource, resource.bandwidth - resource.left);
  for (const Member &member : all) {
    const Flow &flow = flows[member.flow];
    if (isFilled(flow))
      continue;
    bool losesBottleneck = flow.bottleneck == number && (!isStillFull || flow.rate < most * (1 - 1e-9));
    if (losesBottleneck || (resource.isLimit && flow.rate > resource.level * (1 + 1e-9)))
      join(member.flow);
  }
}

bool FlowSharing::joinThoseWithoutBottleneck() {
  size_t before = filled.size();
  for (uint32_t number : reached) {
    const Resource &resource = resources[number];
    if (resource.numFilled < members[number].all.size() && (resource.isLimit || isFull(resource, resource.load)))
      checkResource(number);
  }
  return filled.size() > before;
}

void FlowSharing::apply(double now) {
  for (const Filled &member : filled) {
    Flow &flow = flows[member.flow];
    flow.bottleneck = member.bottleneck;
    if (std::abs(member.rate - flow.rate) <= 1e-12 * member.rate)
      continue;
    for (const Use &use : contendedUses(flow))
      resources[use.resource].load += use.load * (member.rate - flow.rate);
    flow.remaining = std::max(flow.remaining - flow.rate * (now - flow.since), 0.0);
    flow.since = now;
    flow.rate = member.rate;
    changes.push_back({member.flow, now + flow.remaining / flow.rate});
  }
}

std::span<const FlowSharing::Change> FlowSharing::settle(double now) {
  constexpr int mostWaves = 12;
  changes.clear();
  if (started.empty() && dirty.empty())
    return changes;
  ++round;
  filled.clear();
  for (uint32_t number : started)
    join(number);
  for (uint32_t number : dirty) {
    resources[number].isDirty = false;
    joinLimitedBy(number);
  }
  started.clear();
  dirty.clear();
  for (int wave = 0; !filled.empty(); ++wave) {
    if (wave == mostWaves)
      joinAllConnected();
    prepare();
    fill();
    if (wave == mostWaves || !joinThoseWithoutBottleneck())
      break;
  }
  apply(now);
  return changes;
}

} // namespace kolo::cost
