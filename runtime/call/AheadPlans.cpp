// Rooted calls in which a rank waits for those alone whose inputs it reads.
//
// The program publishes its inputs in announcements and does nothing else with peers: it has no semaphores, packets or
// scratch memory, and peers access no buffer of the caller. So a rank reads only what is published by ranks whose
// inputs its result depends on. These are all ranks, if only the root has a result, and else the root. Exchange keeps
// what is published until every rank has read it.
#include "call/AheadPlans.h"

#include "base/Error.h"
#include "call/CallIdentity.h"
#include "call/CommunicatorState.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// Whether the collective runs over all ranks, so that its root is the rank of that number.
bool isOverAllRanks(const ProgramInfo &info) {
  for (size_t dim = 0; dim < info.groupDims.size(); ++dim)
    if (info.groupDims[dim] != static_cast<int>(dim))
      return false;
  return info.groupDims.size() == info.meshDims.size();
}

} // namespace

bool mayRunAhead(const Plan &plan, const Peers &peers) {
  const Call &call = plan.call;
  const Buffers &buffers = plan.buffers;
  return peers.settings().runsAhead && !peers.hosts().areSeveral() && hasRoot(call.info->collective) &&
         isOverAllRanks(*call.info) && call.isProved && call.publishes && !buffers.publishesMuch &&
         buffers.pieces.number == 1 && buffers.staging == Staging::None && call.info->numSemaphores == 0 &&
         !call.hasPackets && call.scratchBytes == 0 && !call.isShared() && !call.isWidened() && !call.tables;
}

Plan *AheadPlans::find(const PluginState &plugin, const CallArguments &arguments) const {
  if (arguments.collective && !hasRoot(*arguments.collective))
    return nullptr; // early, since it is asked for every call
  auto found = std::ranges::find_if(plans, [&](const auto &plan) { return plan->isOf(plugin, arguments); });
  return found == plans.end() ? nullptr : found->get();
}

void AheadPlans::keep(std::unique_ptr<Plan> plan) {
  if (plans.empty() || (room.hasEverywhere() && plans.size() < most)) {
    plans.push_back(std::move(plan));
    return;
  }
  plans[oldest] = std::move(plan);
  oldest = (oldest + 1) % plans.size();
  room.remove();
}

const Plan *AheadPlans::ofAgreement(uint64_t agreement) const {
  auto found = std::ranges::find_if(plans, [&](const auto &plan) { return plan->agreement == agreement; });
  return found == plans.end() ? nullptr : found->get();
}

Status CommunicatorState::runAhead(Plan &plan, const PluginState &plugin, const CallArguments &arguments) {
  if (Status status = exchange.awaitTurn(); !status.isOk())
    return status;
  if (Status status = guarded([&] { return takeBuffers(plan, plugin, arguments); }); !status.isOk()) {
    // The peers may have returned from the call already.
    (void)ranks->abort(rankError(status.code(), ranks->rank(), "rank {}: {}", ranks->rank(), status.message()));
    return endFailedCall();
  }
  publish(plan, 0);
  exchange.announceAhead(plan.agreement);
  const auto root = static_cast<int>(plan.call.root);
  Status status;
  if (!isAtRoot(factsOf(plan.call.info->collective).output))
    status = exchange.hear(root);
  else if (ranks->rank() == root)
    status = exchange.catchUp();
  return status.isOk() ? runLanes(plan) : status;
}

Status explainDifference(const PlanCache &plans, const AheadPlans &aheadPlans,
                         const std::pair<Exchange::Announced, Exchange::Announced> &announced) {
  const auto &[first, second] = announced;
  for (const Exchange::Announced *each : {&first, &second})
    if (each->record && each->record->code != StatusCode::Ok)
      return rankError(each->record->code, each->rank, "rank {}: {}", each->rank, each->record->message);
  if (first.operation() != second.operation())
    return rankError(StatusCode::Mismatch, second.rank,
                     "ranks disagree on the operation: rank {} called {}, rank {} called {}", first.rank,
                     toString(first.operation()), second.rank, toString(second.operation()));
  auto keyOf = [&](const Exchange::Announced &each) -> const CallKey * {
    if (each.record)
      return &each.record->call;
    const Plan *plan = aheadPlans.ofAgreement(each.plan);
    plan = plan ? plan : plans.ofAgreement(each.plan);
    return plan ? &plan->call.key : nullptr;
  };
  const CallKey *firstKey = keyOf(first), *secondKey = keyOf(second);
  if (firstKey && secondKey)
    if (Status status = compareCalls(*firstKey, *secondKey, {first.rank, second.rank}); !status.isOk())
      return status;
  return rankError(StatusCode::Mismatch, second.rank, "ranks disagree on the call: ranks {} and {} made different ones",
                   first.rank, second.rank);
}

} // namespace kolo::runtime
