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
  const Group &group = groups[uses[number].group];
  auto setsCap = [&](const Use &use) { return resources[use.resource].bandwidth <= use.load * group.cap * (1 + 1e-9); };
  uint32_t before = number - group.firstUse, after = end - 1 - number;
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
  double demand = sign * use.load * groups[use.group].cap;
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
    Group &group = groups[member.group];
    uint32_t use = member.use;
    resource.load += uses[use].load * group.charged;
    swapUses(use, group.firstUse + (isContended ? group.numContended++ : --group.numContended));
  }
  markDirty(number);
}

/// The group with exactly these uses; none.
uint32_t FlowSharing::findGroup(std::span<const ResourceUse> wanted, uint64_t hash) const {
  auto [first, end] = groupsByHash.equal_range(hash);
  for (auto entry = first; entry != end; ++entry) {
    const Group &group = groups[entry->second];
    auto has = [&](const Use &use) {
      return std::ranges::any_of(
          wanted, [&](const ResourceUse &other) { return other.resource == use.resource && other.load == use.load; });
    };
    if (group.numUses == wanted.size() &&
        std::ranges::all_of(std::span(uses).subspan(group.firstUse, group.numUses), has))
      return entry->second;
  }
  return none;
}

uint32_t FlowSharing::makeGroup(std::span<const ResourceUse> wanted, uint64_t hash) {
  if (freeGroups.empty()) {
    freeGroups.push_back(uint32_t(groups.size()));
    groups.emplace_back();
  }
  uint32_t number = freeGroups.back();
  freeGroups.pop_back();
  Group &group = groups[number];
  std::vector<Ending> endings = std::move(group.endings);
  endings.clear();
  group = {};
  group.endings = std::move(endings);
  group.hash = hash;
  group.cap = std::numeric_limits<double>::infinity();
  group.firstUse = allocateUses(wanted.size());
  group.numUses = uint32_t(wanted.size());
  group.bottleneck = none;
  uint32_t end = group.firstUse;
  for (const ResourceUse &use : wanted) {
    uses[end++] = {use.load, number, use.resource, 0, none};
    if (double alone = resources[use.resource].bandwidth / use.load; alone < group.cap) {
      group.cap = alone;
      group.narrowest = end - 1;
    }
  }
  for (uint32_t use = group.firstUse; use < end; ++use) {
    std::vector<Member> &all = members[uses[use].resource].all;
    uses[use].bound = boundFor(use, end);
    uses[use].position = uint32_t(all.size());
    all.push_back({use, number});
  }
  group.narrowest = uses[group.narrowest].resource; // uses change their places from here on
  for (uint32_t use = group.firstUse; use < end; ++use)
    if (resources[uses[use].resource].isContended)
      swapUses(use, group.firstUse + group.numContended++);
  groupsByHash.emplace(hash, number);
  return number;
}

