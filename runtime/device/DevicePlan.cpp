#include "device/DevicePlan.h"

#include <algorithm>
#include <cstring>

namespace kolo::runtime {
namespace {

constexpr size_t tablesPerPlan = KOLO_NUM_BUFFER_ROLES + 1; // a row of addresses per role, and the semaphores

/// The layout of a device's table: its invocations, then rows of addresses.
struct TableLayout {
  size_t numInvocations, numRanks;
  size_t rowOffset(size_t row) const {
    return numInvocations * sizeof(KoloDeviceInvocation) + row * numRanks * sizeof(void *);
  }
  size_t sizeBytes() const { return rowOffset(tablesPerPlan); }
};

void fillShape(KoloDeviceInvocation &invocation, const Call &call, const LocalRank &local, size_t numRanks) {
  std::copy_n(call.dimSizes, KOLO_MAX_MESH_DIMS, invocation.dimSizes);
  std::copy_n(call.coordinates, KOLO_MAX_MESH_DIMS, invocation.coordinates);
  invocation.rank = local.rank;
  invocation.numRanks = static_cast<int64_t>(numRanks);
  invocation.count = call.key.count;
  invocation.elementBytes = call.elementBytes;
  invocation.root = call.root;
  invocation.type = call.key.type;
  invocation.reduction = call.key.reduction;
}

/// For one local rank; `base` is where the device's table will be.
KoloDeviceInvocation describe(const DevicePlan &plan, size_t index, const LocalRank &local,
                              const PlanAddresses &addresses, std::byte *base, const TableLayout &layout) {
  KoloDeviceInvocation invocation = {};
  fillShape(invocation, plan.calls[index], local, layout.numRanks);
  auto row = [&](size_t number) { return reinterpret_cast<void **>(base + layout.rowOffset(number)); };
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    invocation.local[role] = addresses.buffers[role][static_cast<size_t>(local.rank)];
    invocation.peers[role] = row(role);
  }
  const DeviceCounters::OfRank &counters = plan.counters->ranks[index];
  invocation.peerSemaphores = reinterpret_cast<uint64_t *const *>(row(KOLO_NUM_BUFFER_ROLES));
  invocation.semaphores = static_cast<uint64_t *>(counters.semaphores.data());
  invocation.sent = static_cast<uint64_t *>(counters.sent.data());
  invocation.awaited = static_cast<uint64_t *>(counters.awaited.data());
  const Call &call = plan.calls[index];
  invocation.packetCalls = static_cast<uint64_t *>(plan.scratch->packetCalls[index].data());
  invocation.packetBytes = call.hasPackets ? call.packetBytesFor(call.key.count) : 0;
  invocation.abort = addresses.abort;
  invocation.failures =
      static_cast<KoloDeviceFailure *>(plan.failures.data()) + index * static_cast<size_t>(addresses.numLanes);
  invocation.pollLimit = addresses.pollLimit;
  return invocation;
}

} // namespace

Status writeTables(DevicePlan &plan, std::span<const LocalRank> locals,
                   std::span<const std::shared_ptr<OpenDevice>> devices, const PlanAddresses &addresses) {
  size_t numFailures = locals.size() * static_cast<size_t>(addresses.numLanes);
  Result<DeviceMemory> failures =
      DeviceMemory::allocate(devices.front(), KOLO_MEMORY_HOST, numFailures * sizeof(KoloDeviceFailure));
  if (!failures.isOk())
    return failures.status();
  plan.failures = std::move(failures).value();
  plan.tables.clear();
  for (size_t device = 0; device < devices.size(); ++device) {
    auto isHere = [&](const LocalRank &local) { return local.device == device; };
    TableLayout layout = {static_cast<size_t>(std::ranges::count_if(locals, isHere)), addresses.semaphores.size()};
    Result<DeviceMemory> table = DeviceMemory::allocate(devices[device], KOLO_MEMORY_PRIVATE, layout.sizeBytes());
    if (!table.isOk())
      return table.status();
    std::vector<std::byte> content(layout.sizeBytes());
    auto base = static_cast<std::byte *>(table->data());
    for (size_t index = 0; index < locals.size(); ++index)
      if (isHere(locals[index])) {
        KoloDeviceInvocation invocation = describe(plan, index, locals[index], addresses, base, layout);
        std::memcpy(content.data() + locals[index].position * sizeof(invocation), &invocation, sizeof(invocation));
      }
    auto writeRow = [&](size_t row, const std::vector<void *> &values) {
      std::memcpy(content.data() + layout.rowOffset(row), values.data(), values.size() * sizeof(void *));
    };
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      writeRow(role, addresses.buffers[role]);
    writeRow(KOLO_NUM_BUFFER_ROLES, addresses.semaphores);
    if (Status status = devices[device]->copy(base, content.data(), content.size()); !status.isOk())
      return status;
    plan.tables.push_back(std::move(table).value());
  }
  return {};
}

} // namespace kolo::runtime
