#include "compiler/cost/FairRates.h"

#include <cmath>
#include <utility>

namespace kolo::cost {

static bool isSameRate(double rate, double other) { return std::abs(rate - other) <= 1e-12 * other; }

uint32_t FairRates::addResource(double bandwidth) {
  resources.push_back({bandwidth});
  return uint32_t(resources.size() - 1);
}

void FairRates::markDirty(uint32_t number) {
  if (resources[number].isDirty)
    return;
  resources[number].isDirty = true;
  dirty.push_back(number);
}

/// Where flows of the group come or go, others at a full resource get another rate.
void FairRates::markFull(const Group &group) {
  for (const Use &use : usesOf(group))
    if (const Resource &resource = resources[use.resource]; isFull(resource, resource.load))
      markDirty(use.resource);
}

uint32_t FairRates::addGroup(std::span<const ResourceUse> wanted, double cap) {
  if (freeGroups.empty()) {
    freeGroups.push_back(uint32_t(groups.size()));
    groups.emplace_back();
  }
  uint32_t number = freeGroups.back();
  freeGroups.pop_back();
  groups[number] = {0, 0, cap, 0, none, none, 0, uses.make(wanted.size()), 0, 0};
  uint32_t next = groups[number].uses.first;
  for (const ResourceUse &use : wanted) {
    PooledList &all = resources[use.resource].members;
    uses[next] = {use.load, use.resource, all.size};
    members.push(all, {next++, number});
  }
  return number;
}

uint32_t FairRates::addPart(uint32_t of, std::span<const ResourceUse> wanted) {
  uint32_t number = addGroup(wanted, groups[of].cap), bottleneck = groups[of].bottleneck;
  Group &group = groups[number];
  group.rate = groups[of].rate;
  for (const Use &use : usesOf(group))
    resources[use.resource].fastest = std::max(resources[use.resource].fastest, group.rate);
  bool keepsBottleneck = std::ranges::find(usesOf(group), bottleneck, &Use::resource) != usesOf(group).end();
  if (keepsBottleneck) {
    group.bottleneck = bottleneck;
    ++resources[bottleneck].numLimited;
  } else if (bottleneck != none) {
    grown.push_back(number);
  }
  return number;
}

void FairRates::removeGroup(uint32_t number) {
  Group &group = groups[number];
  for (const Use &use : usesOf(group)) {
    Resource &at = resources[use.resource];
    std::span<Member> all = members.of(at.members);
    all[use.position] = all.back();
    uses[all.back().use].position = use.position;
    members.pop(at.members);
    if (at.members.size == 0) // no rounding error is carried along
      at.load = 0;
  }
  if (group.bottleneck != none)
    --resources[group.bottleneck].numLimited;
  uses.clear(group.uses);
  freeGroups.push_back(number);
}

void FairRates::addFlow(uint32_t number) {
  ++groups[number].numFlows;
  markFull(groups[number]);
  grown.push_back(number);
}

void FairRates::removeFlow(uint32_t number) {
  Group &group = groups[number];
  markFull(group);
  for (const Use &use : usesOf(group))
    resources[use.resource].load -= use.load * group.rate;
  --group.numFlows;
  group.charged -= group.rate;
}

void FairRates::moveFlow(uint32_t from, uint32_t to) {
  Group &before = groups[from], &after = groups[to];
  if (!isSameRate(before.rate, after.rate)) {
    removeFlow(from);
    addFlow(to);
    return;
  }
  for (const Use &use : usesOf(before))
    resources[use.resource].load -= use.load * before.rate;
  for (const Use &use : usesOf(after))
    resources[use.resource].load += use.load * after.rate;
  --before.numFlows;
  ++after.numFlows;
  before.charged -= before.rate;
  after.charged += after.rate;
}

/// Its rate is found again.
void FairRates::join(uint32_t number) {
  Group &group = groups[number];
  if (isFilled(group))
    return;
  group.round = round;
  filled.push_back(number);
  if (group.bottleneck != none)
    --resources[group.bottleneck].numLimited;
}

void FairRates::joinLimitedBy(uint32_t number) {
  const Resource &at = resources[number];
  for (uint32_t next = at.members.first; at.numLimited > 0; ++next)
    if (uint32_t group = members[next].group; groups[group].bottleneck == number)
      join(group);
}

/// All that resources connect with the groups so far: enough in any case.
void FairRates::joinAllConnected() {
  ++pass;
  for (size_t next = 0; next < filled.size(); ++next)
    for (const Use &use : usesOf(groups[filled[next]])) {
      Resource &at = resources[use.resource];
      if (std::exchange(at.pass, pass) == pass)
        continue;
      for (const Member &member : membersOf(at))
        join(member.group);
    }
}

void FairRates::reach(uint32_t number) {
  Resource &at = resources[number];
  at.pass = pass;
  at.isLimit = false;
  at.numOpen = 0;
  at.left = at.bandwidth - at.load;
  at.weight = at.fastestFilled = 0;
  reached.push_back(number);
}

/// Counts what the other groups leave of every resource.
void FairRates::prepare() {
  ++pass;
  reached.clear();
  byCap.clear();
  for (uint32_t number : filled) {
    const Group &group = groups[number];
    bool mayHaveCap = true;
    for (const Use &use : usesOf(group)) {
      Resource &at = resources[use.resource];
      if (at.pass != pass)
        reach(use.resource);
      at.left += use.load * group.charged;
      at.weight += use.load * group.numFlows;
      ++at.numOpen;
      mayHaveCap &= at.bandwidth > use.load * group.cap;
    }
    if (mayHaveCap)
      byCap.push_back(number);
  }
  for (uint32_t number : reached) {
    Resource &at = resources[number];
    at.numFilled = at.numOpen;
    at.left = at.numFilled < at.members.size ? std::max(at.left, 0.0) : at.bandwidth;
  }
}

/// Without what changes at the bottleneck itself: nothing is left there.
void FairRates::fix(Group &group, double rate, uint32_t bottleneck) {
  group.pass = pass;
  group.nextRate = rate;
  group.nextBottleneck = bottleneck;
  for (const Use &use : usesOf(group)) {
    if (use.resource == bottleneck)
      continue;
    Resource &at = resources[use.resource];
    double weight = use.load * group.numFlows;
    at.left -= weight * rate;
    at.weight -= weight;
    at.fastestFilled = std::max(at.fastestFilled, rate);
    --at.numOpen;
  }
}

void FairRates::fill() {
  levels.clear();
  for (uint32_t number : reached)
    levels.push_back({resources[number].left / resources[number].weight, number});
  std::ranges::make_heap(levels, isLater);
  if (byCap.size() > 1)
    std::ranges::sort(byCap, {}, [&](uint32_t number) { return std::pair(groups[number].cap, number); });
  for (uint32_t number : byCap) {
    Group &group = groups[number];
    while (isOpen(group) && !levels.empty() && levels.front().rate < group.cap)
      fillNextLevel();
    if (isOpen(group))
      fix(group, group.cap, none);
  }
  while (!levels.empty())
    fillNextLevel();
}

/// Gives the groups of the resource that is full first their rates.
void FairRates::fillNextLevel() {
  std::ranges::pop_heap(levels, isLater);
  Level level = levels.back();
  levels.pop_back();
  Resource &at = resources[level.resource];
  if (at.numOpen == 0)
    return;
  // Since it was noted, flows of the resource may have got less than their part, and leave the others more.
  double rate = std::max(at.left, 0.0) / at.weight;
  if (rate > level.rate * (1 + 1e-12)) {
    levels.push_back({rate, level.resource});
    std::ranges::push_heap(levels, isLater);
    return;
  }
  for (uint32_t next = at.members.first; at.numOpen > 0; ++next)
    if (Group &group = groups[members[next].group]; isOpen(group)) {
      fix(group, level.rate, level.resource);
      --at.numOpen;
    }
  at.isLimit = true;
  at.level = level.rate;
  at.fastestFilled = std::max(at.fastestFilled, level.rate);
  at.left = std::max(at.left - at.weight * level.rate, 0.0);
}

/// Whether groups have to join that are not filled, if these have at most the rate `fastestOther` at the resource.
bool FairRates::mayLoseBottleneck(const Resource &at, double fastestOther) {
  if (at.numFilled == at.members.size)
    return false;
  double fastest = std::max(at.fastestFilled, fastestOther);
  return (at.numLimited > 0 && (!isStillFull(at) || at.slowest < fastest * (1 - 1e-9))) ||
         (at.isLimit && fastestOther > at.level * (1 + 1e-9));
}

/// Lets the groups join that are not filled, but get more at the resource than those that it limits, or are limited by
/// it no more.
void FairRates::joinWithoutBottleneck(uint32_t number) {
  const Resource &at = resources[number];
  double fastest = 0;
  for (const Member &member : membersOf(at))
    if (const Group &group = groups[member.group]; !isFilled(group))
      fastest = std::max(fastest, group.rate);
  if (!mayLoseBottleneck(at, fastest))
    return;
  fastest = std::max(fastest, at.fastestFilled);
  for (const Member &member : membersOf(at)) {
    const Group &group = groups[member.group];
    if (isFilled(group))
      continue;
    bool losesBottleneck = group.bottleneck == number && (!isStillFull(at) || group.rate < fastest * (1 - 1e-9));
    if (losesBottleneck || (at.isLimit && group.rate > at.level * (1 + 1e-9)))
      join(member.group);
  }
}

bool FairRates::joinThoseWithoutBottleneck() {
  size_t before = filled.size();
  for (uint32_t number : reached)
    if (mayLoseBottleneck(resources[number], resources[number].fastest))
      joinWithoutBottleneck(number);
  return filled.size() > before;
}

void FairRates::setBottleneck(Group &group, uint32_t number) {
  group.bottleneck = number;
  if (number == none)
    return;
  Resource &resource = resources[number];
  bool isFirst = resource.numLimited++ == 0;
  resource.slowest = isFirst ? group.rate : std::min(resource.slowest, group.rate);
  resource.fastest = isFirst ? group.rate : std::max(resource.fastest, group.rate);
}

void FairRates::apply(std::vector<uint32_t> &changed) {
  for (uint32_t number : filled) {
    Group &group = groups[number];
    if (!isSameRate(group.rate, group.nextRate)) {
      group.rate = group.nextRate;
      changed.push_back(number);
    }
    group.charged = group.nextRate * group.numFlows;
    setBottleneck(group, group.nextBottleneck);
  }
  for (uint32_t number : reached) {
    Resource &at = resources[number];
    at.load = at.bandwidth - at.left;
    if (at.numLimited == 0)
      at.fastest = unlimited;
  }
}

void FairRates::settle(std::vector<uint32_t> &changed) {
  constexpr int mostWaves = 12;
  ++round;
  filled.clear();
  reached.clear();
  for (uint32_t number : grown)
    join(number);
  grown.clear();
  for (uint32_t number : dirty) {
    resources[number].isDirty = false;
    joinLimitedBy(number);
  }
  dirty.clear();
  for (int wave = 0; !filled.empty(); ++wave) {
    if (wave == mostWaves)
      joinAllConnected();
    prepare();
    fill();
    if (wave == mostWaves || !joinThoseWithoutBottleneck())
      break;
  }
  apply(changed);
}

} // namespace kolo::cost
