// DeviceProxy: a thread that writes to ranks of other hosts what kernels of this rank ask for. It calls no driver, so
// it may run while a stream is captured, and while a graph runs that no call announces.
#pragma once

#include "kolo/runtime/DeviceAbi.h"
#include "kolo/runtime/Status.h"
#include "network/Transport.h"
#include "wait/Clock.h"
#include "wait/Wait.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace kolo::runtime {

class Peers;

class DeviceProxy {
public:
  struct Rank {
    std::span<KoloDeviceQueue> queues;      // of its lanes, in zeroed memory that outlives this object and the network
    std::function<void()> endKernels;       // called, once at least, when the communicator is aborted; any thread
    std::function<Status()> makeReadable{}; // called before the network reads what kernels wrote; null: it just can
  };
  /// SystemError: no thread can be made.
  static Result<std::unique_ptr<DeviceProxy>> start(Peers &peers, Rank rank);
  /// Returns when all that kernels asked for is on its way, the communicator is aborted, or a peer took nothing for the
  /// timeout. No kernel may run then.
  ~DeviceProxy();
  DeviceProxy(const DeviceProxy &) = delete;
  DeviceProxy &operator=(const DeviceProxy &) = delete;

private:
  /// A put whose chunk is in use.
  struct OpenPut {
    Path path;
    uint64_t number = 0; // see PutCounts
  };
  struct Lane {
    KoloDeviceQueue *queue = nullptr;
    uint64_t numTaken = 0, numFreed = 0;
    std::deque<OpenPut> open; // in order
  };

  DeviceProxy(Peers &ofRank, Rank ownRank);
  void work();
  bool workLane(uint32_t number);
  void checkEnd(Clock::time_point lastMove);
  void take(uint32_t number, const KoloDeviceRequest &request);
  Status check(const Lane &lane, const KoloDeviceRequest &request) const;
  Status send(uint32_t number, const KoloDeviceRequest &request);
  bool freeChunks(Lane &lane);
  void look();
  void fail(const Status &cause);
  bool isDone() const;

  Peers &peers;
  Transport &transport;
  const Rank rank;
  const int creatorPid;
  std::vector<Lane> lanes;
  YieldChoice yields;
  bool hasFailed = false;                    // nothing is sent any more
  std::optional<Clock::time_point> lostTime; // when it noticed that a peer is lost
  std::atomic<bool> mustEnd = false;
  std::unique_ptr<std::thread> thread;
};

} // namespace kolo::runtime
