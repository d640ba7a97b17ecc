#include "compiler/cost/FlowSharing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace kolo::cost {

constexpr double farFromFull = 0.5;   // a resource that was contended, and is so no more
constexpr uint32_t farthestBound = 8; // in uses
constexpr size_t mostBounds = 32;     // of one resource; more do not bound it well

FlowSharing::FlowSharing(std::span<const double> bandwidths)
    : groupsByHash(64, none), resources(bandwidths.size()), members(bandwidths.size()) {
  for (size_t number = 0; number < bandwidths.size(); ++number)
    resources[number].bandwidth = bandwidths[number];
}

void FlowSharing::markDirty(uint32_t number) {
  if (resources[number].isDirty)
    return;
  resources[number].isDirty = true;
  dirty.push_back(number);
}

/// A use in the range that sets its flow's cap: of several the nearest, which most flows of the resource share.
uint32_t FlowSharing::narrowestNear(uint32_t number, uint32_t end) const {
  const Group &group = groups[uses[number].group];
  auto setsCap = [&](const Use &use) { return resources[use.resource].bandwidth <= use.load * group.cap * (1 + 1e-9); };
  uint32_t before = number - group.uses.first, after = end - 1 - number;
  for (uint32_t distance = 0; distance <= farthestBound; ++distance) {
    if (distance <= before && setsCap(uses[number - distance]))
      return number - distance;
    if (distance <= after && setsCap(uses[number + distance]))
      return number + distance;
  }
  return group.narrowest;
}

/// Nothing where the use sets its flow's cap itself.
uint32_t FlowSharing::boundFor(uint32_t number, uint32_t end) {
  uint32_t nearest = narrowestNear(number, end);
  if (nearest == number)
    return none;
  uint32_t narrower = uses[nearest].resource;
  double most = uses[number].load / uses[nearest].load * resources[narrower].bandwidth;
  PooledList &known = members[uses[number].resource].bounds;
  for (uint32_t place = 0; place < known.size; ++place)
    if (const Bound &bound = bounds.of(known)[place]; bound.narrower == narrower && bound.most == most)
      return place;
  if (known.size == mostBounds)
    return none;
  bounds.push(known, {narrower, 0, most});
  return known.size - 1;
}

/// Adds what the use demands of its resource, or takes it away.
void FlowSharing::addDemand(const Use &use, double sign) {
  Members &at = members[use.resource];
  double demand = sign * use.load * groups[use.group].cap;
  if (use.bound == none) {
    at.demand += demand;
    return;
  }
  Bound &bound = bounds.of(at.bounds)[use.bound];
  double before = bound.bounded();
  bound.demand += demand;
  at.demand += bound.bounded() - before;
}

void FlowSharing::swapUses(uint32_t first, uint32_t second) {
  std::swap(uses[first], uses[second]);
  for (uint32_t use : {first, second})
    membersOf(uses[use].resource)[uses[use].position].use = use;
}

void FlowSharing::setContended(uint32_t number, bool isContended) {
  Resource &resource = resources[number];
  resource.isContended = isContended;
  resource.load = 0;
  resource.fastest = unlimited;
  for (const Member &member : membersOf(number)) {
    Group &group = groups[member.group];
    uint32_t use = member.use;
    resource.load += uses[use].load * group.charged;
    swapUses(use, group.uses.first + (isContended ? group.numContended++ : --group.numContended));
  }
  markDirty(number);
}

/// Whether these are the group's uses, in any order.
bool FlowSharing::hasUses(const Group &group, std::span<const ResourceUse> wanted) const {
  std::span<const Use> all = uses.of(group.uses);
  auto areEqual = [](const Use &use, const ResourceUse &other) {
    return use.resource == other.resource && use.load == other.load;
  };
  for (size_t i = 0; i < all.size() && all.size() == wanted.size(); ++i)
    if (!areEqual(all[i], wanted[i]) &&
        std::ranges::none_of(all, [&](const Use &use) { return areEqual(use, wanted[i]); }))
      return false;
  return all.size() == wanted.size();
}

/// The group with exactly these uses; none.
uint32_t FlowSharing::findGroup(std::span<const ResourceUse> wanted, uint64_t hash) {
  uint32_t number = placeOf(hash);
  while (number != none && (groups[number].hash != hash || !hasUses(groups[number], wanted)))
    number = groups[number].nextAlike;
  return number;
}

void FlowSharing::addByHash(uint32_t number) {
  uint32_t &place = placeOf(groups[number].hash);
  groups[number].nextAlike = place;
  place = number;
}

