#include "call/Plan.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kolo::runtime {
namespace {

/// Gives a plan other buffers of the caller. False: the peers would have to know them.
bool moveTo(Plan &plan, const CallArguments &arguments, const SegmentTable &segments, const MemoryRules &rules) {
  if ((!isStaged(plan.buffers.staging) && plan.call.isShared()) || (plan.call.inputBytes && !arguments.input) ||
      (plan.call.outputBytes && !arguments.output))
    return false;
  Call moved = plan.call;
  moved.setPointers(arguments);
  if (stagingFor(moved, segments, rules) != plan.buffers.wanted || plan.buffers.isInputAside)
    return false;
  if (plan.isSelected() && moved.memoryKind(segments) != plan.call.memory)
    return false;
  if (!plan.buffers.isCopied[KOLO_INPUT])
    plan.buffers.local[KOLO_INPUT] = moved.inputBytes ? moved.input : nullptr;
  if (!plan.buffers.isCopied[KOLO_OUTPUT])
    plan.buffers.local[KOLO_OUTPUT] = moved.outputBytes ? moved.output : nullptr;
  for (Lane &lane : plan.lanes)
    std::copy_n(plan.buffers.local, 2, lane.invocation.local);
  plan.call.setPointers(arguments);
  plan.request.setPointers(arguments);
  return true;
}

bool isSamePlace(const CallArguments &left, const CallArguments &right) {
  return left.input == right.input && left.output == right.output;
}

} // namespace

Plan *PlanCache::find(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments,
                      const MemoryRules &rules) {
  const uint64_t generation = segments.generation();
  const CallIdentity wanted = {plugin.load, arguments};
  for (size_t i = 0; i < plans.size(); ++i) {
    size_t index = (last + i) % plans.size();
    Plan *plan = plans[index].get();
    if (!plan || plan->agreement == 0 || plan->generation != generation || !(plan->request.identity() == wanted))
      continue;
    if (!isSamePlace(plan->request.arguments(), arguments) && !moveTo(*plan, arguments, segments, rules))
      continue;
    last = index;
    return plan;
  }
  return nullptr;
}

std::unique_ptr<Plan> PlanCache::take(const Plan &plan) {
  auto found = std::ranges::find(plans, &plan, &std::unique_ptr<Plan>::get);
  return found == plans.end() ? nullptr : std::move(*found);
}

const Plan *PlanCache::ofAgreement(uint64_t agreement) const {
  auto found = std::ranges::find_if(plans, [&](const auto &plan) { return plan && plan->agreement == agreement; });
  return found == plans.end() ? nullptr : found->get();
}

void PlanCache::endRemoteAccess(uint64_t generation) {
  for (const std::unique_ptr<Plan> &plan : plans)
    if (plan && plan->generation != generation)
      plan->access.end();
  replaced.end();
}

size_t PlanCache::placeFor(const PluginState &plugin, const CallArguments &arguments) {
  std::optional<size_t> once, empty, oldest;
  for (size_t i = 0; i < plans.size(); ++i) {
    const Plan *plan = plans[i].get();
    if (!plan) {
      empty = empty.value_or(i);
      continue;
    }
    if (plan->request.identity() == CallIdentity{plugin.load, arguments} &&
        isSamePlace(plan->request.arguments(), arguments))
      return i;
    if (!plan->request.isRepeatable())
      once = i;
    if (!oldest || plan->agreement < plans[*oldest]->agreement)
      oldest = i;
  }
  if (once)
    return *once;
  return empty && (!oldest || room.reserve()) ? *empty : *oldest;
}

Plan &PlanCache::replace(const PluginState &plugin, const CallArguments &arguments) {
  const size_t index = placeFor(plugin, arguments);
  std::unique_ptr<Plan> former = std::exchange(plans[index], std::make_unique<Plan>(plugin, arguments));
  if (!former)
    room.add();
  replaced = former ? std::move(former->access) : PlanAccess();
  last = index;
  return *plans[index];
}

} // namespace kolo::runtime
