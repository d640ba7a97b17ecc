#include "device/DevicePlan.h"

#include <algorithm>
#include <cstring>

namespace kolo::runtime {
namespace {

constexpr size_t numRows = KOLO_NUM_BUFFER_ROLES + 1; // a row of addresses per role, and the semaphores

/// The layout of a device's table: its invocations, then rows of addresses.
struct TableLayout {
  size_t numInvocations, numRanks;
  size_t rowOffset(size_t row) const {
    return numInvocations * sizeof(KoloDeviceInvocation) + row * numRanks * sizeof(void *);
  }
  size_t sizeBytes() const { return rowOffset(numRows); }
};

void fillShape(KoloDeviceInvocation &invocation, const Call &call, const LocalRank &local, size_t numRanks) {
  std::copy_n(call.dimSizes, KOLO_MAX_MESH_DIMS, invocation.dimSizes);
  std::copy_n(call.coordinates, KOLO_MAX_MESH_DIMS, invocation.coordinates);
  invocation.rank = local.rank;
  invocation.numRanks = static_cast<int64_t>(numRanks);
  invocation.elementBytes = call.elementBytes;
  invocation.root = call.root;
  invocation.type = call.key.type;
  invocation.reduction = call.key.reduction;
}

/// Of one device.
struct TableWriter {
  const DevicePlan &plan;
  const DeviceShape &shape;
  const TableAddresses &addresses;
  TableLayout layout;
  std::byte *base; // where the table will be
  std::vector<std::byte> content = std::vector<std::byte>(layout.sizeBytes());

  void **row(size_t number) const { return reinterpret_cast<void **>(base + layout.rowOffset(number)); }

  void writeInvocation(size_t index, const LocalRank &local) {
    const Call &call = plan.calls[index];
    KoloDeviceInvocation invocation = {};
    fillShape(invocation, call, local, layout.numRanks);
    invocation.count = addresses.count;
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
      invocation.local[role] = addresses.buffers[role][static_cast<size_t>(local.rank)];
      invocation.peers[role] = row(role);
    }
    invocation.peerSemaphores = reinterpret_cast<uint64_t *const *>(row(KOLO_NUM_BUFFER_ROLES));
    invocation.semaphores = static_cast<uint64_t *>(addresses.semaphores[static_cast<size_t>(local.rank)]);
    invocation.sent = static_cast<uint64_t *>(plan.program->ranks[index].sent.data());
    invocation.awaited = static_cast<uint64_t *>(plan.program->ranks[index].awaited.data());
    invocation.calls = static_cast<uint64_t *>(plan.program->ranks[index].calls.data());
    invocation.packetCalls = static_cast<uint64_t *>(shape.packetCalls[index].data());
    invocation.packetBytes = call.hasPackets ? call.packetBytesFor(addresses.count) : 0;
    invocation.abort = addresses.abort;
    invocation.failures = static_cast<KoloDeviceFailure *>(plan.program->failures.data()) + index * addresses.mostLanes;
    invocation.timeoutNs = addresses.timeoutNs;
    std::ranges::transform(invocation.dimSizes, invocation.dimReciprocals, kolo_reciprocal);
    invocation.laneReciprocal = kolo_reciprocal(call.numLanes);
    std::memcpy(content.data() + local.position * sizeof(invocation), &invocation, sizeof(invocation));
  }

  void writeRow(size_t number, const std::vector<void *> &values) {
    std::memcpy(content.data() + layout.rowOffset(number), values.data(), values.size() * sizeof(void *));
  }
};

} // namespace

Result<std::shared_ptr<DeviceTable>> writeTable(const DevicePlan &plan, const DeviceShape &shape,
                                                const DeviceRanks &ranks, const TableAddresses &addresses,
                                                std::shared_ptr<DeviceTable> spare) {
  const std::vector<LocalRank> &locals = ranks.locals;
  const std::vector<std::shared_ptr<OpenDevice>> &devices = ranks.devices;
  auto tables = spare ? std::move(spare) : std::make_shared<DeviceTable>();
  for (size_t device = 0; device < devices.size(); ++device) {
    auto isHere = [&](const LocalRank &local) { return local.device == device; };
    TableLayout layout = {static_cast<size_t>(std::ranges::count_if(locals, isHere)), addresses.semaphores.size()};
    if (tables->size() == device) {
      Result<DeviceMemory> made = DeviceMemory::allocate(devices[device], KOLO_MEMORY_PRIVATE, layout.sizeBytes());
      if (!made.isOk())
        return made.status();
      tables->push_back(std::move(made).value());
    }
    TableWriter writer = {plan, shape, addresses, layout, static_cast<std::byte *>((*tables)[device].data())};
    for (size_t index = 0; index < locals.size(); ++index)
      if (isHere(locals[index]))
        writer.writeInvocation(index, locals[index]);
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      writer.writeRow(role, addresses.buffers[role]);
    writer.writeRow(KOLO_NUM_BUFFER_ROLES, addresses.semaphores);
    if (Status status = devices[device]->copy(writer.base, writer.content.data(), writer.content.size());
        !status.isOk())
      return status;
  }
  return tables;
}

} // namespace kolo::runtime