/// Before a group is added.
void FlowSharing::makeRoomByHash() {
  if (groups.size() - freeGroups.size() <= groupsByHash.size())
    return;
  groupsByHash.assign(2 * groupsByHash.size(), none);
  for (uint32_t number = 0; number < groups.size(); ++number)
    if (groups[number].numFlows > 0)
      addByHash(number);
}

uint32_t FlowSharing::makeGroup(std::span<const ResourceUse> wanted, uint64_t hash) {
  if (freeGroups.empty()) {
    freeGroups.push_back(uint32_t(groups.size()));
    groups.emplace_back();
  }
  uint32_t number = freeGroups.back();
  freeGroups.pop_back();
  Group &group = groups[number];
  PooledList noEndings{group.endings.first, 0, group.endings.room};
  group = {};
  group.endings = noEndings;
  group.hash = hash;
  group.cap = unlimited;
  group.uses = uses.make(wanted.size());
  group.bottleneck = none;
  uint32_t first = group.uses.first, end = first;
  for (const ResourceUse &use : wanted) {
    uses[end++] = {use.load, number, use.resource, 0, none};
    if (double alone = resources[use.resource].bandwidth / use.load; alone < group.cap) {
      group.cap = alone;
      group.narrowest = end - 1;
    }
  }
  for (uint32_t use = first; use < end; ++use) {
    PooledList &all = members[uses[use].resource].all;
    uses[use].bound = boundFor(use, end);
    uses[use].position = all.size;
    memberPool.push(all, {use, number});
  }
  group.narrowest = uses[group.narrowest].resource; // uses change their places from here on
  for (uint32_t use = first; use < end; ++use)
    if (resources[uses[use].resource].isContended)
      swapUses(use, first + group.numContended++);
  makeRoomByHash();
  addByHash(number);
  return number;
}

static uint64_t hashOf(const ResourceUse &use) {
  uint64_t hash = std::bit_cast<uint64_t>(use.load) ^ (use.resource + 1) * 0x9e3779b97f4a7c15;
  hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccd;
  return hash ^ hash >> 32;
}

uint32_t FlowSharing::start(double bytes, std::span<const ResourceUse> wanted) {
  uint64_t hash = 0;
  for (const ResourceUse &use : wanted) // in any order
    hash += hashOf(use);
  uint32_t number = findGroup(wanted, hash);
  if (number == none)
    number = makeGroup(wanted, hash);
  Group &group = groups[number];
  ++group.numFlows;
  for (const Use &use : uses.of(group.uses))
    addDemand(use, 1);
  for (const ResourceUse &use : wanted) {
    const Resource &resource = resources[use.resource];
    if (!resource.isContended && members[use.resource].demand > resource.bandwidth * (1 + 1e-9))
      setContended(use.resource, true);
    else if (resource.isContended && isFull(resource, resource.load))
      markDirty(use.resource);
  }
  if (freeFlows.empty()) {
    freeFlows.push_back(uint32_t(flows.size()));
    flows.emplace_back();
  }
  uint32_t flow = freeFlows.back();
  freeFlows.pop_back();
  flows[flow] = {number, bytes, true};
  started.push_back(flow);
  return flow;
}

void FlowSharing::removeGroup(uint32_t number) {
  Group &group = groups[number];
  for (const Use &use : uses.of(group.uses)) {
    Members &at = members[use.resource];
    std::span<Member> all = membersOf(use.resource);
    all[use.position] = all.back();
    uses[all.back().use].position = use.position;
    memberPool.pop(at.all);
    if (at.all.size == 0) { // no rounding error is carried along
      at.demand = resources[use.resource].load = 0;
      at.bounds.size = 0;
      resources[use.resource].isContended = false;
    }
  }
  uint32_t *place = &placeOf(group.hash);
  while (*place != number)
    place = &groups[*place].nextAlike;
  *place = group.nextAlike;
  if (group.bottleneck != none)
    --resources[group.bottleneck].numLimited;
  ends.set(number, EarliestTime::never);
  uses.clear(group.uses);
  freeGroups.push_back(number);
}

void FlowSharing::end(uint32_t flow) {
  uint32_t number = flows[flow].group;
  Group &group = groups[number];
  flows[flow].isOpen = false;
  --group.numFlows;
  group.charged -= group.rate;
  std::span<const Use> all = uses.of(group.uses);
  for (const Use &use : all) {
    Resource &resource = resources[use.resource];
    if (resource.isContended && isFull(resource, resource.load))
      markDirty(use.resource);
    addDemand(use, -1);
    resource.load -= use.load * group.rate;
  }
  if (group.numFlows == 0)
    removeGroup(number);
  else
    shrunk.push_back(number);
  for (const Use &use : all)
    if (const Resource &resource = resources[use.resource];
        resource.isContended && members[use.resource].demand < resource.bandwidth * farFromFull)
      setContended(use.resource, false);
  freeFlows.push_back(flow);
}

