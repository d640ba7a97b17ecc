#include "compiler/cost/FlowSharing.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace kolo::cost {

void FlowSharing::touch(uint32_t group) {
  if (!std::exchange(groups[group].isTouched, true))
    touched.push_back(group);
}

uint32_t FlowSharing::start(double bytes, std::span<const ResourceUse> uses) {
  if (freeFlows.empty()) {
    freeFlows.push_back(uint32_t(flows.size()));
    flows.emplace_back();
  }
  uint32_t flow = freeFlows.back();
  freeFlows.pop_back();
  flows[flow] = {bytes, kinds.add(uses), none};
  started.push_back(flow);
  return flow;
}

void FlowSharing::end(uint32_t number) {
  Flow &flow = flows[number];
  kinds.remove(flow.kind);
  rates.removeFlow(flow.group);
  touch(flow.group);
  flow.group = none;
  freeFlows.push_back(number);
}

static uint64_t hashOf(std::span<const ResourceUse> uses, double cap) {
  return hashOf(uses) + std::bit_cast<uint64_t>(cap) * 0x9e3779b97f4a7c15;
}

/// The group of the kind's flows. If there is none yet, it is made, with the clock of their last group if they had one.
uint32_t FlowSharing::findGroup(uint32_t kind, uint32_t last) {
  kinds.findContended(kind, found);
  double cap = kinds.capOf(kind);
  uint64_t hash = hashOf(found, cap);
  uint32_t number = groupsByHash.find(hash, [&](uint32_t group) { return rates.hasUses(group, found, cap); });
  if (number != none)
    return number;
  number = last == none ? rates.addGroup(found, cap) : rates.addPart(last, found);
  groupsByHash.add(hash, number);
  if (number == groups.size())
    groups.emplace_back();
  Group &group = groups[number];
  PooledList noEndings{group.endings.first, 0, group.endings.room};
  group = last == none ? Group() : groups[last];
  group.endings = noEndings;
  group.isTouched = false;
  return number;
}

void FlowSharing::removeGroup(uint32_t number) {
  groupsByHash.remove(number);
  rates.removeGroup(number);
  ends.set(number, EarliestTime::never);
}

void FlowSharing::addEnding(const Ending &ending, uint32_t number) {
  Group &group = groups[number];
  flows[ending.flow].group = number;
  endings.push(group.endings, ending);
  std::ranges::push_heap(endings.of(group.endings), endsLater);
  touch(number);
}

void FlowSharing::popEnding(Group &group) {
  std::ranges::pop_heap(endings.of(group.endings), endsLater);
  endings.pop(group.endings);
}

/// Those whose kinds are parts of other groups by now.
void FlowSharing::moveFlows(uint32_t from, double now) {
  PooledList &all = groups[from].endings;
  uint32_t numLeft = 0;
  for (uint32_t place = 0; place < all.size; ++place) {
    Ending ending = endings[all.first + place];
    if (!isOpen(ending, from))
      continue;
    Flow &flow = flows[ending.flow];
    uint32_t to = kinds.groupOf(flow.kind);
    if (to == from) {
      endings[all.first + numLeft++] = ending;
      continue;
    }
    rates.moveFlow(from, to);
    flow.end += groups[to].movedAt(now) - groups[from].movedAt(now);
    addEnding({flow.end, ending.flow}, to);
  }
  all.size = numLeft;
  std::ranges::make_heap(endings.of(all), endsLater);
  touch(from);
}

/// Where resources began to be contended, flows part that had the same rate; where they ceased to be, flows join.
void FlowSharing::regroup(double now) {
  std::vector<uint32_t> split; // groups that lose flows
  for (uint32_t resource : kinds.changes())
    if (uint32_t &number = kinds.numberOf(resource); number == none)
      number = rates.addResource(kinds.bandwidthOf(resource));
  for (uint32_t resource : kinds.changes())
    kinds.visitKinds(resource, [&](uint32_t kind) {
      uint32_t &group = kinds.groupOf(kind);
      if (group == none)
        return;
      uint32_t last = std::exchange(group, findGroup(kind, group));
      if (group != last)
        split.push_back(last);
    });
  kinds.forgetChanges();
  std::ranges::sort(split);
  split.erase(std::ranges::unique(split).begin(), split.end());
  for (uint32_t group : split)
    moveFlows(group, now);
}

/// The flow ends when its group has moved as much more as it has bytes.
void FlowSharing::place(uint32_t number, double now) {
  Flow &flow = flows[number];
  uint32_t &group = kinds.groupOf(flow.kind);
  if (group == none)
    group = findGroup(flow.kind, none);
  rates.addFlow(group);
  flow.end += groups[group].movedAt(now);
  addEnding({flow.end, number}, group);
}

/// Finds which flow of the group ends first.
void FlowSharing::dropEnded(uint32_t number) {
  Group &group = groups[number];
  while (!isOpen(endings[group.endings.first], number))
    popEnding(group);
  group.firstEnd = endings[group.endings.first].end;
}

/// Notes when the group's first flow ends.
void FlowSharing::placeEnd(uint32_t number, double now) {
  const Group &group = groups[number];
  ends.set(number, now + std::max(group.firstEnd - group.movedAt(now), 0.0) / group.rate);
}

void FlowSharing::settle(double now) {
  if (started.empty() && touched.empty())
    return;
  regroup(now);
  for (uint32_t flow : started)
    place(flow, now);
  started.clear();
  for (uint32_t number : touched)
    if (rates.numFlows(number) > 0)
      dropEnded(number);
    else
      removeGroup(number);
  changed.clear();
  rates.settle(changed);
  for (uint32_t number : changed) {
    Group &group = groups[number];
    group.moved = group.movedAt(now);
    group.since = now;
    group.rate = rates.rateOf(number);
    if (!group.isTouched)
      placeEnd(number, now);
  }
  for (uint32_t number : touched) {
    groups[number].isTouched = false;
    if (rates.numFlows(number) > 0)
      placeEnd(number, now);
  }
  touched.clear();
}

void FlowSharing::findEnding(double until, std::vector<uint32_t> &ending) {
  ending.clear();
  while (ends.time() <= until) {
    uint32_t number = ends.number();
    ends.set(number, EarliestTime::never);
    Group &group = groups[number];
    for (double last = group.firstEnd * (1 + 1e-12); group.endings.size > 0; popEnding(group)) {
      const Ending &next = endings[group.endings.first];
      if (next.end > last)
        break;
      if (isOpen(next, number))
        ending.push_back(next.flow);
    }
  }
}

} // namespace kolo::cost
