#include "compiler/cost/FlowSharing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

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
  }
  uint32_t number = freeFlows.back();
  freeFlows.pop_back();
  Flow &flow = flows[number];
  flow = {};
  flow.remaining = bytes;
  flow.cap = std::numeric_limits<double>::infinity();
  flow.firstUse = allocateUses(wanted.size());
  flow.numUses = uint32_t(wanted.size());
  flow.bottleneck = none;
  for (const ResourceUse &use : wanted)
    flow.cap = std::min(flow.cap, resources[use.resource].bandwidth / use.load);
  uint32_t next = flow.firstUse;
  for (const ResourceUse &use : wanted) {
    Resource &resource = resources[use.resource];
    uses[next] = {use.load, number, use.resource, uint32_t(resource.uses.size())};
    resource.uses.push_back(next++);
    resource.demand += use.load * flow.cap;
    if (isFull(resource, resource.load))
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
    if (isFull(resource, resource.load))
      markDirty(use.resource);
    uint32_t last = resource.uses.back();
    resource.uses[use.position] = last;
    uses[last].position = use.position;
    resource.uses.pop_back();
    // From empty to empty no rounding error is carried along.
    resource.demand = resource.uses.empty() ? 0 : resource.demand - use.load * flow.cap;
    resource.load = resource.uses.empty() ? 0 : resource.load - use.load * flow.rate;
  }
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
  for (uint32_t use : resources[number].uses)
    if (flows[uses[use].flow].bottleneck == number)
      join(uses[use].flow);
}

/// All that resources connect with the flows so far: enough in any case.
void FlowSharing::joinAllConnected() {
  ++pass;
  for (size_t next = 0; next < filled.size(); ++next) {
    const Flow &flow = flows[filled[next].flow];
    for (uint32_t use = flow.firstUse; use < flow.firstUse + flow.numUses; ++use) {
      Resource &resource = resources[uses[use].resource];
      if (resource.round == pass || !isContended(resource))
        continue;
      resource.round = pass;
      for (uint32_t other : resource.uses)
        join(uses[other].flow);
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
    for (uint32_t use = flow.firstUse; use < flow.firstUse + flow.numUses; ++use) {
      uint32_t number = uses[use].resource;
      Resource &resource = resources[number];
      if (resource.round != pass) {
        resource.round = pass;
        resource.left = resource.bandwidth - resource.load;
        resource.weight = 0;
        resource.numOpen = 0;
        resource.isLimit = false;
        if (isContended(resource))
          reached.push_back(number);
      }
      resource.left += uses[use].load * flow.rate;
      resource.weight += uses[use].load;
      ++resource.numOpen;
    }
  }
  for (uint32_t number : reached) {
    Resource &resource = resources[number];
    resource.numFilled = resource.numOpen;
    if (resource.numOpen == resource.uses.size())
      resource.left = resource.bandwidth;
    resource.left = std::max(resource.left, 0.0);
  }
}

void FlowSharing::fix(uint32_t number, double rate, uint32_t bottleneck) {
  Flow &flow = flows[number];
  flow.isFixed = true;
  filled[flow.index].rate = rate;
  filled[flow.index].bottleneck = bottleneck;
  for (uint32_t use = flow.firstUse; use < flow.firstUse + flow.numUses; ++use) {
    Resource &resource = resources[uses[use].resource];
    resource.left -= uses[use].load * rate;
    resource.weight -= uses[use].load;
    --resource.numOpen;
  }
}

void FlowSharing::fill() {
  auto isLater = [](const Level &a, const Level &b) {
    return a.rate != b.rate ? a.rate > b.rate : a.resource > b.resource;
  };
  levels.clear();
  for (uint32_t number : reached)
    levels.push_back({resources[number].left / resources[number].weight, number});
  std::ranges::make_heap(levels, isLater);
  byCap.clear();
  for (const Filled &member : filled)
    byCap.push_back(member.flow);
  if (byCap.size() > 1)
    std::ranges::sort(byCap, {}, [&](uint32_t flow) { return std::pair(flows[flow].cap, flow); });
  for (uint32_t narrowest : byCap) {
    while (!flows[narrowest].isFixed && !levels.empty() && levels.front().rate < flows[narrowest].cap) {
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
      resource.isLimit = true;
      resource.level = level.rate;
      for (uint32_t use : resource.uses)
        if (isFilled(flows[uses[use].flow]) && !flows[uses[use].flow].isFixed)
          fix(uses[use].flow, level.rate, level.resource);
    }
    if (!flows[narrowest].isFixed)
      fix(narrowest, flows[narrowest].cap, none);
  }
}

/// Lets the flows join that are not filled, but get more at the resource than those that it limits, or are limited by
/// it no more.
void FlowSharing::checkResource(uint32_t number) {
  Resource &resource = resources[number];
  double most = 0;
  for (uint32_t use : resource.uses) {
    const Flow &flow = flows[uses[use].flow];
    most = std::max(most, isFilled(flow) ? filled[flow.index].rate : flow.rate);
  }
  bool isStillFull = isFull(resource, resource.bandwidth - resource.left);
  for (size_t i = 0; i < resource.uses.size(); ++i) {
    uint32_t other = uses[resource.uses[i]].flow;
    const Flow &flow = flows[other];
    if (isFilled(flow))
      continue;
    bool losesBottleneck = flow.bottleneck == number && (!isStillFull || flow.rate < most * (1 - 1e-9));
    if (losesBottleneck || (resource.isLimit && flow.rate > resource.level * (1 + 1e-9)))
      join(other);
  }
}

bool FlowSharing::joinThoseWithoutBottleneck() {
  size_t before = filled.size();
  for (uint32_t number : reached) {
    const Resource &resource = resources[number];
    if (resource.numFilled < resource.uses.size() && (resource.isLimit || isFull(resource, resource.load)))
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
    for (uint32_t use = flow.firstUse; use < flow.firstUse + flow.numUses; ++use)
      resources[uses[use].resource].load += uses[use].load * (member.rate - flow.rate);
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
