// Flows that share resources max-min fairly, while flows start and end. Used by Simulator. No MLIR here.
//
// Rates come from progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): all rates grow alike
// until a resource is full; its flows keep their rates, and the others go on. A start or an end changes the rates of
// those flows only that full resources connect it with, so only these are computed again. Most resources can never be
// full: what flows take of them is bounded by a narrower resource that all of these flows take too. Such resources are
// not looked at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::cost {

/// What one byte of a flow takes of a resource.
struct ResourceUse {
  uint32_t resource;
  double load; // bytes; more than 0
};

class FlowSharing {
public:
  /// Bytes per second of every resource, each more than 0.
  explicit FlowSharing(std::span<const double> bandwidths);

  /// The flow's number, which may be that of an earlier flow that ended. `uses` names every resource once, and at least
  /// one. The flow has no rate before the next `settle`.
  uint32_t start(double bytes, std::span<const ResourceUse> uses);
  void end(uint32_t flow);

  /// A flow whose rate changed, and when it ends if it keeps the new one.
  struct Change {
    uint32_t flow;
    double end;
  };
  /// Gives all flows their rates after what started and ended at time `now`. Valid until the next call.
  std::span<const Change> settle(double now);

  size_t numFlows() const { return flows.size() - freeFlows.size(); }
  double rateOf(uint32_t flow) const { return flows[flow].rate; }

private:
  static constexpr uint32_t none = UINT32_MAX;
  struct Flow {
    double remaining, rate, since; // bytes left at time `since`
    double cap;                    // the rate that it has alone
    uint32_t narrowest;            // the resource that sets its cap
    uint32_t firstUse;             // those of contended resources come first
    uint32_t numUses, numContended;
    uint32_t bottleneck; // none: it has its cap
    uint32_t index;      // among the filled, in the round when it was filled
    uint32_t round;
    bool isFixed;
  };
  struct Use {
    double load;
    uint32_t flow, resource;
    uint32_t position; // in the resource's members
    uint32_t bound;    // in the resource's bounds; none: bounded by its flow's cap alone
  };
  struct Resource {
    double bandwidth;
    double load = 0; // of its flows, by their rates; of a contended resource only
    // Of filling: bandwidth that is not given yet; loads and number of the flows without a rate; the rate at which it
    // was full, if it was.
    double left = 0, weight = 0, level = 0;
    uint32_t numOpen = 0, numFilled = 0;
    uint32_t round = 0;
    bool isContended = false; // whether it could be full: else it limits nobody
    bool isDirty = false, isLimit = false;
  };
  struct Member {
    uint32_t use, flow;
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
  /// What filling gives a flow.
  struct Filled {
    uint32_t flow;
    double rate;
    uint32_t bottleneck;
  };

  static bool isFull(const Resource &resource, double load) { return load >= resource.bandwidth * (1 - 1e-9); }
  std::span<const Use> contendedUses(const Flow &flow) const {
    return std::span(uses).subspan(flow.firstUse, flow.numContended);
  }
  uint32_t allocateUses(size_t number);
  void markDirty(uint32_t resource);
  uint32_t narrowestNear(uint32_t use, uint32_t endOfUses) const;
  uint32_t boundFor(uint32_t use, uint32_t endOfUses);
  void addDemand(const Use &use, double sign);
  void setContended(uint32_t resource, bool isContended);
  void swapUses(uint32_t first, uint32_t second);
  void join(uint32_t flow);
  void joinLimitedBy(uint32_t resource);
  void joinAllConnected();
  void prepare();
  void fill();
  void fillNextLevel();
  void fix(uint32_t flow, double rate, uint32_t bottleneck);
  bool joinThoseWithoutBottleneck();
  void checkResource(uint32_t resource);
  void apply(double now);
  bool isFilled(const Flow &flow) const { return flow.round == round; }

  std::vector<Flow> flows;
  std::vector<Use> uses;
  std::vector<Resource> resources;
  std::vector<Members> members; // by resource
  std::vector<uint32_t> freeFlows;
  std::vector<std::vector<uint32_t>> freeUses; // by the binary logarithm of their room

  uint32_t round = 0;
  uint32_t pass = 0;                    // of filling: marks resources
  std::vector<uint32_t> started, dirty; // since the last settle
  std::vector<Filled> filled;           // by this one
  std::vector<uint32_t> reached;        // resources that could limit those
  std::vector<uint32_t> byCap;
  std::vector<Level> levels;
  std::vector<Change> changes;
};

} // namespace kolo::cost
