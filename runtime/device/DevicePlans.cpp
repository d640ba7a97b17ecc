#include "device/DevicePlans.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

constexpr size_t mostPlans = 256;

} // namespace

DevicePlan *DevicePlans::find(const CallIdentity &call, const std::vector<LocatedBuffers> &buffers) {
  for (size_t i = 0; i < plans.size(); ++i) {
    size_t index = (lastPlan + i) % plans.size();
    if (plans[index]->buffers != buffers || !(plans[index]->request.identity() == call))
      continue;
    lastPlan = index;
    return plans[index].get();
  }
  return nullptr;
}

Result<DevicePlan *> DevicePlans::add(std::unique_ptr<DevicePlan> plan, uint64_t *abort) {
  for (DevicePlan::Pieces *pieces : {&plan->pieces, &plan->rest})
    if (pieces->shape)
      if (Status written = writeTables(*plan, *pieces, abort); !written.isOk())
        return written;
  plans.push_back(std::move(plan));
  lastPlan = plans.size() - 1;
  return plans.back().get();
}

/// Makes the tables of pieces, or takes those of an earlier staged call, which differs in the user's buffers alone.
Status DevicePlans::writeTables(DevicePlan &plan, DevicePlan::Pieces &pieces, uint64_t *abort) {
  const CallKey &key = plan.calls.front().key;
  auto known = pieces.shape->staged.find({key.type, key.reduction});
  if (plan.sharesTables() && known != pieces.shape->staged.end()) {
    pieces.tables = known->second;
    return {};
  }
  for (size_t turn = 0; turn < (plan.sharesTables() ? 2 : 1); ++turn) {
    TableAddresses addresses = places.addressesOf(plan, pieces, turn);
    addresses.abort = abort;
    Result<std::shared_ptr<DeviceTable>> table = writeTable(plan, *pieces.shape, ranks, addresses, takeSpare(plan));
    if (!table.isOk())
      return table.status();
    pieces.tables[turn] = std::move(table).value();
  }
  if (plan.sharesTables())
    pieces.shape->staged[{key.type, key.reduction}] = pieces.tables;
  else
    pieces.tables[1] = pieces.tables[0];
  return {};
}

/// All tables of one device have one size, but those of calls with block tables, and of programs for networks.
std::vector<std::shared_ptr<DeviceTable>> &DevicePlans::sparesFor(const DevicePlan &plan) {
  return spareTables[(plan.hasBlocks() ? 1 : 0) + (plan.isForNetwork() ? 2 : 0)];
}

/// Null: there is none.
std::shared_ptr<DeviceTable> DevicePlans::takeSpare(const DevicePlan &plan) {
  std::vector<std::shared_ptr<DeviceTable>> &spares = sparesFor(plan);
  if (spares.empty())
    return nullptr;
  std::shared_ptr<DeviceTable> spare = std::move(spares.back());
  spares.pop_back();
  return spare;
}

void DevicePlans::makeRoom() {
  if (plans.size() >= mostPlans)
    retire();
}

/// Puts all plans aside, and frees those put aside earlier whose launches are done: their tables serve new plans. Waits
/// for nothing.
void DevicePlans::retire() {
  std::erase_if(retired, [&](RetiredPlans &each) {
    bool areDone = std::ranges::all_of(each.launched, [](const auto &event) {
      Result<bool> isDone = event->isDone();
      return isDone.isOk() && *isDone;
    });
    for (const std::unique_ptr<DevicePlan> &plan : each.plans)
      if (areDone)
        keepTables(*plan);
    return areDone;
  });
  RetiredPlans &now = retired.emplace_back();
  for (std::unique_ptr<DevicePlan> &plan : plans)
    (plan->isCaptured ? captured : now.plans).push_back(std::move(plan));
  plans.clear();
  lastPlan = 0;
  now.launched = launches.lastEvents();
}

/// Of a plan that ends. To free memory of a device, the driver may wait for the whole device.
void DevicePlans::keepTables(DevicePlan &plan) {
  if (plan.sharesTables())
    return; // its shape has them
  for (DevicePlan::Pieces *pieces : {&plan.pieces, &plan.rest})
    for (std::shared_ptr<DeviceTable> &table : pieces->tables)
      if (std::shared_ptr<DeviceTable> last = std::move(table); last && last.use_count() == 1)
        sparesFor(plan).push_back(std::move(last));
}

void DevicePlans::free() {
  retire();
  retired.clear();
}

} // namespace kolo::runtime
