#include "device/DeviceProxy.h"

#include "base/Error.h"
#include "device/DeviceRanks.h"
#include "peers/Peers.h"

#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <system_error>
#include <utility>

namespace kolo::runtime {
namespace {

/// After the last request it looks without a pause for so long, unless others need the core, and then this often.
constexpr std::chrono::microseconds eager{1000}, pause{progressIntervalUs};

uint64_t load(const uint64_t &count) {
  return std::atomic_ref(const_cast<uint64_t &>(count)).load(std::memory_order_acquire);
}
void store(uint64_t &count, uint64_t value) { std::atomic_ref(count).store(value, std::memory_order_release); }

} // namespace

DeviceProxy::DeviceProxy(Peers &ofRank, Rank ownRank)
    : peers(ofRank), transport(ofRank.transport()), rank(std::move(ownRank)), creatorPid(getpid()) {
  for (KoloDeviceQueue &queue : rank.queues)
    lanes.emplace_back().queue = &queue;
}

Result<std::unique_ptr<DeviceProxy>> DeviceProxy::start(Peers &peers, Rank rank) {
  std::unique_ptr<DeviceProxy> made(new DeviceProxy(peers, std::move(rank)));
  try {
    made->thread = std::make_unique<std::thread>([proxy = made.get()] { proxy->work(); });
  } catch (const std::system_error &problem) {
    return error(StatusCode::SystemError, "the thread that writes to other hosts cannot be started: {}",
                 problem.what());
  }
  return made;
}

DeviceProxy::~DeviceProxy() {
  if (getpid() != creatorPid) { // a forked child does not have the thread, so it cannot join it
    (void)thread.release();
    return;
  }
  if (!thread)
    return;
  mustEnd.store(true, std::memory_order_release);
  thread->join();
  for (uint32_t lane = 0; lane < lanes.size() && !peers.isAborted(); ++lane)
    if (lanes[lane].numTaken != 0)
      (void)transport.flush(lane); // who waits for it notices a failure
}

void DeviceProxy::work() {
  const Counter none = {};
  Clock::time_point lastRequest = Clock::now(); // or the last chunk that was freed
  while (!mustEnd.load(std::memory_order_acquire) || !isDone()) {
    bool hasMoved = false;
    for (uint32_t number = 0; number < lanes.size(); ++number)
      hasMoved |= workLane(number);
    look();
    const Clock::time_point now = Clock::now();
    if (hasMoved) {
      lastRequest = now;
      yields.helped();
    }
    checkEnd(lastRequest);
    if (now - lastRequest >= eager || !yields.mayYield())
      (void)transport.idle(none, 1, now + pause);
    else if (sched_yield(); Clock::now() - now > longYield) // on few cores, ranks wait for each other's threads
      yields.tookLong();
  }
}

/// Kernels give up by themselves. Without them, nobody but this thread notices that a peer takes nothing.
void DeviceProxy::checkEnd(Clock::time_point lastMove) {
  if (!mustEnd.load(std::memory_order_acquire) || hasFailed || millisecondsSince(lastMove) < peers.settings().timeoutMs)
    return;
  for (const Lane &lane : lanes)
    if (!lane.open.empty())
      return fail(rankError(StatusCode::Timeout, lane.open.front().path.peer,
                            "rank {} waited {} ms for rank {} to take data: timed out", peers.rank(),
                            peers.settings().timeoutMs, lane.open.front().path.peer));
}

bool DeviceProxy::isDone() const {
  return std::ranges::all_of(
      lanes, [](const Lane &lane) { return lane.open.empty() && load(lane.queue->written) == lane.numTaken; });
}

/// Takes what the lane has asked for, and frees its chunks. Whether there was anything to do.
bool DeviceProxy::workLane(uint32_t number) {
  Lane &lane = lanes[number];
  const uint64_t written = load(lane.queue->written), before = lane.numTaken;
  if (written != before && rank.makeReadable && !hasFailed)
    if (Status status = rank.makeReadable(); !status.isOk())
      fail(status);
  for (; lane.numTaken != written; ++lane.numTaken)
    take(number, lane.queue->requests[lane.numTaken % KOLO_DEVICE_REQUESTS]);
  if (lane.numTaken != before)
    store(lane.queue->taken, lane.numTaken);
  return freeChunks(lane) || lane.numTaken != before;
}

/// The lane writes the request again only once `taken` says so.
void DeviceProxy::take(uint32_t number, const KoloDeviceRequest &request) {
  Lane &lane = lanes[number];
  const Path path = {static_cast<int>(request.peer), number};
  if (!hasFailed)
    if (Status status = send(number, request); !status.isOk())
      fail(status);
  if (request.kind == KOLO_DEVICE_PUT)
    lane.open.push_back({path, hasFailed ? 0 : transport.countPuts(path).numBegun});
}

/// A request that no kernel of a compiler makes is a mistake of a kernel, and would be one of this process.
Status DeviceProxy::check(const Lane &lane, const KoloDeviceRequest &request) const {
  const auto distance = static_cast<uint64_t>(static_cast<const unsigned char *>(request.source) - lane.queue->outbox);
  const uint64_t outboxBytes = uint64_t(KOLO_DEVICE_CHUNKS) * KOLO_DEVICE_CHUNK_BYTES;
  const bool isPut = request.kind == KOLO_DEVICE_PUT;
  const bool isKnown = isPut || request.kind == KOLO_DEVICE_SIGNAL;
  const bool isToOther =
      request.peer >= 0 && request.peer < peers.size() && peers.isRemote(static_cast<int>(request.peer));
  const bool isInside = !isPut || (request.value <= KOLO_DEVICE_CHUNK_BYTES && distance < outboxBytes &&
                                   request.value <= outboxBytes - distance);
  if (isKnown && isToOther && isInside)
    return {};
  return rankError(StatusCode::DeviceError, peers.rank(),
                   "a kernel of rank {} asks for something that is no request: kind {}, rank {}, {} bytes",
                   peers.rank(), request.kind, request.peer, request.value);
}

Status DeviceProxy::send(uint32_t number, const KoloDeviceRequest &request) {
  if (Status status = check(lanes[number], request); !status.isOk())
    return status;
  const Path path = {static_cast<int>(request.peer), number};
  if (request.kind == KOLO_DEVICE_PUT)
    return transport.put(path, {request.agreement, 0, request.offset}, request.source, request.value);
  return transport.signal(path, {request.agreement, request.semaphore, request.value});
}

bool DeviceProxy::freeChunks(Lane &lane) {
  const uint64_t before = lane.numFreed;
  auto isFree = [&](const OpenPut &put) { return hasFailed || transport.countPuts(put.path).numFlushed >= put.number; };
  while (!lane.open.empty() && isFree(lane.open.front())) {
    lane.open.pop_front();
    ++lane.numFreed;
  }
  if (lane.numFreed != before)
    store(lane.queue->freed, lane.numFreed);
  return lane.numFreed != before;
}

/// Brings the network on, and notices what ends the communicator.
void DeviceProxy::look() {
  const Status status = transport.progress();
  peers.links()->tellAbort();
  if (hasFailed)
    return;
  if (peers.isAborted())
    return fail(peers.abortCause());
  if (status.isOk())
    return;
  if (!lostTime)
    lostTime = Clock::now();
  if (status.code() != StatusCode::PeerLost || millisecondsSince(*lostTime) > graceMsOfLostPeers)
    fail(status);
}

void DeviceProxy::fail(const Status &cause) {
  hasFailed = true;
  (void)peers.abort(cause);
  rank.endKernels();
}

} // namespace kolo::runtime
