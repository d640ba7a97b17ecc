// Flows that share resources max-min fairly, while flows start and end. Used by Simulator. No MLIR here.
//
// Flows of the same color always have the same rate: they are a group. A group has a clock: the bytes that each of its
// flows has moved. On this clock, the end of a flow is known when it starts, whatever rates it gets.
#pragma once

#include "compiler/cost/simulation/EarliestTime.h"
#include "compiler/cost/simulation/FairRates.h"
#include "compiler/cost/simulation/FlowKinds.h"

namespace kolo::cost {

class FlowSharing {
public:
  /// Bytes per second of every resource, each more than 0. They must outlive this.
  explicit FlowSharing(std::span<const double> bandwidths) : kinds(bandwidths) {}
  /// Room for so many flows, which is made in any case once there are as many.
  void reserve(size_t numFlows);

  /// The flow's number, which may be that of an earlier flow that ended. `uses` names every resource once, and at least
  /// one. The flow has no rate before the next `settle`.
  uint32_t start(double bytes, std::span<const ResourceUse> uses);

  /// Gives all flows their rates after what started and ended at time `now`.
  void settle(double now);
  /// When the first flow ends, if all keep their rates; infinity: there is none.
  double nextEnd() const { return ends.time(); }
  /// Ends the flows that end until then, and replaces `ended` by their numbers. Not between a start and the next
  /// `settle`.
  void takeEnded(double until, std::vector<uint32_t> &ended);

  size_t numFlows() const { return flows.size() - freeFlows.size(); }
  double rateOf(uint32_t flow) const { return rates.rateOf(kinds.groupOf(flows[flow])); }

private:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr size_t leastPatience = 4;
  struct Ending {
    double end; // on the group's clock; of one that was not placed yet, its bytes
    uint32_t flow, kind;
  };
  static bool endsLater(const Ending &a, const Ending &b) { return a.end != b.end ? a.end > b.end : a.flow > b.flow; }
  struct Group {
    double rate = 0, moved = 0, since = 0; // the clock showed `moved` at time `since`
    PooledList endings = {};               // of its flows: a heap
    bool isTouched = false;
    double movedAt(double now) const { return moved + rate * (now - since); }
  };

  void touch(uint32_t group);
  uint32_t findGroup(uint32_t kind, uint32_t last);
  void removeGroup(uint32_t group);
  bool isWorthMerging();
  void regroup(double now, bool anew);
  void moveFlows(uint32_t from, double now);
  void addEnding(const Ending &ending, uint32_t group);
  void place(const Ending &started, double now);
  void placeEnd(uint32_t group, double now);

  FlowKinds kinds;
  FairRates rates;
  std::vector<uint32_t> flows; // their kinds
  std::vector<uint32_t> freeFlows;
  std::vector<Group> groups; // numbered as those of `rates`
  NumbersByHash groupsByColor;
  ListPool<Ending> endings;
  std::vector<Ending> started;    // since the last settle
  std::vector<uint32_t> touched;  // since then: groups that have other flows
  std::vector<uint32_t> changed;  // by this settle: groups with another rate
  std::vector<ResourceUse> found; // uses that are looked for
  EarliestTime ends;              // by group: of its first flow
  // Since classes were found anew:
  size_t work = 0, numSettled = 0;                             // groups that were filled; times of settling
  double lastFilled = std::numeric_limits<double>::infinity(); // groups in each time of settling before
  size_t patience = leastPatience;                             // how much work for each kind makes it worth again
};

} // namespace kolo::cost
