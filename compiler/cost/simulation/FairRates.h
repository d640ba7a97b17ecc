// Max-min fair rates of groups of flows, while flows come and go. Used by FlowSharing.
//
// Rates come from progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): all rates grow alike
// until a resource is full; its flows keep their rates, and the others go on. A start or an end changes the rates of
// those flows only that full resources connect it with, so only these are computed again. Flows that take the same of
// the same resources always have the same rate: they are a group, which is filled as one.
#pragma once

#include "compiler/cost/simulation/ListPool.h"
#include "compiler/cost/simulation/ResourceUse.h"

#include <limits>

namespace kolo::cost {

class FairRates {
public:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  /// Bytes per second of a resource, which may be new; its groups have what they had.
  void setBandwidth(uint32_t resource, double bandwidth);
  /// A group without flows, whose number may be that of an earlier group. Its flows have at most the rate `cap`.
  uint32_t addGroup(std::span<const ResourceUse> uses, double cap);
  /// One whose flows move from another one: it has the other's rate before the next `settle`.
  uint32_t addPart(uint32_t of, std::span<const ResourceUse> uses);
  /// A group without flows.
  void removeGroup(uint32_t group);

  void addFlows(uint32_t group, uint32_t number);
  void removeFlows(uint32_t group, uint32_t number);
  /// Between groups whose uses differ by resources that cannot be full, those that began to be contended just now or
  /// ceased to be, or by resources that were parted or joined.
  void moveFlows(uint32_t from, uint32_t to, uint32_t number);
  uint32_t numFlows(uint32_t group) const { return marks[group].numFlows; }

  /// Gives all groups their rates after what has changed; each must have a flow. Appends the groups whose rate is
  /// another one. Returns how many groups were filled.
  size_t settle(std::vector<uint32_t> &changed);
  double rateOf(uint32_t group) const { return groups[group].rate; }

private:
  struct Group {
    double rate;
    double charged; // what the loads of resources count: the rates of all flows together
    double cap;
    double nextRate;         // that filling gives it
    uint32_t nextBottleneck; // none: it has its cap
    PooledList uses;
  };
  /// What a group's resources look at. It lies apart from the rest, so that more of it is in the processor's cache.
  struct Mark {
    uint32_t numFlows;
    uint32_t bottleneck; // by its rate
    uint32_t round;      // of settling, in which it was filled last
    uint32_t pass;       // of filling, that gave it a rate last
  };
  struct Use {
    double load;
    uint32_t resource;
    uint32_t position; // in the resource's members
  };
  struct Member {
    uint32_t use, group;
  };
  struct Resource {
    double bandwidth;
    double load = 0; // of its flows, by their rates
    // The rates of the groups that it limits, and their number, without those that are being filled. Its other groups
    // are not faster than the fastest.
    double slowest = 0, fastest = unlimited;
    uint32_t numLimited = 0;
    PooledList members = {};
    bool isDirty = false;
    // Of the last pass of filling that reached it:
    bool isLimit = false;
    uint32_t pass = 0;
    uint32_t numOpen = 0, numFilled = 0; // groups: those without a rate yet, and all
    double left = 0, weight = 0;         // bandwidth that is not given yet, and loads of the flows without a rate
    double level = 0, fastestFilled = 0; // the rate at which it was full, if it is a limit; the largest rate
  };
  /// The rate at which a resource is full.
  struct Level {
    double rate;
    uint32_t resource;
  };
  static bool isLater(const Level &a, const Level &b) {
    return a.rate != b.rate ? a.rate > b.rate : a.resource > b.resource;
  }

  static bool isFull(const Resource &resource, double load) { return load >= resource.bandwidth * (1 - 1e-9); }
  static bool isStillFull(const Resource &at) { return isFull(at, at.bandwidth - at.left); }
  std::span<const Use> usesOf(const Group &group) const { return uses.of(group.uses); }
  std::span<const Member> membersOf(const Resource &resource) const { return members.of(resource.members); }
  bool isFilled(uint32_t group) const { return marks[group].round == round; }
  bool isOpen(uint32_t group) const { return isFilled(group) && marks[group].pass != pass; }
  void markDirty(uint32_t resource);
  void markFull(const Group &group);
  void charge(uint32_t group, double numFlows);
  void join(uint32_t group);
  void joinLimitedBy(uint32_t resource);
  void joinAllConnected();
  void reach(uint32_t resource);
  void prepare();
  void fill();
  void fillNextLevel();
  void fix(uint32_t group, double rate, uint32_t bottleneck);
  bool joinThoseWithoutBottleneck();
  static bool mayLoseBottleneck(const Resource &at, double fastestOther);
  void joinWithoutBottleneck(uint32_t resource);
  void setBottleneck(uint32_t group, uint32_t resource);
  void apply(std::vector<uint32_t> &changed);

  std::vector<Group> groups;
  std::vector<Mark> marks; // by group
  std::vector<uint32_t> freeGroups;
  ListPool<Use> uses;
  std::vector<Resource> resources;
  ListPool<Member> members;

  uint32_t round = 0, pass = 0;
  std::vector<uint32_t> grown, dirty; // since the last settle: groups; resources whose groups get other rates
  std::vector<uint32_t> filled;       // by this one: groups
  std::vector<uint32_t> reached;      // resources that could limit those
  std::vector<uint32_t> byCap;        // those of the filled that could have their cap
  std::vector<Level> levels;          // a heap
};

} // namespace kolo::cost
