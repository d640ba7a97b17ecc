#include "compiler/cost/FlowSharing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kolo::cost {

FlowSharing::FlowSharing(std::span<const double> bandwidths) : resources(bandwidths.size()), freeUses(32) {
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

uint32_t FlowSharing::start(double bytes, std::span<const ResourceUse> wanted) {
  if (freeFlows.empty()) {
    freeFlows.push_back(uint32_t(flows.size()));
    flows.emplace_back();
    indexOf.emplace_back();
  }
  uint32_t number = freeFlows.back();
  freeFlows.pop_back();
  Flow &flow = flows[number];
  flow = {bytes, 0,    0, std::numeric_limits<double>::infinity(), allocateUses(wanted.size()), uint32_t(wanted.size()),
          0,     false};
  for (const ResourceUse &use : wanted)
    flow.cap = std::min(flow.cap, resources[use.resource].bandwidth / use.load);
  uint32_t next = flow.firstUse;
  for (const ResourceUse &use : wanted) {
    Resource &resource = resources[use.resource];
    uses[next] = {use.load, number, use.resource, uint32_t(resource.uses.size())};
    resource.uses.push_back(next++);
    resource.demand += use.load * flow.cap;
    if (isContended(resource))
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
    if (isContended(resource))
      markDirty(use.resource);
    uint32_t last = resource.uses.back();
    resource.uses[use.position] = last;
    uses[last].position = use.position;
    resource.uses.pop_back();
    // From empty to empty no rounding error is carried along.
    resource.demand = resource.uses.empty() ? 0 : resource.demand - use.load * flow.cap;
  }
  freeUses[size_t(std::countr_zero(std::bit_ceil(size_t(flow.numUses))))].push_back(flow.firstUse);
  freeFlows.push_back(number);
}

void FlowSharing::reach(uint32_t number) {
  Flow &flow = flows[number];
  if (flow.round == round)
    return;
  flow.round = round;
  flow.isFixed = false;
  indexOf[number] = uint32_t(reachedFlows.size());
  reachedFlows.push_back(number);
}

void FlowSharing::reachResource(uint32_t number) {
  Resource &resource = resources[number];
  if (resource.round == round)
    return;
  resource.round = round;
  bool limits = isContended(resource);
  if (limits)
    reachedResources.push_back(number);
  resource.left = resource.bandwidth;
  resource.weight = 0;
  resource.numOpen = uint32_t(resource.uses.size());
  for (uint32_t use : resource.uses) {
    resource.weight += uses[use].load;
    reach(uses[use].flow);
  }
}

/// All flows whose rates may change, and the resources that limit them.
void FlowSharing::collect() {
  ++round;
  reachedFlows.clear();
  reachedResources.clear();
  for (uint32_t number : dirty) {
    resources[number].isDirty = false;
    reachResource(number);
  }
  for (uint32_t number : started)
    reach(number);
  dirty.clear();
  started.clear();
  for (size_t next = 0; next < reachedFlows.size(); ++next) {
    const Flow &flow = flows[reachedFlows[next]];
    for (uint32_t use = flow.firstUse; use < flow.firstUse + flow.numUses; ++use)
      if (isContended(resources[uses[use].resource]))
        reachResource(uses[use].resource);
  }
}

void FlowSharing::fix(uint32_t number, double rate) {
  Flow &flow = flows[number];
  flow.isFixed = true;
  newRates[indexOf[number]] = rate;
  for (uint32_t use = flow.firstUse; use < flow.firstUse + flow.numUses; ++use) {
    Resource &resource = resources[uses[use].resource];
    resource.left -= uses[use].load * rate;
    resource.weight -= uses[use].load;
    --resource.numOpen;
  }
}

void FlowSharing::fill() {
  newRates.assign(reachedFlows.size(), 0);
  auto isLater = [](const Level &a, const Level &b) {
    return a.rate != b.rate ? a.rate > b.rate : a.resource > b.resource;
  };
  levels.clear();
  for (uint32_t number : reachedResources)
    levels.push_back({resources[number].left / resources[number].weight, number});
  std::ranges::make_heap(levels, isLater);
  byCap = reachedFlows;
  if (byCap.size() > 1)
    std::ranges::sort(byCap, {}, [&](uint32_t flow) { return flows[flow].cap; });
  size_t nextByCap = 0;
  while (true) {
    while (nextByCap < byCap.size() && flows[byCap[nextByCap]].isFixed)
      ++nextByCap;
    if (nextByCap == byCap.size())
      return;
    uint32_t narrowest = byCap[nextByCap];
    if (levels.empty() || flows[narrowest].cap <= levels.front().rate) {
      fix(narrowest, flows[narrowest].cap);
      continue;
    }
    // Since it was noted, flows of the resource may have got less than their part, and leave the others more.
    std::ranges::pop_heap(levels, isLater);
    Level level = levels.back();
    levels.pop_back();
    Resource &resource = resources[level.resource];
    if (resource.numOpen == 0)
      continue;
    double rate = std::max(resource.left, 0.0) / resource.weight;
    if (rate > level.rate * (1 + 1e-12)) {
      levels.push_back({rate, level.resource});
      std::ranges::push_heap(levels, isLater);
      continue;
    }
    for (uint32_t use : resource.uses)
      if (!flows[uses[use].flow].isFixed)
        fix(uses[use].flow, std::min(level.rate, flows[uses[use].flow].cap));
  }
}

void FlowSharing::update(Flow &flow, uint32_t number, double rate, double now) {
  if (std::abs(rate - flow.rate) <= 1e-12 * rate)
    return;
  flow.remaining = std::max(flow.remaining - flow.rate * (now - flow.since), 0.0);
  flow.since = now;
  flow.rate = rate;
  changes.push_back({number, now + flow.remaining / rate});
}

std::span<const FlowSharing::Change> FlowSharing::settle(double now) {
  changes.clear();
  if (started.empty() && dirty.empty())
    return changes;
  collect();
  if (reachedResources.empty()) {
    for (uint32_t number : reachedFlows)
      update(flows[number], number, flows[number].cap, now);
    return changes;
  }
  fill();
  for (size_t index = 0; index < reachedFlows.size(); ++index)
    update(flows[reachedFlows[index]], reachedFlows[index], newRates[index], now);
  return changes;
}

} // namespace kolo::cost
