// AheadPlans: the plans of rooted calls in which a rank need not wait for all others. See Exchange.h.
#pragma once

#include "call/Plan.h"
#include "peers/Exchange.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kolo::runtime {

class Peers;

/// Whether ranks may run ahead in the calls of a plan. The same on all ranks.
bool mayRunAhead(const Plan &plan, const Peers &peers);

/// The last few such plans of a communicator. All ranks have agreed on the same ones, in the same order. Which of them
/// a call repeats depends on nothing but what is the same on all ranks. So all ranks find the same plan, or none.
class AheadPlans {
public:
  AheadPlans(int numRanks, PlanRoom &forPlans) : room(forPlans), most(numKeptPlans(numRanks)) {}

  /// The plan of the same call with whatever buffers; null: there is none. Allocates nothing.
  Plan *find(const PluginState &plugin, const CallArguments &arguments) const;
  /// Keeps a plan, in place of the oldest if there are as many as may be, or a rank has no room for one more.
  void keep(std::unique_ptr<Plan> plan);
  /// The plan of this agreement; null: it is not here.
  const Plan *ofAgreement(uint64_t agreement) const;

private:
  PlanRoom &room;
  const size_t most;
  std::vector<std::unique_ptr<Plan>> plans;
  size_t oldest = 0; // the next to be replaced
};

/// What is wrong where two ranks announced different things in one exchange, and one of them ran ahead. The plans are
/// those of this rank.
Status explainDifference(const PlanCache &plans, const AheadPlans &aheadPlans,
                         const std::pair<Exchange::Announced, Exchange::Announced> &announced);

} // namespace kolo::runtime