uint32_t FlowSharing::start(double bytes, std::span<const ResourceUse> wanted) {
  uint64_t hash = 0;
  for (const ResourceUse &use : wanted) // in any order
    hash += (std::bit_cast<uint64_t>(use.load) ^ (use.resource + 1) * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
  uint32_t number = findGroup(wanted, hash);
  if (number == none)
    number = makeGroup(wanted, hash);
  Group &group = groups[number];
  ++group.numFlows;
  for (uint32_t use = group.firstUse; use < group.firstUse + group.numUses; ++use)
    addDemand(uses[use], 1);
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
  for (uint32_t i = group.firstUse; i < group.firstUse + group.numUses; ++i) {
    const Use &use = uses[i];
    Members &at = members[use.resource];
    Member last = at.all.back();
    at.all[use.position] = last;
    uses[last.use].position = use.position;
    at.all.pop_back();
    if (at.all.empty()) { // no rounding error is carried along
      at.demand = resources[use.resource].load = 0;
      at.bounds.clear();
      resources[use.resource].isContended = false;
    }
  }
  auto [first, end] = groupsByHash.equal_range(group.hash);
  groupsByHash.erase(std::find_if(first, end, [&](const auto &entry) { return entry.second == number; }));
  freeUses[size_t(std::countr_zero(std::bit_ceil(size_t(group.numUses))))].push_back(group.firstUse);
  freeGroups.push_back(number);
}

void FlowSharing::end(uint32_t flow) {
  uint32_t number = groupOf(flow);
  Group &group = groups[number];
  flows[flow].isOpen = false;
  --group.numFlows;
  group.charged -= group.rate;
  for (uint32_t i = group.firstUse; i < group.firstUse + group.numUses; ++i) {
    const Use &use = uses[i];
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
  for (uint32_t i = group.firstUse; i < group.firstUse + group.numUses; ++i)
    if (uint32_t use = uses[i].resource;
        resources[use].isContended && members[use].demand < resources[use].bandwidth * farFromFull)
      setContended(use, false);
  freeFlows.push_back(flow);
}

void FlowSharing::join(uint32_t number) {
  Group &group = groups[number];
  if (isFilled(group))
    return;
  group.round = round;
  group.index = uint32_t(filled.size());
  filled.push_back({number, 0, none});
}

void FlowSharing::joinLimitedBy(uint32_t number) {
  for (const Member &member : members[number].all)
    if (groups[member.group].bottleneck == number)
      join(member.group);
}

/// All that resources connect with the flows so far: enough in any case.
void FlowSharing::joinAllConnected() {
  ++pass;
  for (size_t next = 0; next < filled.size(); ++next) {
    for (const Use &use : contendedUses(groups[filled[next].group])) {
      Resource &resource = resources[use.resource];
      if (resource.round == pass)
        continue;
      resource.round = pass;
      for (const Member &member : members[use.resource].all)
        join(member.group);
    }
  }
}

/// Counts what the other flows leave of every resource.
void FlowSharing::prepare() {
  ++pass;
  reached.clear();
  for (const Filled &member : filled) {
    Group &group = groups[member.group];
    group.isFixed = false;
    for (const Use &use : contendedUses(group)) {
      Resource &resource = resources[use.resource];
      if (resource.round != pass) {
        resource.round = pass;
        resource.left = resource.bandwidth - resource.load;
        resource.weight = 0;
        resource.numOpen = 0;
        resource.isLimit = false;
        reached.push_back(use.resource);
      }
      resource.left += use.load * group.charged;
      resource.weight += use.load * group.numFlows;
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
  Group &group = groups[number];
  group.isFixed = true;
  filled[group.index].rate = rate;
  filled[group.index].bottleneck = bottleneck;
  for (const Use &use : contendedUses(group)) {
    Resource &resource = resources[use.resource];
    resource.left -= use.load * rate * group.numFlows;
    resource.weight -= use.load * group.numFlows;
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
    if (!resources[groups[member.group].narrowest].isContended) // else that resource's level is no more than the cap
      byCap.push_back(member.group);
  if (byCap.size() > 1)
    std::ranges::sort(byCap, {}, [&](uint32_t group) { return std::pair(groups[group].cap, group); });
  for (uint32_t narrowest : byCap) {
    while (!groups[narrowest].isFixed && !levels.empty() && levels.front().rate < groups[narrowest].cap)
      fillNextLevel();
    if (!groups[narrowest].isFixed)
      fix(narrowest, groups[narrowest].cap, none);
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
    if (const Group &group = groups[member.group]; isFilled(group) && !group.isFixed)
      fix(member.group, level.rate, level.resource);
}

/// Lets the flows join that are not filled, but get more at the resource than those that it limits, or are limited by
/// it no more.
void FlowSharing::checkResource(uint32_t number) {
  Resource &resource = resources[number];
  double most = 0;
  const std::vector<Member> &all = members[number].all;
  for (const Member &member : all) {
    const Group &group = groups[member.group];
    most = std::max(most, isFilled(group) ? filled[group.index].rate : group.rate);
  }
  bool isStillFull = isFull(resource, resource.bandwidth - resource.left);
  for (const Member &member : all) {
    const Group &group = groups[member.group];
    if (isFilled(group))
      continue;
    bool losesBottleneck = group.bottleneck == number && (!isStillFull || group.rate < most * (1 - 1e-9));
    if (losesBottleneck || (resource.isLimit && group.rate > resource.level * (1 + 1e-9)))
      join(member.group);
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

void FlowSharing::findFirst(uint32_t number, std::vector<uint32_t> &ending) {
  Group &group = groups[number];
  ending.clear();
  while (!group.endings.empty()) {
    Ending next = group.endings.front();
    bool isStale = !flows[next.flow].isOpen || flows[next.flow].group != number || flows[next.flow].end != next.end;
    if (!isStale && !ending.empty() && next.end > flows[ending.front()].end * (1 + 1e-12))
      break;
    if (!isStale)
      ending.push_back(next.flow);
    std::ranges::pop_heap(group.endings, endsLater);
    group.endings.pop_back();
  }
}

/// Adds when the group's first flow ends to the changes.
void FlowSharing::announce(uint32_t number, double now) {
  Group &group = groups[number];
  if (group.announced == round)
    return;
  group.announced = round;
  auto isStale = [&](const Ending &ending) {
    const Flow &flow = flows[ending.flow];
    return !flow.isOpen || flow.group != number || flow.end != ending.end;
  };
  while (isStale(group.endings.front())) {
    std::ranges::pop_heap(group.endings, endsLater);
    group.endings.pop_back();
  }
  changes.push_back({number, now + std::max(group.endings.front().end - movedAt(group, now), 0.0) / group.rate});
}

/// What started ends when its group has moved as much more as it has bytes.
void FlowSharing::placeStarted(double now) {
  for (uint32_t number : started) {
    Flow &flow = flows[number];
    Group &group = groups[flow.group];
    if (group.endings.empty() && group.rate == 0)
      group.since = now;
    flow.end += movedAt(group, now);
    group.endings.push_back({flow.end, number});
    std::ranges::push_heap(group.endings, endsLater);
    join(flow.group);
  }
}

void FlowSharing::apply(double now) {
  for (const Filled &member : filled) {
    Group &group = groups[member.group];
    group.bottleneck = member.bottleneck;
    bool isSame = std::abs(member.rate - group.rate) <= 1e-12 * member.rate;
    double rate = isSame ? group.rate : member.rate, charged = rate * group.numFlows;
    if (charged != group.charged)
      for (const Use &use : contendedUses(group))
        resources[use.resource].load += use.load * (charged - group.charged);
    group.charged = charged;
    if (isSame)
      continue;
    group.moved = movedAt(group, now);
    group.since = now;
    group.rate = rate;
    announce(member.group, now);
  }
  for (uint32_t number : started)
    announce(groupOf(number), now);
  for (uint32_t number : shrunk)
    if (groups[number].numFlows > 0)
      announce(number, now);
}

std::span<const FlowSharing::Change> FlowSharing::settle(double now) {
  constexpr int mostWaves = 12;
  changes.clear();
  if (started.empty() && dirty.empty() && shrunk.empty())
    return changes;
  ++round;
  filled.clear();
  placeStarted(now);
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
  return changes;
}

} // namespace kolo::cost