void FlowSharing::join(uint32_t number) {
  Group &group = groups[number];
  if (isFilled(group))
    return;
  group.round = round;
  group.index = uint32_t(filled.size());
  auto firstUse = uint32_t(filledUses.size());
  for (const Use &use : contendedUses(group))
    filledUses.push_back({use.load, use.resource, none, group.index, none});
  double cap = resources[group.narrowest].isContended ? unlimited : group.cap;
  filled.push_back(
      {number, none, 0, double(group.numFlows), group.charged, cap, firstUse, uint32_t(filledUses.size()), false});
  if (group.bottleneck != none)
    --resources[group.bottleneck].numLimited;
}

void FlowSharing::joinLimitedBy(uint32_t number) {
  if (resources[number].numLimited == 0)
    return;
  for (const Member &member : membersOf(number))
    if (groups[member.group].bottleneck == number)
      join(member.group);
}

/// All that resources connect with the flows so far: enough in any case.
void FlowSharing::joinAllConnected() {
  ++pass;
  for (size_t next = 0; next < filled.size(); ++next) {
    for (const Use &use : contendedUses(groups[filled[next].group])) {
      Resource &resource = resources[use.resource];
      if (resource.pass == pass)
        continue;
      resource.pass = pass;
      for (const Member &member : membersOf(use.resource))
        join(member.group);
    }
  }
}

/// Counts what the other flows leave of every resource.
void FlowSharing::prepare() {
  ++pass;
  reached.clear();
  for (Filled &member : filled)
    member.isFixed = false;
  for (uint32_t number = 0; number < filledUses.size(); ++number) {
    FilledUse &use = filledUses[number];
    const Filled &member = filled[use.index];
    Resource &resource = resources[use.resource];
    if (resource.pass != pass) {
      resource.pass = pass;
      resource.reached = uint32_t(reached.size());
      reached.push_back({use.resource, none, 0, 0, resource.bandwidth - resource.load, 0, 0, 0, false});
    }
    use.reached = resource.reached;
    Reached &at = reached[use.reached];
    at.left += use.load * member.charged;
    at.weight += use.load * member.numFlows;
    ++at.numOpen;
    use.next = at.firstUse;
    at.firstUse = number;
  }
  for (Reached &at : reached) {
    at.numFilled = at.numOpen;
    bool hasOthers = at.numFilled < members[at.resource].all.size;
    at.left = hasOthers ? std::max(at.left, 0.0) : resources[at.resource].bandwidth;
  }
}

void FlowSharing::fix(Filled &member, double rate, uint32_t bottleneck) {
  member.isFixed = true;
  member.rate = rate;
  member.bottleneck = bottleneck;
  for (const FilledUse &use : usesOf(member)) {
    Reached &at = reached[use.reached];
    at.left -= use.load * rate * member.numFlows;
    at.weight -= use.load * member.numFlows;
    at.fastest = std::max(at.fastest, rate);
    --at.numOpen;
  }
}

void FlowSharing::fill() {
  levels.clear();
  for (uint32_t number = 0; number < reached.size(); ++number)
    levels.push_back({reached[number].left / reached[number].weight, number});
  std::ranges::make_heap(levels, isLater);
  byCap.clear();
  for (uint32_t index = 0; index < filled.size(); ++index)
    if (filled[index].cap < unlimited)
      byCap.push_back(index);
  if (byCap.size() > 1)
    std::ranges::sort(byCap, {}, [&](uint32_t index) { return std::pair(filled[index].cap, index); });
  for (uint32_t index : byCap) {
    Filled &member = filled[index];
    while (!member.isFixed && !levels.empty() && levels.front().rate < member.cap)
      fillNextLevel();
    if (!member.isFixed)
      fix(member, member.cap, none);
  }
  while (!levels.empty())
    fillNextLevel();
}

/// Gives the flows of the resource that is full first their rates.
void FlowSharing::fillNextLevel() {
  std::ranges::pop_heap(levels, isLater);
  Level level = levels.back();
  levels.pop_back();
  Reached &at = reached[level.reached];
  if (at.numOpen == 0)
    return;
  // Since it was noted, flows of the resource may have got less than their part, and leave the others more.
  double rate = std::max(at.left, 0.0) / at.weight;
  if (rate > level.rate * (1 + 1e-12)) {
    levels.push_back({rate, level.reached});
    std::ranges::push_heap(levels, isLater);
    return;
  }
  at.isLimit = true;
  at.level = level.rate;
  for (uint32_t use = at.firstUse; use != none; use = filledUses[use].next)
    if (Filled &member = filled[filledUses[use].index]; !member.isFixed)
      fix(member, level.rate, at.resource);
}

