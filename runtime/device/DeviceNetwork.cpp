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

bool DeviceNetwork::needsCells(const DevicePlan &plan) const {
  return plan.isForNetwork() && ranks.areOnHosts() && plan.calls.front().info->numSemaphores > 0;
}

const DeviceCells *DeviceNetwork::cellsOf(const DevicePlan &plan) const {
  auto found = cells.find(plan.countersKey());
  return found == cells.end() ? nullptr : &found->second;
}

Status DeviceNetwork::growFor(std::span<const size_t> inboxSizes, const DevicePlan &plan) {
  Growth growth;
  if (!heap.hasRoomFor(inboxSizes))
    growth.inboxBytes = std::max({DeviceHeap::roomFor(inboxSizes), leastWindow, std::min(heap.sizeBytes(), mostAhead)});
  if (growth.inboxBytes == 0 && hasCellsFor(plan))
    return {};
  return ranks.meeting ? grow(std::move(growth), plan) : growHere(growth.inboxBytes);
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
Status DeviceNetwork::grow(Growth growth, const DevicePlan &plan) {
  Status own = guarded([&] { return allocate(growth, plan); });
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
    keep(growth, plan);
  else
    undo(growth);
  return status;
}

/// This rank's own part.
Status DeviceNetwork::allocate(Growth &growth, const DevicePlan &plan) const {
  if (growth.inboxBytes != 0)
    if (Status status = allocateInbox(growth); !status.isOk())
      return status;
  if (!hasCellsFor(plan)) {
    Result<DeviceCells> made = makeCells(plan);
    if (!made.isOk())
      return made.status();
    growth.cells = std::move(made).value();
  }
  if (!ranks.areOnHosts() || queues)
    return {};
  Result<Queues> made = makeQueues();
  if (!made.isOk())
    return made.status();
  growth.queues = std::move(made).value();
  return {};
}

/// For the ranks of other hosts that this rank signals or waits for.
Result<DeviceCells> DeviceNetwork::makeCells(const DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  Result<std::vector<bool>> peers =
      peersOf(*plan.images.front(), call.key.program, {call.dimSizes, call.coordinates, call.root});
  if (!peers.isOk())
    return peers.status();
  std::vector<int> far;
  for (int peer = 0; peer < ranks.size; ++peer)
    if ((*peers)[static_cast<size_t>(peer)] && ranks.isRemote(peer))
      far.push_back(peer);
  return DeviceCells::make(ranks, static_cast<uint32_t>(call.info->numSemaphores), std::move(far));
}

Status DeviceNetwork::allocateInbox(Growth &growth) const {
  if (ranks.shownBy) {
    Result<ReachedMemory> memory = ReachedMemory::allocate(ranks.devices.front(), growth.inboxBytes);
    if (!memory.isOk())
      return memory.status();
    growth.onDevice = std::move(memory).value();
    return {};
  }
  Result<Window> memory = ranks.meeting->allocate(growth.inboxBytes);
  if (!memory.isOk())
    return memory.status();
  growth.memory = std::move(memory).value();
  return {};
}

Result<DeviceNetwork::Queues> DeviceNetwork::makeQueues() const {
  const auto numLanes = static_cast<size_t>(ranks.mostLanes());
  const size_t ofQueues = (numLanes * sizeof(KoloDeviceQueue) + pageBytes - 1) / pageBytes * pageBytes;
  const size_t ofOutboxes = numLanes * outboxBytes;
  const std::shared_ptr<OpenDevice> &device = ranks.devices.front();
  const bool isOnDevice = ranks.shownBy.has_value();
  Queues made;
  if (isOnDevice) {
    Result<ReachedMemory> outboxes = ReachedMemory::allocate(device, ofOutboxes);
    if (!outboxes.isOk())
      return outboxes.status();
    made.outboxes = std::move(outboxes).value();
  }
  Result<DeviceMemory> memory =
      DeviceMemory::allocate(device, KOLO_MEMORY_HOST, ofQueues + (isOnDevice ? 0 : ofOutboxes));
  if (!memory.isOk())
    return memory.status();
  Result<DeviceMemory> counts = allocateCleared(device, numLanes * sizeof(KoloDeviceQueueCounts));
  if (!counts.isOk())
    return counts.status();
  made.memory = std::move(memory).value();
  made.counts = std::move(counts).value();
  auto *first = static_cast<unsigned char *>(isOnDevice ? made.outboxes.data() : made.memory.data());
  for (size_t lane = 0; lane < numLanes; ++lane)
    made.first()[lane].outbox = first + (isOnDevice ? 0 : ofQueues) + lane * outboxBytes;
  return made;
}

/// The first part meets peers, so that all ranks come to it.
Status DeviceNetwork::share(Growth &growth) {
  if (growth.inboxBytes != 0)
    if (Status status = shareInboxes(growth); !status.isOk())
      return status;
  Status status = connect(growth);
  return status.isOk() && growth.memory ? registerInboxes(growth) : status;
}

Status DeviceNetwork::shareInboxes(Growth &growth) {
  growth.window.emplace(InboxWindow{});
  if (growth.memory) {
    Result<HostWindow> window = ranks.meeting->exchange(std::move(*growth.memory));
    if (!window.isOk())
      return window.status();
    growth.window->agreement = window->agreement;
    growth.window->ofHost.emplace(std::move(window).value());
    return {};
  }
  void *const base = growth.onDevice.data();
  Result<MappedWindow> mapped = peerMemory.mapInternal({&base, 1}, growth.inboxBytes, {});
  if (!mapped.isOk())
    return mapped.status();
  growth.mapped = std::move(mapped).value();
  growth.window->onDevice = std::move(growth.onDevice);
  return {};
}

/// Of all ranks of this host.
Status DeviceNetwork::registerInboxes(Growth &growth) const {
  growth.mapped.sizeBytes = growth.inboxBytes;
  for (const RemoteWindow &one : growth.window->ofHost->here) {
    Result<std::shared_ptr<const RegisteredMemory>> memory =
        RegisteredMemory::of(ranks.devices.front(), one.data(), growth.inboxBytes);
    if (!memory.isOk())
      return memory.status();
    growth.mapped.bases.push_back((*memory)->address());
    growth.window->registered.push_back(std::move(memory).value());
  }
  return {};
}

/// What other hosts need. The numbers of agreements are taken on all ranks alike, also where something fails.
Status DeviceNetwork::connect(Growth &growth) {
  Status first;
  auto note = [&](const Result<uint64_t> &agreement) {
    if (first.isOk())
      first = agreement.status();
    return agreement.isOk() ? *agreement : 0;
  };
  const bool isOnDevice = ranks.shownBy.has_value();
  if (growth.window && isOnDevice) {
    Registration inbox;
    inbox.regions = {growth.window->onDevice.region(ranks.shownBy == ShownBy::Read)};
    inbox.senders = ranks.meeting->hosts().areOthers();
    growth.window->agreement = note(let(growth, inbox));
  }
  if (growth.cells) {
    Registration ofPeers = growth.cells->registration();
    if (isOnDevice)
      ofPeers.makeVisible = visibilityOn(ranks.devices.front(), *ranks.shownBy);
    growth.cells->agreement = note(let(growth, ofPeers));
  }
  if (growth.queues && isOnDevice) {
    Registration outboxes; // which nobody else writes
    outboxes.regions = {growth.queues->outboxes.region(false)};
    outboxes.senders.resize(static_cast<size_t>(ranks.size));
    (void)note(let(growth, outboxes));
  }
  return first.isOk() && growth.queues ? startProxy(growth) : first;
}

Result<uint64_t> DeviceNetwork::let(Growth &growth, const Registration &registration) const {
  Result<uint64_t> agreement = ranks.meeting->registerMemory(registration);
  if (agreement.isOk())
    growth.agreements.push_back(*agreement);
  return agreement;
}

Status DeviceNetwork::startProxy(Growth &growth) {
  DeviceProxy::Rank rank;
  rank.queues = {growth.queues->first(), static_cast<size_t>(ranks.mostLanes())};
  rank.endKernels = [this] { watch.abortLaunches(); };
  if (ranks.shownBy)
    rank.makeReadable = readabilityOn(ranks.devices.front());
  Result<std::unique_ptr<DeviceProxy>> started = DeviceProxy::start(ranks.meeting->peers(), std::move(rank));
  if (!started.isOk())
    return started.status();
  growth.proxy = std::move(started).value();
  return {};
}

/// Some rank could not: no rank has any of it. Nobody has written there.
void DeviceNetwork::undo(Growth &growth) {
  growth.proxy.reset();
  for (uint64_t agreement : growth.agreements)
    ranks.meeting->release(agreement);
  if (growth.window)
    growth.window->registered.clear();
}

void DeviceNetwork::keep(Growth &growth, const DevicePlan &plan) {
  if (growth.window) {
    windows.push_back(std::move(*growth.window));
    heap.add(std::move(growth.mapped), {});
  }
  if (growth.cells)
    cells.emplace(plan.countersKey(), std::move(*growth.cells));
  if (growth.queues) {
    queues = std::move(*growth.queues);
    proxy = std::move(growth.proxy);
  }
}

NetworkAddresses DeviceNetwork::addressesOf(const HeapBlock &inbox) const {
  NetworkAddresses addresses;
  addresses.inboxAgreement = inbox.sizeBytes && ranks.meeting ? windows[inbox.window].agreement : 0;
  addresses.inboxOffset = inbox.offsetBytes;
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
  const size_t own = ranks.placeHere(ranks.meeting->rank());
  for (InboxWindow &window : windows)
    for (size_t place = 0; place < window.registered.size(); ++place)
      if (place != own)
        window.registered[place].reset();
}

/// Threads of peers may still map the memory.
void DeviceNetwork::end() {
  for (InboxWindow &window : windows) {
    window.registered.clear();
    if (window.ofHost)
      ranks.meeting->keepForPeers(std::move(window.ofHost->own));
  }
}

} // namespace kolo::runtime
