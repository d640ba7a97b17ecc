// Flows that share resources max-min fairly, while flows start and end. Used by Simulator. No MLIR here.
//
// Flows that take the same of all contended resources, and have the same rate alone, always have the same rate: they
// are a group. A group has a clock: the bytes that each of its flows has moved. On this clock, the end of a flow is
// known when it starts, whatever rates it gets.
#pragma once

#include "compiler/cost/EarliestTime.h"
#include "compiler/cost/FairRates.h"
#include "compiler/cost/FlowKinds.h"

namespace kolo::cost {

class FlowSharing {
public:
  /// Bytes per second of every resource, each more than 0.
  explicit FlowSharing(std::span<const double> bandwidths) : kinds(bandwidths) {}

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
  double rateOf(uint32_t flow) const { return rates.rateOf(flows[flow].group); }

private:
  static constexpr uint32_t none = UINT32_MAX;
  struct Flow {
    double end; // on its group's clock
    uint32_t kind;
    uint32_t group; // none: it has ended, or was not placed yet
  };
  struct Ending {
    double end;
    uint32_t flow;
  };
  static bool endsLater(const Ending &a, const Ending &b) { return a.end != b.end ? a.end > b.end : a.flow > b.flow; }
  struct Group {
    double rate = 0, moved = 0, since = 0; // the clock showed `moved` at time `since`
    double firstEnd = 0;
    PooledList endings; // a heap; flows that ended before their time are still in it
    bool isTouched = false;
    double movedAt(double now) const { return moved + rate * (now - since); }
  };

  void touch(uint32_t group);
  uint32_t findGroup(uint32_t kind, uint32_t last);
  void removeGroup(uint32_t group);
  void regroup(double now);
  void moveFlows(uint32_t from, double now);
  void addEnding(const Ending &ending, uint32_t group);
  void popEnding(Group &group);
  void place(uint32_t flow, double now);
  void dropEnded(uint32_t group);
  void placeEnd(uint32_t group, double now);
  bool isOpen(const Ending &ending, uint32_t group) const {
    return flows[ending.flow].group == group && flows[ending.flow].end == ending.end;
  }

  FlowKinds kinds;
  FairRates rates;
  std::vector<Flow> flows;
  std::vector<Group> groups; // numbered as those of `rates`
  std::vector<uint32_t> freeFlows;
  NumbersByHash groupsByHash;
  ListPool<Ending> endings;
  std::vector<uint32_t> started, touched; // since the last settle: flows; groups that have others
  std::vector<uint32_t> changed;          // by this settle: groups with another rate
  std::vector<ResourceUse> found;         // uses that are looked for
  EarliestTime ends;                      // by group: of its first flow
};

} // namespace kolo::cost