/// Whether flows may have to join that are not filled. Looking at all of them takes longer.
bool FlowSharing::mayLoseBottleneck(const Reached &at) const {
  const Resource &resource = resources[at.resource];
  if (at.numFilled == members[at.resource].all.size)
    return false;
  double fastest = std::max(at.fastest, resource.fastest);
  return (resource.numLimited > 0 && (!isStillFull(at) || resource.slowest < fastest * (1 - 1e-9))) ||
         (at.isLimit && resource.fastest > at.level);
}

/// Lets the flows join that are not filled, but get more at the resource than those that it limits, or are limited by
/// it no more.
void FlowSharing::joinWithoutBottleneck(const Reached &at) {
  std::span<const Member> all = membersOf(at.resource);
  double fastest = at.fastest;
  for (const Member &member : all)
    if (const Group &group = groups[member.group]; !isFilled(group))
      fastest = std::max(fastest, group.rate);
  for (const Member &member : all) {
    const Group &group = groups[member.group];
    if (isFilled(group))
      continue;
    bool losesBottleneck = group.bottleneck == at.resource && (!isStillFull(at) || group.rate < fastest * (1 - 1e-9));
    if (losesBottleneck || (at.isLimit && group.rate > at.level * (1 + 1e-9)))
      join(member.group);
  }
}

bool FlowSharing::joinThoseWithoutBottleneck() {
  size_t before = filled.size();
  for (const Reached &at : reached)
    if (mayLoseBottleneck(at))
      joinWithoutBottleneck(at);
  return filled.size() > before;
}

void FlowSharing::popEnding(Group &group) {
  std::ranges::pop_heap(endings.of(group.endings), endsLater);
  endings.pop(group.endings);
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

/// Finds which flow of the group ends first.
void FlowSharing::dropEnded(uint32_t number) {
  Group &group = groups[number];
  while (!isOpen(endings[group.endings.first], number))
    popEnding(group);
  group.firstEnd = endings[group.endings.first].end;
}

/// What started ends when its group has moved as much more as it has bytes.
void FlowSharing::placeStarted(double now) {
  for (uint32_t number : started) {
    Flow &flow = flows[number];
    Group &group = groups[flow.group];
    bool isFirst = group.endings.size == 0;
    if (isFirst && group.rate == 0)
      group.since = now;
    flow.end += movedAt(group, now);
    group.firstEnd = isFirst ? flow.end : std::min(group.firstEnd, flow.end);
    endings.push(group.endings, {flow.end, number});
    std::ranges::push_heap(endings.of(group.endings), endsLater);
    join(flow.group);
  }
}

/// Notes when the group's first flow ends.
void FlowSharing::placeEnd(uint32_t number, double now) {
  const Group &group = groups[number];
  ends.set(number, now + std::max(group.firstEnd - movedAt(group, now), 0.0) / group.rate);
}

void FlowSharing::setBottleneck(Group &group, uint32_t number) {
  group.bottleneck = number;
  if (number == none)
    return;
  Resource &resource = resources[number];
  bool isFirst = resource.numLimited++ == 0;
  resource.slowest = isFirst ? group.rate : std::min(resource.slowest, group.rate);
  resource.fastest = isFirst ? group.rate : std::max(resource.fastest, group.rate);
}

void FlowSharing::apply(double now) {
  for (const Filled &member : filled) {
    Group &group = groups[member.group];
    bool isSame = std::abs(member.rate - group.rate) <= 1e-12 * member.rate;
    double rate = isSame ? group.rate : member.rate, charged = rate * member.numFlows;
    for (const FilledUse &use : usesOf(member))
      resources[use.resource].load += use.load * (charged - group.charged);
    group.charged = charged;
    if (!isSame) {
      group.moved = movedAt(group, now);
      group.since = now;
      group.rate = rate;
      placeEnd(member.group, now);
    }
    setBottleneck(group, member.bottleneck);
  }
  for (const Reached &at : reached)
    if (Resource &resource = resources[at.resource]; resource.numLimited == 0)
      resource.fastest = unlimited;
  for (uint32_t number : started)
    placeEnd(flows[number].group, now);
  for (uint32_t number : shrunk)
    if (groups[number].numFlows > 0)
      placeEnd(number, now);
}

void FlowSharing::settle(double now) {
  constexpr int mostWaves = 12;
  if (started.empty() && dirty.empty() && shrunk.empty())
    return;
  ++round;
  filled.clear();
  filledUses.clear();
  reached.clear();
  placeStarted(now);
  for (uint32_t number : shrunk)
    if (groups[number].numFlows > 0)
      dropEnded(number);
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
  apply(now);
  started.clear();
  shrunk.clear();
}

} // namespace kolo::cost
