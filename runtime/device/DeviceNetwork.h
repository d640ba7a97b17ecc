// DeviceNetwork: what calls of programs that may cross a network need beside internal memory. That is inboxes, and on
// several hosts also cells, and queues by which kernels ask this rank's DeviceProxy to write. All ranks have the same.
// Inboxes and outboxes lie in memory of the hosts, or of the devices where the network reaches them.
#pragma once

#include "device/DeviceCells.h"
#include "device/DeviceHeap.h"
#include "device/DevicePlan.h"
#include "device/DeviceProxy.h"
#include "device/DeviceRanks.h"
#include "device/DeviceWatch.h"
#include "device/DeviceWindows.h"
#include "device/ReachedMemory.h"
#include "device/RegisteredMemory.h"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kolo::runtime {

class DeviceNetwork {
public:
  DeviceNetwork(DeviceRanks &allRanks, DeviceWatch &theWatch, DeviceWindows &theWindows)
      : ranks(allRanks), watch(theWatch), peerMemory(theWindows) {}

  /// As the functions of DeviceHeap.
  std::optional<std::vector<HeapBlock>> takeInboxes(std::span<const size_t> sizes) { return heap.take(sizes); }
  void giveBack(const HeapBlock &inbox) { heap.giveBack(inbox); }
  void *at(const HeapBlock &inbox, size_t place) const { return heap.at(inbox, place); }
  size_t inboxBytes() const { return heap.sizeBytes(); }
  /// Of calls like this one; null: ranks of other hosts raise none.
  const DeviceCells *cellsOf(const DevicePlan &plan) const;
  /// Whether all is there by which ranks of other hosts signal in calls like this one.
  bool hasCellsFor(const DevicePlan &plan) const { return !needsCells(plan) || cellsOf(plan); }

  /// Adds room for these inboxes and the cells of calls like this one, where there is none. Collective. OutOfMemory,
  /// SystemError, DeviceError, BadPlugin, Mismatch, Timeout, PeerLost, Aborted.
  Status growFor(std::span<const size_t> inboxSizes, const DevicePlan &plan);
  /// What a call of this rank's process has, with this inbox.
  NetworkAddresses addressesOf(const HeapBlock &inbox) const;

  /// Called when no kernel runs. Returns when all that kernels asked for is on its way: see ~DeviceProxy.
  void endRequests() { proxy.reset(); }
  /// Unmaps inboxes of peers. None can be used any more.
  void unmapPeers();
  /// Called when no peer of this host accesses inboxes any more.
  void end();

private:
  /// Inboxes of all ranks of this host.
  struct InboxWindow {
    std::optional<HostWindow> ofHost;
    std::vector<std::shared_ptr<const RegisteredMemory>> registered; // of them, by place
    ReachedMemory onDevice;                                          // instead of both
    uint64_t agreement = 0;                                          // by which ranks of other hosts put there
  };
  struct Queues {
    DeviceMemory memory;    // of the lanes' queues, and then their outboxes
    ReachedMemory outboxes; // where they are in memory of the device
    DeviceMemory counts;    // KoloDeviceQueueCounts, by lane

    KoloDeviceQueue *first() const { return static_cast<KoloDeviceQueue *>(memory.data()); }
  };
  /// What is added at a time.
  struct Growth {
    size_t inboxBytes = 0;
    std::optional<Window> memory;
    ReachedMemory onDevice; // instead
    std::optional<InboxWindow> window;
    MappedWindow mapped;
    std::optional<DeviceCells> cells;
    std::optional<Queues> queues;
    std::unique_ptr<DeviceProxy> proxy;
    std::vector<uint64_t> agreements; // of what is registered
  };

  Status growHere(size_t sizeBytes);
  bool needsCells(const DevicePlan &plan) const;
  Status grow(Growth growth, const DevicePlan &plan);
  Status allocate(Growth &growth, const DevicePlan &plan) const;
  Result<DeviceCells> makeCells(const DevicePlan &plan) const;
  Status allocateInbox(Growth &growth) const;
  Result<Queues> makeQueues() const;
  Status share(Growth &growth);
  Status shareInboxes(Growth &growth);
  Status registerInboxes(Growth &growth) const;
  Status connect(Growth &growth);
  Result<uint64_t> let(Growth &growth, const Registration &registration) const;
  Status startProxy(Growth &growth);
  void undo(Growth &growth);
  void keep(Growth &growth, const DevicePlan &plan);

  DeviceRanks &ranks;
  DeviceWatch &watch;
  DeviceWindows &peerMemory;
  std::map<CountersKey, DeviceCells> cells;
  std::optional<Queues> queues;
  std::vector<InboxWindow> windows; // by window of the heap, with a meeting
  DeviceHeap heap;
  std::unique_ptr<DeviceProxy> proxy; // ends first
};

} // namespace kolo::runtime
