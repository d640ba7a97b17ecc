#include "device/DevicePlan.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace kolo::runtime {
namespace {

// Behind a row of addresses per role: those of semaphores, of inboxes, and of tables of places.
constexpr size_t semaphoresRow = KOLO_NUM_BUFFER_ROLES, inboxesRow = semaphoresRow + 1, placesRow = inboxesRow + 1;

/// The block tables of a rank: what its kernel reads, and what it shares with peers.
enum class TabledNumbers : size_t { Counts, Places, Shared };

/// The layout of a device's table: its invocations, then rows of addresses. Of a call with block tables, two more rows
/// follow, of tables of places by rank, and then the numbers of the blocks. A table has room for a block of each rank.
struct TableLayout {
  size_t numInvocations, invocationBytes;
  size_t numEntries; // of a row
  size_t numRanks;
  size_t numTabled; // ranks whose block tables are here: none without tables, else all ranks or one
  size_t rowOffset(size_t row) const {
    const size_t ofRanks = row > placesRow ? (row - placesRow) * numRanks : 0;
    return numInvocations * invocationBytes + (std::min(row, placesRow) * numEntries + ofRanks) * sizeof(void *);
  }
  size_t numbersOffset(size_t tabled, TabledNumbers kind, size_t role) const {
    return rowOffset(placesRow + 2) + ((tabled * 3 + static_cast<size_t>(kind)) * 2 + role) * numRanks * 8;
  }
  size_t sizeBytes() const {
    return numTabled == 0 ? rowOffset(placesRow) : numbersOffset(numTabled, TabledNumbers::Counts, 0);
  }
};

/// Where the blocks of a rank are in what its kernel takes for the buffer. Staged buffers of all ranks lie alike, so
/// these places stand for those of peers, too, also where this rank has no such buffer.
std::vector<int64_t> placesIn(const DevicePlan &plan, const Call &call, size_t role, int64_t count) {
  if (!plan.isStaged)
    return call.tables->places[role];
  std::vector<int64_t> places(static_cast<size_t>(role == KOLO_INPUT ? call.largest.input : call.largest.output));
  for (size_t block = 0; block < places.size(); ++block)
    places[block] = static_cast<int64_t>(block) * count;
  return places;
}

/// Likewise in what its peers take for it, which begins where the window does.
std::vector<int64_t> placesForPeers(const DevicePlan &plan, const Call &call, size_t role) {
  std::vector<int64_t> places = call.tables->places[role];
  for (int64_t &place : places)
    place += (*plan.windowElements)[role];
  return places;
}

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
  const DeviceRanks &ranks;
  const DevicePlan &plan;
  const DeviceShape &shape;
  const TableAddresses &addresses;
  TableLayout layout;
  std::byte *base; // where the table will be
  std::vector<std::byte> content = std::vector<std::byte>(layout.sizeBytes());

  void **row(size_t number) const { return reinterpret_cast<void **>(base + layout.rowOffset(number)); }

  void writeInvocation(size_t index, const LocalRank &local) {
    KoloDeviceNetworkInvocation made = {};
    made.call = invocationOf(index, local);
    if (plan.isForNetwork())
      addNetwork(made, index, local);
    std::memcpy(content.data() + local.position * layout.invocationBytes, &made, layout.invocationBytes);
  }

