// Kinds of flows, and the resources that they could fill. Used by FlowSharing.
//
// Flows with the same uses are of one kind. A resource is contended if its flows could take more of it than it has.
// Most resources never are: what flows take of them is bounded by a narrower resource that all of these flows take too.
#pragma once

#include "compiler/cost/simulation/AlikeResources.h"
#include "compiler/cost/simulation/NumbersByHash.h"

namespace kolo::cost {

class FlowKinds {
public:
  static constexpr uint32_t none = UINT32_MAX;

  /// Bytes per second of every resource, each more than 0. They must outlive this.
  explicit FlowKinds(std::span<const double> bandwidths) : bandwidths(bandwidths), numbers(bandwidths.size(), none) {
    resources.reserve(bandwidths.size());
  }
  /// Room for so many kinds.
  void reserve(size_t numKinds);

  /// A flow more with these uses: its kind, whose number may be that of an earlier kind without flows.
  uint32_t add(std::span<const ResourceUse> given);
  /// A flow of the kind less. The last one takes the kind out of its group.
  void remove(uint32_t kind);

  /// The rate that a flow has alone.
  double capOf(uint32_t kind) const { return kinds[kind].cap; }
  /// What the kind's flows are a part of, for the caller; none for a new kind.
  uint32_t &groupOf(uint32_t kind) { return groups[kind]; }
  uint32_t groupOf(uint32_t kind) const { return groups[kind]; }
  /// Also some without flows.
  size_t size() const { return kinds.size() - freeKinds.size(); }

  /// Finds the classes of contended resources, after flows came or went. If they are found `anew`, classes may join,
  /// and resources that are far from full are contended no more.
  void classify(bool anew);
  /// Of contended resources. Its kinds are those here.
  AlikeResources &alike() { return alikeResources; }

private:
  struct Kind {
    double cap;
    uint32_t narrowest; // the use that sets its cap
    uint32_t numFlows = 0;
    PooledList uses;
    bool isIdle = false; // is among those that may have no flows
  };
  struct Use {
    double load;
    uint32_t resource, kind;
    uint32_t next, previous; // of the resource
    uint32_t bound;          // in the resource's bounds; none: bounded by its flow's cap alone
    bool setsCap;            // of its flow
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
    uint32_t numFlows = 0;
    uint32_t firstUse = none;
    uint32_t alike = none; // its number there; none: it was never contended
    PooledList bounds = {};
    bool isBounded = false; // whether bounds are counted: not before flows with their caps demand too much
    bool isContended = false;
  };

  uint32_t numberOf(uint32_t resource);
  uint32_t make();
  void clear(uint32_t kind);
  void clearIdle();
  uint32_t narrowestNear(uint32_t use) const;
  uint32_t boundFor(uint32_t use);
  void addDemand(const Use &use, int numFlows);
  void bound(uint32_t resource);
  void contend(uint32_t resource);

  std::vector<Kind> kinds;
  std::vector<uint32_t> groups; // by kind
  std::vector<uint32_t> freeKinds, idleKinds;
  NumbersByHash byHash;
  ListPool<Use> uses;
  ListPool<Bound> bounds;
  std::span<const double> bandwidths;
  std::vector<uint32_t> numbers;   // by the caller's number of a resource: its number here, by its first use
  std::vector<ResourceUse> wanted; // of a flow, with the numbers here
  std::vector<Resource> resources;
  std::vector<uint32_t> contended; // resources
  AlikeResources alikeResources;
};

} // namespace kolo::cost
