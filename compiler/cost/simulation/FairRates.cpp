#include "compiler/cost/simulation/FairRates.h"

#include <cmath>
#include <utility>

namespace kolo::cost {

static bool isSameRate(double rate, double other) { return std::abs(rate - other) <= 1e-12 * other; }

void FairRates::setBandwidth(uint32_t number, double bandwidth) {
  if (number >= resources.size())
    resources.resize(number + 1);
  resources[number].bandwidth = bandwidth;
  resources[number].fastest = unlimited;
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
    marks.emplace_back();
  }
  uint32_t number = freeGroups.back();
  freeGroups.pop_back();
  groups[number] = {0, 0, cap, 0, none, uses.make(wanted.size())};
  marks[number] = {0, none, 0, 0};
  uint32_t next = groups[number].uses.first;
  for (const ResourceUse &use : wanted) {
    PooledList &all = resources[use.resource].members;
    uses[next] = {use.load, use.resource, all.size};
    members.push(all, {next++, number});
  }
  return number;
}

uint32_t FairRates::addPart(uint32_t of, std::span<const ResourceUse> wanted) {
  uint32_t number = addGroup(wanted, groups[of].cap), bottleneck = marks[of].bottleneck;
  Group &group = groups[number];
  group.rate = groups[of].rate;
  for (const Use &use : usesOf(group))
    resources[use.resource].fastest = std::max(resources[use.resource].fastest, group.rate);
  bool keepsBottleneck = std::ranges::find(usesOf(group), bottleneck, &Use::resource) != usesOf(group).end();
  if (keepsBottleneck) {
    marks[number].bottleneck = bottleneck;
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
  if (uint32_t bottleneck = marks[number].bottleneck; bottleneck != none)
    --resources[bottleneck].numLimited;
  uses.clear(group.uses);
  freeGroups.push_back(number);
}

void FairRates::addFlows(uint32_t group, uint32_t number) {
  marks[group].numFlows += number;
  markFull(groups[group]);
  grown.push_back(group);
}

/// Counts the rates of so many flows more.
void FairRates::charge(uint32_t number, double numFlows) {
  Group &group = groups[number];
  for (const Use &use : usesOf(group))
    resources[use.resource].load += use.load * group.rate * numFlows;
  group.charged += group.rate * numFlows;
}

void FairRates::removeFlows(uint32_t group, uint32_t number) {
  markFull(groups[group]);
  charge(group, -double(number));
  marks[group].numFlows -= number;
}

void FairRates::moveFlows(uint32_t from, uint32_t to, uint32_t number) {
  if (!isSameRate(groups[from].rate, groups[to].rate)) {
    removeFlows(from, number);
    addFlows(to, number);
    return;
  }
  charge(from, -double(number));
  charge(to, number);
  marks[from].numFlows -= number;
  marks[to].numFlows += number;
}

/// Its rate is found again.
void FairRates::join(uint32_t group) {
  Mark &mark = marks[group];
  if (mark.round == round)
    return;
  mark.round = round;
  filled.push_back(group);
  if (mark.bottleneck != none)
    --resources[mark.bottleneck].numLimited;
}

void FairRates::joinLimitedBy(uint32_t number) {
  const Resource &at = resources[number];
  for (uint32_t next = at.members.first; at.numLimited > 0; ++next)
    if (uint32_t group = members[next].group; marks[group].bottleneck == number)
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
    double numFlows = marks[number].numFlows;
    bool mayHaveCap = true;
    for (const Use &use : usesOf(group)) {
      Resource &at = resources[use.resource];
      if (at.pass != pass)
        reach(use.resource);
      at.left += use.load * group.charged;
      at.weight += use.load * numFlows;
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
void FairRates::fix(uint32_t number, double rate, uint32_t bottleneck) {
  Group &group = groups[number];
  double numFlows = marks[number].numFlows;
  marks[number].pass = pass;
  group.nextRate = rate;
  group.nextBottleneck = bottleneck;
  for (const Use &use : usesOf(group)) {
    if (use.resource == bottleneck)
      continue;
    Resource &at = resources[use.resource];
    double weight = use.load * numFlows;
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
    double cap = groups[number].cap;
    while (isOpen(number) && !levels.empty() && levels.front().rate < cap)
      fillNextLevel();
    if (isOpen(number))
      fix(number, cap, none);
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
    if (uint32_t group = members[next].group; isOpen(group)) {
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
    if (!isFilled(member.group))
      fastest = std::max(fastest, groups[member.group].rate);
  if (!mayLoseBottleneck(at, fastest))
    return;
  fastest = std::max(fastest, at.fastestFilled);
  for (const Member &member : membersOf(at)) {
    if (isFilled(member.group))
      continue;
    double rate = groups[member.group].rate;
    bool isLimited = marks[member.group].bottleneck == number;
    bool losesBottleneck = isLimited && (!isStillFull(at) || rate < fastest * (1 - 1e-9));
    if (losesBottleneck || (at.isLimit && rate > at.level * (1 + 1e-9)))
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

void FairRates::setBottleneck(uint32_t group, uint32_t number) {
  marks[group].bottleneck = number;
  if (number == none)
    return;
  double rate = groups[group].rate;
  Resource &resource = resources[number];
  bool isFirst = resource.numLimited++ == 0;
  resource.slowest = isFirst ? rate : std::min(resource.slowest, rate);
  resource.fastest = isFirst ? rate : std::max(resource.fastest, rate);
}

void FairRates::apply(std::vector<uint32_t> &changed) {
  for (uint32_t number : filled) {
    Group &group = groups[number];
    if (!isSameRate(group.rate, group.nextRate)) {
      group.rate = group.nextRate;
      changed.push_back(number);
    }
    group.charged = group.nextRate * marks[number].numFlows;
    setBottleneck(number, group.nextBottleneck);
  }
  for (uint32_t number : reached) {
    Resource &at = resources[number];
    at.load = at.bandwidth - at.left;
    if (at.numLimited == 0)
      at.fastest = unlimited;
  }
}

size_t FairRates::settle(std::vector<uint32_t> &changed) {
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
  return filled.size();
}

} // namespace kolo::cost
