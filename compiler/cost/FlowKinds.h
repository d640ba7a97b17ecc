// Kinds of flows, and the resources that they could fill. Used by FlowSharing.
//
// Flows with the same uses are of one kind. A resource is contended if its flows could take more of it than it has.
// Most resources never are: what flows take of them is bounded by a narrower resource that all of these flows take too.
#pragma once

#include "compiler/cost/ListPool.h"
#include "compiler/cost/NumbersByHash.h"
#include "compiler/cost/ResourceUse.h"

namespace kolo::cost {

class FlowKinds {
public:
  static constexpr uint32_t none = UINT32_MAX;

  /// Bytes per second of every resource, each more than 0.
  explicit FlowKinds(std::span<const double> bandwidths);

  /// A flow more with these uses: its kind, whose number may be that of an earlier kind that has no flows any more.
  uint32_t add(std::span<const ResourceUse> wanted);
  /// A flow of the kind less.
  void remove(uint32_t kind);

  /// The rate that a flow has alone.
  double capOf(uint32_t kind) const { return kinds[kind].cap; }
  /// What the kind's flows are a part of, for the caller; none for a new kind.
  uint32_t &groupOf(uint32_t kind) { return kinds[kind].group; }

  /// Resources that began or ceased to be contended since `forgetChanges`; some are named twice.
  std::span<const uint32_t> changes() const { return changed; }
  void forgetChanges() { changed.clear(); }
  double bandwidthOf(uint32_t resource) const { return resources[resource].bandwidth; }
  /// The caller's number of a resource; none at first.
  uint32_t &numberOf(uint32_t resource) { return resources[resource].number; }
  /// Replaces `found` by what the kind's flows take of contended resources, by the caller's numbers.
  void findContended(uint32_t kind, std::vector<ResourceUse> &found) const;
  /// Calls `visit` with each kind that uses the resource.
  template <typename Visit> void visitKinds(uint32_t resource, Visit visit) const {
    for (uint32_t use = resources[resource].firstUse; use != none; use = uses[use].next)
      visit(uses[use].kind);
  }

private:
  struct Kind {
    double cap;
    uint32_t narrowest; // the use that sets its cap
    uint32_t numFlows;
    PooledList uses;
    uint32_t group;
  };
  struct Use {
    double load;
    uint32_t resource, kind;
    uint32_t next, previous; // of the resource
    uint32_t bound;          // in the resource's bounds; none: bounded by its flow's cap alone
  };
  /// What flows take of a resource together, that all take a narrower resource.
  struct Bound {
    uint32_t narrower;
    double demand; // if each had its cap
    double most;   // when the narrower one is full
    double bounded() const { return std::min(demand, most); }
  };
  struct Resource {
    double bandwidth;
    double demand = 0; // at most: of its flows, if each had its cap, within the bounds
    uint32_t firstUse = none;
    uint32_t number = none;
    PooledList bounds = {};
    bool isBounded = false; // whether bounds are counted: not before flows with their caps demand too much
    bool isContended = false;
  };

  uint32_t make(std::span<const ResourceUse> wanted);
  void clear(uint32_t kind);
  uint32_t narrowestNear(uint32_t use) const;
  uint32_t boundFor(uint32_t use);
  void addDemand(const Use &use, double numFlows);
  void bound(uint32_t resource);

  std::vector<Kind> kinds;
  std::vector<uint32_t> freeKinds;
  NumbersByHash byHash;
  ListPool<Use> uses;
  ListPool<Bound> bounds;
  std::vector<Resource> resources;
  std::vector<uint32_t> changed; // resources
};

} // namespace kolo::cost
