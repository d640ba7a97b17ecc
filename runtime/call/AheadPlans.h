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
  explicit AheadPlans(int numRanks) : plans(numKeptPlans(numRanks)) {}

  /// The plan of the same call with whatever buffers; null: there is none. Allocates nothing.
  Plan *find(const PluginState &plugin, const CallArguments &arguments) const;
  /// Keeps a plan in place of the oldest.
  void keep(std::unique_ptr<Plan> plan);
  /// The plan of this agreement; null: it is not here.
  const Plan *ofAgreement(uint64_t agreement) const;

private:
  std::vector<std::unique_ptr<Plan>> plans;
  size_t numKept = 0; // so far
};

/// What is wrong where two ranks announced different things in one exchange, and one of them ran ahead. The plans are
/// those of this rank.
Status explainDifference(const PlanCache &plans, const AheadPlans &aheadPlans,
                         const std::pair<Exchange::Announced, Exchange::Announced> &announced);

} // namespace kolo::runtime
