#include "compiler/cost/simulation/FlowSharing.h"

#include <algorithm>
#include <utility>

namespace kolo::cost {

constexpr size_t leastKinds = 256; // so many are counted where there are fewer

void FlowSharing::reserve(size_t numFlows) {
  kinds.reserve(numFlows);
  flows.reserve(numFlows);
  freeFlows.reserve(numFlows);
  started.reserve(numFlows);
  endings.reserve(3 * numFlows);
}

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
  flows[flow] = kinds.add(uses);
  started.push_back({bytes, flow, flows[flow]});
  return flow;
}

/// The group of the kind's flows. If there is none yet, it is made, with the clock of their last group if they had one.
uint32_t FlowSharing::findGroup(uint32_t kind, uint32_t last) {
  uint64_t color = kinds.alike().colorOf(kind);
  uint32_t number = groupsByColor.find(color, [](uint32_t) { return true; });
  if (number != none)
    return number;
  kinds.alike().findUses(kind, found);
  number = last == none ? rates.addGroup(found, kinds.capOf(kind)) : rates.addPart(last, found);
  groupsByColor.add(color, number);
  if (number == groups.size())
    groups.emplace_back();
  Group &group = groups[number];
  PooledList noEndings = group.endings;
  group = last == none ? Group() : groups[last];
  group.endings = noEndings;
  group.isTouched = false;
  return number;
}

void FlowSharing::removeGroup(uint32_t number) {
  groupsByColor.remove(number);
  rates.removeGroup(number);
  ends.set(number, EarliestTime::never);
}

void FlowSharing::addEnding(const Ending &ending, uint32_t number) {
  Group &group = groups[number];
  endings.push(group.endings, ending);
  std::ranges::push_heap(endings.of(group.endings), endsLater);
  touch(number);
}

/// Those whose kinds are parts of other groups by now.
void FlowSharing::moveFlows(uint32_t from, double now) {
  PooledList &all = groups[from].endings;
  uint32_t numLeft = 0, numMoved = 0, last = none;
  for (uint32_t place = 0; place < all.size; ++place) {
    Ending ending = endings[all.first + place];
    uint32_t to = kinds.groupOf(ending.kind);
    if (to == from) {
      endings[all.first + numLeft++] = ending;
      continue;
    }
    if (to != last && numMoved > 0)
      rates.moveFlows(from, last, std::exchange(numMoved, 0));
    last = to;
    ++numMoved;
    ending.end += groups[to].movedAt(now) - groups[from].movedAt(now);
    addEnding(ending, to);
  }
  if (numMoved > 0)
    rates.moveFlows(from, last, numMoved);
  all.size = numLeft;
  std::ranges::make_heap(endings.of(all), endsLater);
  touch(from);
}

/// Finding classes anew takes as long as filling some groups for each kind. It pays where less is filled afterwards.
bool FlowSharing::isWorthMerging() {
  if (work <= patience * std::max(kinds.size(), leastKinds))
    return false;
  double filled = double(work) / double(numSettled);
  patience = filled < lastFilled / 2 ? leastPatience : 2 * patience;
  lastFilled = filled;
  work = numSettled = 0;
  return true;
}

/// Flows part that may get different rates; those join that get the same, if classes are found anew.
void FlowSharing::regroup(double now, bool anew) {
  kinds.classify(anew);
  const AlikeResources &classes = kinds.alike();
  for (uint32_t number : classes.resized())
    rates.setBandwidth(number, classes.bandwidthOf(number));
  std::vector<uint32_t> split; // groups that lose flows
  for (uint32_t kind : classes.recolored()) {
    uint32_t &group = kinds.groupOf(kind);
    if (group == none)
      continue;
    uint32_t last = std::exchange(group, findGroup(kind, group));
    if (group != last && (split.empty() || split.back() != last))
      split.push_back(last);
  }
  std::ranges::sort(split);
  split.erase(std::ranges::unique(split).begin(), split.end());
  for (uint32_t group : split)
    moveFlows(group, now);
  kinds.alike().forget();
}

/// The flow ends when its group has moved as much more as it has bytes.
void FlowSharing::place(const Ending &flow, double now) {
  uint32_t &group = kinds.groupOf(flow.kind);
  if (group == none)
    group = findGroup(flow.kind, none);
  rates.addFlows(group, 1);
  addEnding({groups[group].movedAt(now) + flow.end, flow.flow, flow.kind}, group);
}

/// Notes when the group's first flow ends.
void FlowSharing::placeEnd(uint32_t number, double now) {
  const Group &group = groups[number];
  double end = endings[group.endings.first].end;
  ends.set(number, now + std::max(end - group.movedAt(now), 0.0) / group.rate);
}

void FlowSharing::settle(double now) {
  if (started.empty() && touched.empty())
    return;
  regroup(now, isWorthMerging());
  for (const Ending &flow : started)
    place(flow, now);
  started.clear();
  for (uint32_t number : touched)
    if (rates.numFlows(number) == 0)
      removeGroup(number);
  changed.clear();
  work += rates.settle(changed);
  ++numSettled;
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

void FlowSharing::takeEnded(double until, std::vector<uint32_t> &ended) {
  ended.clear();
  while (ends.time() <= until) {
    uint32_t number = ends.number();
    ends.set(number, EarliestTime::never);
    touch(number);
    PooledList &all = groups[number].endings;
    uint32_t numBefore = all.size;
    double last = endings[all.first].end * (1 + 1e-12);
    while (all.size > 0 && endings[all.first].end <= last) {
      const Ending &ending = endings[all.first];
      ended.push_back(ending.flow);
      freeFlows.push_back(ending.flow);
      kinds.remove(ending.kind);
      std::ranges::pop_heap(endings.of(all), endsLater);
      endings.pop(all);
    }
    rates.removeFlows(number, numBefore - all.size);
  }
}

} // namespace kolo::cost
