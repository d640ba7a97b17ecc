#include "compiler/cost/simulation/AlikeResources.h"

#include <functional>
#include <tuple>
#include <utility>

namespace kolo::cost {

uint32_t AlikeResources::addResource(double bandwidth) {
  resources.push_back({bandwidth});
  return uint32_t(resources.size() - 1);
}

void AlikeResources::reserve(size_t numKinds) {
  constexpr size_t usesOfEach = 4;
  kinds.reserve(numKinds);
  uses.reserve(numKinds * usesOfEach);
}

void AlikeResources::enter(uint32_t resource) { enterClass(resource, addClass()); }

void AlikeResources::leave(uint32_t number) {
  withdrawUsers(number);
  leaveClass(number);
  for (uint32_t kind : users.of(resources[number].users)) {
    PooledList &all = kinds[kind].uses;
    std::span<Use> its = uses.of(all);
    *std::ranges::find(its, number, &Use::resource) = its.back();
    uses.pop(all);
  }
  users.clear(resources[number].users);
}

void AlikeResources::addKind(uint32_t number, double cap) {
  if (number >= kinds.size())
    kinds.resize(number + 1);
  kinds[number].cap = cap;
  withdraw(number); // until it gets a color
}

void AlikeResources::removeKind(uint32_t number) {
  for (const Use &use : uses.of(kinds[number].uses))
    dropUse(use);
  uses.clear(kinds[number].uses);
}

void AlikeResources::addUse(uint32_t kind, uint32_t resource, double load) {
  withdraw(kind);
  PooledList &all = resources[resource].users;
  uses.push(kinds[kind].uses, {load, resource, all.size});
  users.push(all, kind);
}

/// At the resource; the kind still has it.
void AlikeResources::dropUse(const Use &use) {
  PooledList &all = resources[use.resource].users;
  uint32_t last = users.of(all).back();
  users.of(all)[use.place] = last;
  users.pop(all);
  std::ranges::find(uses.of(kinds[last].uses), use.resource, &Use::resource)->place = use.place;
}

/// Of so many flows more.
void AlikeResources::vote(const Kind &kind, uint64_t numFlows) {
  for (const Use &use : uses.of(kind.uses)) {
    Resource &at = resources[use.resource];
    if (!at.isShared)
      continue;
    at.signature += numFlows * mix(kind.color ^ std::bit_cast<uint64_t>(use.load) * 0x9e3779b97f4a7c15);
    if (!std::exchange(classes[at.inClass].isTouched, true))
      touched.push_back(at.inClass);
  }
}

void AlikeResources::withdraw(uint32_t number) {
  Kind &kind = kinds[number];
  if (kind.isWithdrawn)
    return;
  vote(kind, -uint64_t(kind.numFlows));
  kind.isWithdrawn = true;
  withdrawn.push_back(number);
}

void AlikeResources::withdrawUsers(uint32_t resource) {
  for (uint32_t kind : users.of(resources[resource].users))
    withdraw(kind);
}

void AlikeResources::recolor() {
  for (uint32_t number : withdrawn) {
    Kind &kind = kinds[number];
    kind.isWithdrawn = false;
    uint64_t color = mix(std::bit_cast<uint64_t>(kind.cap));
    for (const Use &use : uses.of(kind.uses))
      color += hashOf(resources[use.resource].inClass, use.load);
    if (std::exchange(kind.color, color) != color && !std::exchange(kind.isRecolored, true))
      changedKinds.push_back(number);
    vote(kind, kind.numFlows);
  }
  withdrawn.clear();
}

uint32_t AlikeResources::addClass() {
  if (freeClasses.empty()) {
    classes.emplace_back();
    return uint32_t(classes.size() - 1);
  }
  uint32_t number = freeClasses.back();
  freeClasses.pop_back();
  return number;
}

void AlikeResources::setShared(uint32_t resource, bool isShared) {
  numShared += size_t(isShared) - size_t(resources[resource].isShared);
  resources[resource].isShared = isShared;
}

/// All its users are withdrawn.
void AlikeResources::enterClass(uint32_t number, uint32_t inClass) {
  Resource &resource = resources[number];
  Class &to = classes[inClass];
  resource.inClass = inClass;
  resource.place = uint32_t(to.resources.size());
  resource.signature = 0;
  to.resources.push_back(number);
  if (to.resources.size() == 2)
    setShared(to.resources[0], true);
  setShared(number, to.resources.size() > 1);
  to.bandwidth = resource.bandwidth * double(to.resources.size());
  changedClasses.push_back(inClass);
}

/// All its users are withdrawn.
void AlikeResources::leaveClass(uint32_t number) {
  Resource &resource = resources[number];
  uint32_t inClass = std::exchange(resource.inClass, none);
  Class &from = classes[inClass];
  uint32_t last = from.resources.back();
  from.resources[resource.place] = last;
  resources[last].place = resource.place;
  from.resources.pop_back();
  setShared(number, false);
  if (from.resources.size() == 1)
    setShared(from.resources[0], false);
  from.bandwidth = resource.bandwidth * double(from.resources.size());
  if (from.resources.empty())
    emptied.push_back(inClass);
  changedClasses.push_back(inClass);
}

/// Where resources of a class have other flows than each other. The largest part keeps the class's number.
void AlikeResources::splitTouched() {
  struct Member {
    uint32_t inClass;
    uint64_t signature;
    uint32_t resource;
    auto operator<=>(const Member &) const = default;
    bool isWith(const Member &other) const { return inClass == other.inClass && signature == other.signature; }
  };
  std::vector<Member> members; // of classes that part
  for (uint32_t number : touched) {
    Class &at = classes[number];
    at.isTouched = false;
    auto signatureOf = [&](uint32_t resource) { return resources[resource].signature; };
    if (std::ranges::adjacent_find(at.resources, std::ranges::not_equal_to(), signatureOf) != at.resources.end())
      for (uint32_t resource : at.resources)
        members.push_back({number, signatureOf(resource), resource});
  }
  touched.clear();
  std::ranges::sort(members);
  std::vector<std::span<const Member>> parts;
  for (size_t first = 0, end = 0; first < members.size(); first = end) {
    while (end < members.size() && members[end].isWith(members[first]))
      ++end;
    parts.push_back(std::span(members).subspan(first, end - first));
  }
  std::ranges::sort(parts, {}, [](auto part) { return std::tuple(part[0].inClass, -int64_t(part.size()), part[0]); });
  for (size_t next = 1; next < parts.size(); ++next)
    if (parts[next][0].inClass == parts[next - 1][0].inClass)
      for (uint32_t inClass = addClass(); const Member &member : parts[next]) {
        withdrawUsers(member.resource);
        leaveClass(member.resource);
        enterClass(member.resource, inClass);
      }
}

void AlikeResources::refine() {
  recolor();
  while (!touched.empty()) {
    splitTouched();
    recolor();
  }
}

void AlikeResources::findAnew() {
  for (uint32_t kind = 0; kind < kinds.size(); ++kind)
    if (!std::exchange(kinds[kind].isWithdrawn, true)) // without its votes: signatures begin at 0 again
      withdrawn.push_back(kind);
  std::vector<uint32_t> added; // a class for each bandwidth
  for (uint32_t number = 0; number < resources.size(); ++number) {
    const Resource &resource = resources[number];
    if (resource.inClass == none)
      continue;
    leaveClass(number);
    auto known = std::ranges::find(added, resource.bandwidth, [&](uint32_t inClass) {
      return resources[classes[inClass].resources[0]].bandwidth;
    });
    enterClass(number, known != added.end() ? *known : added.emplace_back(addClass()));
  }
  refine();
}

void AlikeResources::findUses(uint32_t kind, std::vector<ResourceUse> &found) const {
  found.clear();
  for (const Use &use : uses.of(kinds[kind].uses)) {
    uint32_t inClass = resources[use.resource].inClass;
    auto known = std::ranges::find(found, inClass, &ResourceUse::resource);
    if (known != found.end())
      known->load += use.load;
    else
      found.push_back({inClass, use.load});
  }
}

void AlikeResources::forget() {
  freeClasses.insert(freeClasses.end(), emptied.begin(), emptied.end());
  emptied.clear();
  changedClasses.clear();
  for (uint32_t kind : changedKinds)
    kinds[kind].isRecolored = false;
  changedKinds.clear();
}

} // namespace kolo::cost
