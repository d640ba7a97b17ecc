// What the hosts do for kernels whose peers are on several hosts, in memory as weak as that of the kernels. Of each
// rank's host, one thread reads requests and chunks. Another one writes to the rank's inbox and cells what came from
// other hosts.
#pragma once

#include "Memory.h"

#include "kolo/runtime/DeviceAbi.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace kolo::ptx {

/// What a host does wrong.
enum class NetworkFault : uint8_t {
  None,
  SignalFirst,     // a signal overtakes the puts before it
  RelaxedCell,     // nothing orders the cell after the data
  EarlyChunk,      // a chunk counts as free before it is read
  RelaxedRequests, // nothing orders the reading of a request after the count
};

class NetworkModel {
public:
  /// `hosts`: by rank. `readable`: where the host reads memory of a device.
  NetworkModel(std::vector<int> hosts, size_t numLanes, size_t numSemaphores,
               std::function<const std::byte *(uint64_t address)> readable);

  /// Copies the invocations of a launch, and has their ranks see those of other hosts as a network has it. Their
  /// address.
  uint64_t addInvocations(std::span<const KoloDeviceNetworkInvocation> recorded);
  void addRegions(Memory &memory) const;
  bool isOfTables(uint64_t address) const;
  void reset(uint64_t seed);
  size_t numThreads() const { return 2 * hosts.size(); }
  /// One step of a thread that chance chooses: from firstThread on are those that read, by rank, then those that write.
  void serve(Memory &memory, uint32_t firstThread);

  NetworkFault fault = NetworkFault::None;

private:
  struct Message {
    KoloDeviceRequest request;
    std::vector<std::byte> content; // of a put
  };
  struct Lane {
    uint64_t numTaken = 0, numFreed = 0;
    std::deque<KoloDeviceRequest> unsent;
  };
  struct Rank {
    KoloDeviceQueue *queues;
    KoloDeviceQueueCounts *counts;
    std::byte *outboxes, *cells;
    uint32_t *places;
    size_t numHere;
    uint64_t inbox = 0;
    std::vector<Lane> lanes;
  };
  using Wire = std::tuple<size_t, size_t, size_t>; // receiver, sender, lane
  /// Memory of the host. No two share a page, as the executor wants it.
  struct Area {
    std::unique_ptr<void, void (*)(void *)> memory;
    size_t sizeBytes;
    bool isConstant, isZero; // isZero: as the executor sees it at first, whatever it is here
    bool has(uint64_t address) const;
  };
  enum class Content : uint8_t { Table, Values, Zeros };

  template <class T> T *make(size_t number, Content content);
  const uint64_t *rowOf(const void *table, size_t rank);
  void take(Memory &memory, uint32_t thread, Rank &rank, size_t lane);
  void send(Memory &memory, uint32_t thread, size_t rank, size_t lane);
  void deliver(Memory &memory, uint32_t firstThread, size_t rank);
  void put(Memory &memory, uint32_t thread, const Rank &receiver, const Message &message);
  void signal(Memory &memory, uint32_t thread, const Rank &receiver, const Wire &wire, const Message &message);
  void placePeers(size_t number);
  size_t numFar(const Rank &rank) const { return hosts.size() - rank.numHere; }

  const std::vector<int> hosts;
  const size_t numLanes, numSemaphores;
  const std::function<const std::byte *(uint64_t address)> readable;
  std::vector<Area> areas;
  std::vector<Rank> ranks;
  std::map<Wire, std::deque<Message>> wires;
  Random random{1};
};

} // namespace kolo::ptx
