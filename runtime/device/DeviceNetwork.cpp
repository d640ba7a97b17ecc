#include "device/DeviceNetwork.h"

#include "base/Error.h"
#include "device/DevicePrograms.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {
namespace {

constexpr size_t pageBytes = 4096, leastWindow = size_t(64) << 10, mostAhead = size_t(64) << 20;
constexpr size_t outboxBytes = size_t(KOLO_DEVICE_CHUNKS) * KOLO_DEVICE_CHUNK_BYTES;

} // namespace

Status DeviceNetwork::growFor(std::span<const size_t> inboxSizes, uint32_t numSemaphores) {
  Growth growth;
  if (!heap.hasRoomFor(inboxSizes))
    growth.inboxBytes = std::max({DeviceHeap::roomFor(inboxSizes), leastWindow, std::min(heap.sizeBytes(), mostAhead)});
  const bool needsCells = !ownCells.hasRoomFor(numSemaphores);
  if (growth.inboxBytes == 0 && !needsCells)
    return {};
  return ranks.meeting ? grow(std::move(growth), needsCells ? numSemaphores : 0) : growHere(growth.inboxBytes);
}

/// All ranks are in this process.
Status DeviceNetwork::growHere(size_t sizeBytes) {
  MappedWindow mapped;
  std::vector<DeviceMemory> own;
  mapped.sizeBytes = sizeBytes;
  for (const LocalRank &local : ranks.locals) {
    Result<DeviceMemory> memory = DeviceMemory::allocate(ranks.devices[local.device], KOLO_MEMORY_HOST, sizeBytes);
    if (!memory.isOk())
      return memory.status();
    mapped.bases.push_back(memory->data());
    own.push_back(std::move(memory).value());
  }
  heap.add(std::move(mapped), std::move(own));
  return {};
}

/// Ranks meet twice: when each has its memory, and when each can use that of all.
Status DeviceNetwork::grow(Growth growth, uint32_t numSemaphores) {
  Status own = guarded([&] { return allocate(growth, numSemaphores); });
  DeviceRecord &record = ranks.meeting->next();
  record.purpose = DevicePurpose::Grow;
  record.sizeBytes = growth.inboxBytes;
  if (Status status = watch.exchange(record, own); !status.isOk())
    return status;
  own = guarded([&] { return share(growth); });
  DeviceRecord &confirmation = ranks.meeting->next();
  confirmation.purpose = DevicePurpose::Grow;
  Status status = watch.exchange(confirmation, own);
  if (status.isOk())
    keep(growth);
  else
    undo(growth);
  return status;
}

/// This rank's own part.
Status DeviceNetwork::allocate(Growth &growth, uint32_t numSemaphores) const {
  if (growth.inboxBytes != 0) {
    Result<Window> memory = ranks.meeting->allocate(growth.inboxBytes);
    if (!memory.isOk())
      return memory.status();
    growth.memory = std::move(memory).value();
  }
  if (numSemaphores != 0) {
    Result<CellPool> pool = ownCells.make(numSemaphores);
    if (!pool.isOk())
      return pool.status();
    growth.pool = std::move(pool).value();
  }
  if (!ranks.areOnHosts() || queues)
    return {};
  Result<Queues> made = makeQueues();
  if (!made.isOk())
    return made.status();
  growth.queues = std::move(made).value();
  return {};
}

Result<DeviceNetwork::Queues> DeviceNetwork::makeQueues() const {
  const auto numLanes = static_cast<size_t>(ranks.mostLanes());
  const size_t ofQueues = (numLanes * sizeof(KoloDeviceQueue) + pageBytes - 1) / pageBytes * pageBytes;
  const std::shared_ptr<OpenDevice> &device = ranks.devices.front();
  Result<DeviceMemory> memory = DeviceMemory::allocate(device, KOLO_MEMORY_HOST, ofQueues + numLanes * outboxBytes);
  if (!memory.isOk())
    return memory.status();
  Result<DeviceMemory> counts = allocateCleared(device, numLanes * sizeof(KoloDeviceQueueCounts));
  if (!counts.isOk())
    return counts.status();
  Queues made = {std::move(memory).value(), std::move(counts).value()};
  auto *outboxes = static_cast<unsigned char *>(made.memory.data()) + ofQueues;
  for (size_t lane = 0; lane < numLanes; ++lane)
    made.first()[lane].outbox = outboxes + lane * outboxBytes;
  return made;
}

