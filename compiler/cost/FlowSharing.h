// Flows that share resources max-min fairly, while flows start and end. Used by Simulator. No MLIR here.
//
// Rates come from progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): all rates grow alike
// until a resource is full; its flows keep their rates, and the others go on. A start or an end changes the rates of
// those flows only that full resources connect it with, so only these are computed again. Most resources can never be
// full: what flows take of them is bounded by a narrower resource that all of these flows take too. Such resources are
// not looked at. Flows with the same uses always have the same rate: they are a group, which is filled as one. Of each
// group it is known when its first flow ends.
#pragma once

#include "compiler/cost/EarliestTime.h"
#include "compiler/cost/ListPool.h"

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

  /// Gives all flows their rates after what started and ended at time `now`.
  void settle(double now);
  /// When the first flow ends, if all keep their rates; infinity: there is none.
  double nextEnd() const { return ends.time(); }
  /// Replaces `ending` by the flows that end until then. The caller ends all of them.
  void findEnding(double until, std::vector<uint32_t> &ending);

  size_t numFlows() const { return flows.size() - freeFlows.size(); }
  double rateOf(uint32_t flow) const { return groups[flows[flow].group].rate; }

private:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr double unlimited = std::numeric_limits<double>::infinity();
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
    double firstEnd;           // of its flows, as Flow's
    uint32_t numFlows;
    uint32_t narrowest; // the resource that sets its cap
    PooledList uses;    // those of contended resources come first
    uint32_t numContended;
    uint32_t bottleneck; // none: it has its cap
    uint32_t index;      // among the filled, in the round when it was filled
    uint32_t round;
    uint64_t hash;      // of its uses
    uint32_t nextAlike; // another group in the same place of `groupsByHash`
    PooledList endings; // a heap; flows that ended before their time are still in it
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
    // The rates of the groups that it limits, and their number, without those that are being filled. Its other groups
    // are not faster than the fastest.
    double slowest = 0, fastest = unlimited;
    uint32_t numLimited = 0;
    uint32_t reached = 0;     // number among those that filling reached
    uint32_t pass = 0;        // that reached it last
    bool isContended = false; // whether it could be full: else it limits nobody
    bool isDirty = false;
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
    PooledList all, bounds;
    double demand = 0; // at most: of its flows, if each had its cap, within the bounds
  };
  /// What filling gives a group, and what it needs of it.
  struct Filled {
    uint32_t group;
    uint32_t bottleneck;
    double rate;
    double numFlows, charged;  // as the group's
    double cap;                // as the group's; infinity: its narrowest resource is contended, and full no later
    uint32_t firstUse, endUse; // of `filledUses`
    bool isFixed;
  };
  /// What a group that is filled takes of a contended resource.
  struct FilledUse {
    double load;
    uint32_t resource;
    uint32_t reached; // as the resource's
    uint32_t index;   // of the group, among the filled
    uint32_t next;    // of the resource's
  };
  /// A contended resource of groups that are filled.
  struct Reached {
    uint32_t resource;
    uint32_t firstUse;           // of `filledUses`
    uint32_t numOpen, numFilled; // groups: those without a rate yet, and all
    double left, weight;         // bandwidth that is not given yet, and loads of the flows without a rate
    double level, fastest;       // the rate at which it was full, if it is a limit; the largest rate
    bool isLimit;
  };
  struct Level {
    double rate;
    uint32_t reached;
  };
  static bool isLater(const Level &a, const Level &b) {
    return a.rate != b.rate ? a.rate > b.rate : a.reached > b.reached;
  }

  static bool isFull(const Resource &resource, double load) { return load >= resource.bandwidth * (1 - 1e-9); }
  std::span<Member> membersOf(uint32_t resource) { return memberPool.of(members[resource].all); }
  std::span<const Use> contendedUses(const Group &group) const { return uses.of(group.uses).first(group.numContended); }
  bool hasUses(const Group &group, std::span<const ResourceUse> wanted) const;
  uint32_t &placeOf(uint64_t hash) { return groupsByHash[hash & (groupsByHash.size() - 1)]; }
  uint32_t findGroup(std::span<const ResourceUse> wanted, uint64_t hash);
  void addByHash(uint32_t group);
  void makeRoomByHash();
  uint32_t makeGroup(std::span<const ResourceUse> wanted, uint64_t hash);
  void removeGroup(uint32_t group);
  double movedAt(const Group &group, double now) const { return group.moved + group.rate * (now - group.since); }
  void placeStarted(double now);
  void popEnding(Group &group);
  void dropEnded(uint32_t group);
  void placeEnd(uint32_t group, double now);
  void markDirty(uint32_t resource);
  uint32_t narrowestNear(uint32_t use, uint32_t endOfUses) const;
  uint32_t boundFor(uint32_t use, uint32_t endOfUses);
  void addDemand(const Use &use, double sign);
  void setContended(uint32_t resource, bool isContended);
  void swapUses(uint32_t first, uint32_t second);
  void join(uint32_t group);
  void joinLimitedBy(uint32_t resource);
  void joinAllConnected();
  std::span<const FilledUse> usesOf(const Filled &member) const {
    return std::span(filledUses).subspan(member.firstUse, member.endUse - member.firstUse);
  }
  void prepare();
  void fill();
  void fillNextLevel();
  void fix(Filled &member, double rate, uint32_t bottleneck);
  bool joinThoseWithoutBottleneck();
  bool isStillFull(const Reached &at) const {
    const Resource &resource = resources[at.resource];
    return isFull(resource, resource.bandwidth - at.left);
  }
  bool mayLoseBottleneck(const Reached &at) const;
  void joinWithoutBottleneck(const Reached &at);
  void setBottleneck(Group &group, uint32_t resource);
  void apply(double now);
  bool isOpen(const Ending &ending, uint32_t group) const {
    const Flow &flow = flows[ending.flow];
    return flow.isOpen && flow.group == group && flow.end == ending.end;
  }
  bool isFilled(const Group &group) const { return group.round == round; }

  std::vector<Flow> flows;
  std::vector<Group> groups;
  std::vector<uint32_t> groupsByHash; // the first of those in each place
  ListPool<Use> uses;
  ListPool<Ending> endings;
  ListPool<Member> memberPool;
  ListPool<Bound> bounds;
  std::vector<Resource> resources;
  std::vector<Members> members; // by resource
  std::vector<uint32_t> freeFlows, freeGroups;

  uint32_t round = 0;
  uint32_t pass = 0;                            // of filling: marks resources
  std::vector<uint32_t> started, dirty, shrunk; // since the last settle: flows, resources, groups
  std::vector<Filled> filled;                   // by this one
  std::vector<FilledUse> filledUses;
  std::vector<Reached> reached; // what could limit those
  std::vector<uint32_t> byCap;  // numbers among the filled
  std::vector<Level> levels;
  EarliestTime ends; // by group: of its first flow
};

} // namespace kolo::cost
