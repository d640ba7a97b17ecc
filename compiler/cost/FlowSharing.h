// Flows that share resources max-min fairly, while flows start and end. Used by Simulator. No MLIR here.
//
// Rates come from progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): all rates grow alike
// until a resource is full; its flows keep their rates, and the others go on. A start or an end changes the rates of
// those flows only that full resources connect it with, so only these are computed again. Most resources can never be
// full: what flows take of them is bounded by a narrower resource that all of these flows take too. Such resources are
// not looked at. Flows with the same uses always have the same rate: they are a group, which is filled as one. Of each
// group, the flow that ends first is known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace kolo::cost {

/// What one byte of a flow takes of a resource.
struct ResourceUse {
  uint32_t resource;
  double load;         // bytes; more than 0
  double messages = 0; // of the whole flow; for those who make flows: only the load is shared
};

class FlowSharing {
public:
  /// Bytes per second of every resource, each more than 0.
  explicit FlowSharing(std::span<const double> bandwidths);

  /// The flow's number, which may be that of an earlier flow that ended. `uses` names every resource once, and at least
  /// one. The flow has no rate before the next `settle`.
  uint32_t start(double bytes, std::span<const ResourceUse> uses);
  /// Not between a flow's start and the next `settle`.
  void end(uint32_t flow);

  /// A group whose rate or whose first flow is another one now, and when this flow ends if the group keeps the rate.
  struct Change {
    uint32_t group;
    double end;
  };
  /// Gives all flows their rates after what started and ended at time `now`. Valid until the next call.
  std::span<const Change> settle(double now);
  /// Replaces `ending` by the flows of a group that end first, all at the same time.
  void findFirst(uint32_t group, std::vector<uint32_t> &ending);

  size_t numFlows() const { return flows.size() - freeFlows.size(); }
  uint32_t groupOf(uint32_t flow) const { return flows[flow].group; }
  double rateOf(uint32_t flow) const { return groups[groupOf(flow)].rate; }

private:
  static constexpr uint32_t none = UINT32_MAX;
  struct Flow {
    uint32_t group;
    double end; // once each flow of the group has moved so many bytes
    bool isOpen;
  };
  struct Ending {
    double end;
    uint32_t flow;
  };
  static bool endsLater(const Ending &a, const Ending &b) { return a.end != b.end ? a.end > b.end : a.flow > b.flow; }
  struct Group {
    double rate, moved, since; // of each flow: bytes up to time `since`, since the group came into being
    double charged;            // what the loads of contended resources count: the rates of all flows together
    double cap;                // the rate that a flow has alone
    uint64_t hash;             // of its uses
    uint32_t numFlows;
    uint32_t narrowest; // the resource that sets its cap
    uint32_t firstUse;  // those of contended resources come first
    uint32_t numUses, numContended;
    uint32_t bottleneck; // none: it has its cap
    uint32_t index;      // among the filled, in the round when it was filled
    uint32_t round;
    uint32_t announced; // in the round when it was the last time
    bool isFixed;
    std::vector<Ending> endings; // a heap; flows that ended before their time are still in it
  };
  struct Use {
    double load;
    uint32_t group, resource;
    uint32_t position; // in the resource's members
    uint32_t bound;    // in the resource's bounds; none: bounded by its flow's cap alone
  };
  struct Resource {
    double bandwidth;
    double load = 0; // of its flows, by their rates; of a contended resource only
    // Of filling: bandwidth that is not given yet; loads and number of the flows without a rate; the rate at which it
    // was full, if it was.
    double left = 0, weight = 0, level = 0;
    uint32_t numOpen = 0, numFilled = 0; // groups
    uint32_t round = 0;
    bool isContended = false; // whether it could be full: else it limits nobody
    bool isDirty = false, isLimit = false;
  };
  struct Member {
    uint32_t use, group;
  };
  /// What flows take of a resource together, that all take a narrower resource.
  struct Bound {
    uint32_t narrower;
    double demand; // if each had its cap
    double most;   // when the narrower one is full
    double bounded() const { return std::min(demand, most); }
  };
  struct Members {
    std::vector<Member> all;
    std::vector<Bound> bounds;
    double demand = 0; // at most: of its flows, if each had its cap, within the bounds
  };
  struct Level {
    double rate;
    uint32_t resource;
  };
  static bool isLater(const Level &a, const Level &b) {
    return a.rate != b.rate ? a.rate > b.rate : a.resource > b.resource;
  }
  /// What filling gives a group.
  struct Filled {
    uint32_t group;
    double rate;
    uint32_t bottleneck;
  };

  static bool isFull(const Resource &resource, double load) { return load >= resource.bandwidth * (1 - 1e-9); }
  std::span<const Use> contendedUses(const Group &group) const {
    return std::span(uses).subspan(group.firstUse, group.numContended);
  }
  uint32_t findGroup(std::span<const ResourceUse> wanted, uint64_t hash) const;
  uint32_t makeGroup(std::span<const ResourceUse> wanted, uint64_t hash);
  void removeGroup(uint32_t group);
  double movedAt(const Group &group, double now) const { return group.moved + group.rate * (now - group.since); }
  void placeStarted(double now);
  void announce(uint32_t group, double now);
  uint32_t allocateUses(size_t number);
  void markDirty(uint32_t resource);
  uint32_t narrowestNear(uint32_t use, uint32_t endOfUses) const;
  uint32_t boundFor(uint32_t use, uint32_t endOfUses);
  void addDemand(const Use &use, double sign);
  void setContended(uint32_t resource, bool isContended);
  void swapUses(uint32_t first, uint32_t second);
  void join(uint32_t group);
  void joinLimitedBy(uint32_t resource);
  void joinAllConnected();
  void prepare();
  void fill();
  void fillNextLevel();
  void fix(uint32_t group, double rate, uint32_t bottleneck);
  bool joinThoseWithoutBottleneck();
  void checkResource(uint32_t resource);
  void apply(double now);
  bool isFilled(const Group &group) const { return group.round == round; }

  std::vector<Flow> flows;
  std::vector<Group> groups;
  std::unordered_multimap<uint64_t, uint32_t> groupsByHash;
  std::vector<Use> uses;
  std::vector<Resource> resources;
  std::vector<Members> members; // by resource
  std::vector<uint32_t> freeFlows, freeGroups;
  std::vector<std::vector<uint32_t>> freeUses; // by the binary logarithm of their room

  uint32_t round = 0;
  uint32_t pass = 0;                            // of filling: marks resources
  std::vector<uint32_t> started, dirty, shrunk; // since the last settle: flows, resources, groups
  std::vector<Filled> filled;                   // by this one
  std::vector<uint32_t> reached;                // resources that could limit those
  std::vector<uint32_t> byCap;
  std::vector<Level> levels;
  std::vector<Change> changes;
};

} // namespace kolo::cost
