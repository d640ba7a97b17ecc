// What hosts do for kernels whose peers are on other hosts: they take requests, and deliver them late, each lane's to
// one peer in order. A chunk of an outbox and a request are overwritten before a kernel may use their places again.
#pragma once

#include "kolo/runtime/DeviceAbi.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace kolo::test {

/// By rank of a mesh whose slowest dimension is a network. A host has so many ranks, or all of one place along that
/// dimension if these are more.
std::vector<int> hostsOf(const std::vector<int64_t> &mesh, int64_t ranksPerHost);

class EmulatedNetwork {
public:
  struct Size {
    size_t numRanks, numLanes, numSemaphores;
  };
  /// `hosts`: by rank.
  EmulatedNetwork(const Size &size, std::vector<int> hosts);

  bool areApart(size_t rank, size_t peer) const { return hosts[rank] != hosts[peer]; }
  bool areSeveral() const;
  /// A row of addresses of all ranks as a rank has it: of those of its host, by place, and then null.
  template <class Address> std::vector<Address> seenBy(size_t rank, const std::vector<Address> &ofRanks) const {
    std::vector<Address> row(numHere[rank] + 1);
    for (size_t peer = 0; peer < size.numRanks; ++peer)
      if (!areApart(rank, peer))
        row[places[rank][peer]] = ofRanks[peer];
    return row;
  }
  /// Gives the invocation all but the inboxes.
  void describe(size_t rank, KoloDeviceNetworkInvocation &invocation);

  /// Begins to take requests. `inboxes`: by rank.
  void start(std::vector<std::byte *> inboxes, size_t inboxBytes, uint64_t seed);
  /// Returns when all requests are delivered. Says what was wrong with them, or nothing.
  std::string stop();

  /// Between calls.
  uint64_t numPuts() const;

  std::atomic<bool> deliversPuts = true; // false: puts, and what follows them, stay where they are

private:
  /// Of a queue.
  struct State {
    std::vector<unsigned char> outbox;
    std::deque<bool> isDelivered; // of the puts from `freed` on
    uint64_t numPuts = 0;         // taken
  };
  struct Pending {
    KoloDeviceRequest request;
    uint64_t put; // its number, of a put
  };
  struct alignas(KOLO_DEVICE_CELL_BYTES) Cell {
    uint64_t count;
  };
  using Wire = std::tuple<size_t, size_t, size_t>; // rank, lane, peer

  /// Cells have no order that others know: those of the highest rank come first.
  void placePeers();
  size_t numFar(size_t rank) const { return size.numRanks - numHere[rank]; }
  State &stateOf(size_t rank, size_t lane) { return states[rank * size.numLanes + lane]; }
  KoloDeviceQueue &queueOf(size_t rank, size_t lane) { return queues[rank][lane]; }
  void run(const std::stop_token &stopped);
  bool take(size_t rank, size_t lane);
  void deliver(const Wire &wire, std::deque<Pending> &waiting);
  void put(const Wire &wire, const Pending &pending);
  void signal(const Wire &wire, const KoloDeviceRequest &request);
  std::string mistakeIn(size_t rank, size_t lane, const KoloDeviceRequest &request) const;

  const Size size;
  const std::vector<int> hosts;
  std::vector<State> states;
  std::vector<std::vector<KoloDeviceQueue>> queues;       // by rank and lane
  std::vector<std::vector<KoloDeviceQueueCounts>> counts; // by rank and lane
  std::vector<std::vector<Cell>> cells;                   // by rank
  std::vector<std::vector<uint32_t>> places;              // by rank and peer
  std::vector<size_t> numHere;                            // by rank
  std::map<Wire, std::deque<Pending>> wires;
  std::vector<std::byte *> inboxes;
  size_t inboxBytes = 0;
  std::mt19937_64 random;
  std::string wrong;
  std::jthread thread;
};

} // namespace kolo::test