  KoloDeviceInvocation invocationOf(size_t index, const LocalRank &local) const {
    const Call &call = plan.calls[index];
    KoloDeviceInvocation invocation = {};
    fillShape(invocation, call, local, layout.numRanks);
    invocation.count = addresses.count;
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
      invocation.local[role] = addresses.buffers[role][ranks.placeHere(local.rank)];
      invocation.peers[role] = row(role);
    }
    invocation.peerSemaphores = reinterpret_cast<uint64_t *const *>(row(semaphoresRow));
    invocation.semaphores = static_cast<uint64_t *>(addresses.semaphores[ranks.placeHere(local.rank)]);
    invocation.sent = static_cast<uint64_t *>(plan.program->ranks[index].sent.data());
    invocation.awaited = static_cast<uint64_t *>(plan.program->ranks[index].awaited.data());
    invocation.calls = static_cast<uint64_t *>((*plan.program->calls)[index].data());
    invocation.packetCalls = static_cast<uint64_t *>(shape.packetCalls[index].data());
    invocation.packetBytes = call.hasPackets ? call.packetBytesFor(addresses.count) : 0;
    invocation.abort = addresses.abort;
    invocation.failures = static_cast<KoloDeviceFailure *>(plan.program->failures.data()) + index * addresses.mostLanes;
    invocation.timeoutNs = addresses.timeoutNs;
    std::ranges::transform(invocation.dimSizes, invocation.dimReciprocals, kolo_reciprocal);
    invocation.laneReciprocal = kolo_reciprocal(call.numLanes);
    if (layout.numTabled > 0)
      addBlocks(invocation, index);
    return invocation;
  }

  void addNetwork(KoloDeviceNetworkInvocation &invocation, size_t index, const LocalRank &local) const {
    const NetworkAddresses &network = addresses.network;
    invocation.inbox = addresses.inboxes[ranks.placeHere(local.rank)];
    invocation.peerInboxes = row(inboxesRow);
    invocation.inboxAgreement = network.inboxAgreement;
    invocation.inboxOffset = network.inboxOffset;
    if (const DeviceCells *cells = plan.program->cells) {
      invocation.cellsAgreement = cells->agreement;
      invocation.cells = cells->data();
      invocation.numFar = static_cast<int64_t>(cells->senders().size());
    }
    invocation.places = static_cast<const uint32_t *>(plan.program->ranks[index].places.data());
    invocation.numHere = addresses.numHere;
    invocation.queues = network.queues;
    invocation.queueCounts = network.queueCounts;
  }

  int64_t *numbers(size_t tabled, TabledNumbers kind, size_t role) const {
    return reinterpret_cast<int64_t *>(base + layout.numbersOffset(tabled, kind, role));
  }

  void addBlocks(KoloDeviceInvocation &invocation, size_t index) const {
    for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
      invocation.blockCounts[role] = numbers(index, TabledNumbers::Counts, role);
      invocation.blockPlaces[role] = numbers(index, TabledNumbers::Places, role);
      invocation.peerPlaces[role] = reinterpret_cast<const int64_t *const *>(row(placesRow + role));
    }
  }

  /// Where places are not shared, the plan has the tables of all ranks, or all ranks are staged alike.
  void writeBlocks() {
    for (size_t tabled = 0; tabled < layout.numTabled; ++tabled)
      for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
        const Call &call = plan.calls[tabled];
        write(tabled, TabledNumbers::Counts, role, call.tables->counts[role]);
        write(tabled, TabledNumbers::Places, role, placesIn(plan, call, role, addresses.count));
        if (plan.sharesPlaces())
          write(tabled, TabledNumbers::Shared, role, placesForPeers(plan, call, role));
      }
    for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
      std::vector<void *> places = addresses.peerPlaces[role];
      for (size_t rank = 0; rank < layout.numRanks; ++rank)
        if (!places[rank])
          places[rank] = numbers(layout.numTabled == 1 ? 0 : rank, TabledNumbers::Places, role);
      writeRow(placesRow + role, places);
    }
  }

  void write(size_t tabled, TabledNumbers kind, size_t role, const std::vector<int64_t> &values) {
    std::ranges::copy(std::as_bytes(std::span(values)), content.data() + layout.numbersOffset(tabled, kind, role));
  }

  void writeRow(size_t number, const std::vector<void *> &values) {
    std::ranges::copy(std::as_bytes(std::span(values)), content.data() + layout.rowOffset(number));
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
    TableLayout layout = {static_cast<size_t>(std::ranges::count_if(locals, isHere)), plan.invocationBytes(),
                          addresses.semaphores.size(), static_cast<size_t>(ranks.size),
                          plan.hasBlocks() ? locals.size() : 0};
    if (tables->size() == device) {
      Result<DeviceMemory> made = DeviceMemory::allocate(devices[device], KOLO_MEMORY_PRIVATE, layout.sizeBytes());
      if (!made.isOk())
        return made.status();
      tables->push_back(std::move(made).value());
    }
    TableWriter writer = {ranks, plan, shape, addresses, layout, static_cast<std::byte *>((*tables)[device].data())};
    for (size_t index = 0; index < locals.size(); ++index)
      if (isHere(locals[index]))
        writer.writeInvocation(index, locals[index]);
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      writer.writeRow(role, addresses.buffers[role]);
    writer.writeRow(semaphoresRow, addresses.semaphores);
    writer.writeRow(inboxesRow, addresses.inboxes);
    if (layout.numTabled > 0)
      writer.writeBlocks();
    if (Status status = devices[device]->copy(writer.base, writer.content.data(), writer.content.size());
        !status.isOk())
      return status;
  }
  return tables;
}

const void *sharedPlaces(const DevicePlan &plan, const DeviceRanks &ranks) {
  const size_t numEntries = ranks.ranksHere().size() + (plan.isForNetwork() ? 1 : 0);
  const TableLayout layout = {1, plan.invocationBytes(), numEntries, static_cast<size_t>(ranks.size), 1};
  return static_cast<const std::byte *>(plan.pieces.tables[0]->front().data()) +
         layout.numbersOffset(0, TabledNumbers::Shared, KOLO_INPUT);
}

} // namespace kolo::runtime