/// The first part meets peers, so that all ranks come to it.
Status DeviceNetwork::share(Growth &growth) {
  if (growth.memory) {
    Result<HostWindow> window = ranks.meeting->exchange(std::move(*growth.memory));
    if (!window.isOk())
      return window.status();
    growth.window.emplace(InboxWindow{std::move(window).value(), {}});
  }
  Status status = connect(growth);
  return status.isOk() && growth.window ? registerInboxes(growth) : status;
}

/// Of all ranks of this host.
Status DeviceNetwork::registerInboxes(Growth &growth) const {
  growth.mapped.sizeBytes = growth.inboxBytes;
  for (const RemoteWindow &one : growth.window->ofHost.all) {
    std::shared_ptr<const RegisteredMemory> memory;
    if (one.data()) {
      Result<std::shared_ptr<const RegisteredMemory>> made =
          RegisteredMemory::of(ranks.devices.front(), one.data(), growth.inboxBytes);
      if (!made.isOk())
        return made.status();
      memory = std::move(made).value();
    }
    growth.mapped.bases.push_back(memory ? memory->address() : nullptr);
    growth.window->registered.push_back(std::move(memory));
  }
  return {};
}

/// What other hosts need. The numbers of agreements are taken on all ranks alike, also where something fails.
Status DeviceNetwork::connect(Growth &growth) {
  if (growth.pool) {
    auto *cells = static_cast<Cell *>(growth.pool->cells.data());
    Result<uint64_t> agreement = ranks.meeting->registerCells(cells, ranks.mostLanes(), growth.pool->numSemaphores);
    if (!agreement.isOk())
      return agreement.status();
    growth.pool->agreement = *agreement;
  }
  if (!growth.queues)
    return {};
  Result<std::unique_ptr<DeviceProxy>> started =
      DeviceProxy::start(ranks.meeting->peers(), {growth.queues->first(), static_cast<size_t>(ranks.mostLanes())},
                         [this] { watch.abortLaunches(); });
  if (!started.isOk())
    return started.status();
  growth.proxy = std::move(started).value();
  return {};
}

/// Some rank could not: no rank has any of it. Nobody has written there.
void DeviceNetwork::undo(Growth &growth) {
  growth.proxy.reset();
  if (growth.pool && growth.pool->agreement != 0)
    ranks.meeting->releaseCells(growth.pool->agreement);
  if (growth.window)
    growth.window->registered.clear();
}

void DeviceNetwork::keep(Growth &growth) {
  if (growth.window) {
    windows.push_back(std::move(*growth.window));
    heap.add(std::move(growth.mapped), {});
  }
  if (growth.pool)
    ownCells.add(std::move(*growth.pool));
  if (growth.queues) {
    queues = std::move(*growth.queues);
    proxy = std::move(growth.proxy);
  }
}

NetworkAddresses DeviceNetwork::addressesOf(const HeapBlock &inbox, const CellRange &cells) const {
  NetworkAddresses addresses;
  addresses.inboxAgreement = inbox.sizeBytes && ranks.meeting ? windows[inbox.window].ofHost.agreement : 0;
  addresses.inboxOffset = inbox.offsetBytes;
  addresses.cells = cells;
  if (queues) {
    addresses.queues = queues->first();
    addresses.queueCounts = static_cast<KoloDeviceQueueCounts *>(queues->counts.data());
  }
  return addresses;
}

void DeviceNetwork::unmapPeers() {
  if (!ranks.meeting)
    return;
  heap.unmapPeers();
  const auto own = static_cast<size_t>(ranks.meeting->rank());
  for (InboxWindow &window : windows)
    for (size_t rank = 0; rank < window.registered.size(); ++rank)
      if (rank != own)
        window.registered[rank].reset();
}

/// Threads of peers may still map the memory.
void DeviceNetwork::end() {
  for (InboxWindow &window : windows) {
    window.registered.clear();
    ranks.meeting->keepForPeers(std::move(window.ofHost.own));
  }
}

} // namespace kolo::runtime
