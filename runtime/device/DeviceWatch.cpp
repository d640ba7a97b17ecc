#include "device/DeviceWatch.h"

#include "base/Error.h"

#include <thread>

namespace kolo::runtime {
namespace {

/// The first looks follow each other closely, because collectives are short.
constexpr int64_t closeLooks = 1000;

Status peerLost(int peer) { return rankError(StatusCode::PeerLost, peer, "rank {} has ended or left", peer); }

Status gaveUp() { return error(StatusCode::Timeout, "a kernel gave up waiting, and did not say for what"); }

} // namespace

void pauseBetweenLooks(int64_t turn) {
  if (turn < closeLooks)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(turn < 2 * closeLooks ? 50 : 1000));
}

Status DeviceWatch::open() {
  Result<DeviceMemory> made = DeviceMemory::allocate(ranks.devices.front(), KOLO_MEMORY_HOST, sizeof(uint64_t));
  if (!made.isOk())
    return made.status();
  abortFlag = std::move(made).value();
  return {};
}

bool DeviceWatch::isAborted() const { return std::atomic_ref(*flag()).load(std::memory_order_acquire) != 0; }

void DeviceWatch::abortLaunches() {
  if (isOpen()) // otherwise there are none
    std::atomic_ref(*flag()).store(1, std::memory_order_release);
}

Status DeviceWatch::fail(Status cause) {
  abortLaunches();
  failure = cause;
  if (ranks.meeting && cause.code() == StatusCode::Aborted)
    failure = ranks.meeting->peers().abortCause();
  else if (ranks.meeting)
    cause = *(failure = ranks.meeting->peers().abort(cause));
  return cause;
}

Status DeviceWatch::exchange(DeviceRecord &record, const Status &own) {
  if (!own.isOk())
    setRefusal(record, own);
  Status status = ranks.meeting->perform();
  if (status.isOk())
    return ranks.meeting->firstRefusal();
  return status.code() == StatusCode::Mismatch ? status : fail(status);
}

Status DeviceWatch::checkUsable() {
  if (!failure && wasAborted.load(std::memory_order_acquire))
    failure = ranks.meeting ? ranks.meeting->peers().abortCause() : abortedHere();
  if (failure)
    return rankError(StatusCode::Aborted, failure->rank(), "this communicator was aborted: {}", failure->message());
  if (ranks.meeting && ranks.meeting->peers().isAborted())
    return fail(ranks.meeting->peers().abortCause());
  if (isAborted())
    return fail(programs.failureOr(gaveUp()));
  return {};
}

Status DeviceWatch::query() {
  hearHosts();
  if (Status status = checkUsable(); !status.isOk())
    return status;
  const std::optional<int> lost = lostPeer();
  if (!lost)
    return {};
  Relaxed relaxed(ranks.devices.front()->driver());
  if (Result<bool> isDone = launches.areDone(); !isDone.isOk() || *isDone)
    return {};
  if (!noticedLoss)
    noticedLoss = Clock::now();
  if (millisecondsSince(*noticedLoss) <= graceMsOfLostPeers)
    return {};
  return fail(peerLost(*lost));
}

Status DeviceWatch::abortedHere() const {
  const int own = ranks.numbers.front();
  return rankError(StatusCode::PeerLost, own, "rank {} aborted this communicator", own);
}

/// Another thread may be in a call, so this writes only what both may access.
void DeviceWatch::abort() {
  if (ranks.meeting)
    (void)ranks.meeting->peers().abort(abortedHere());
  wasAborted.store(true, std::memory_order_release);
  abortLaunches();
}

/// Where there is no DeviceProxy, nobody else does.
void DeviceWatch::hearHosts() const {
  if (ranks.areOnHosts())
    ranks.meeting->peers().links()->progress();
}

std::optional<int> DeviceWatch::lostPeer() const {
  for (int peer = 0; ranks.meeting && peer < ranks.size; ++peer)
    if (peer != ranks.meeting->rank() && ranks.meeting->peers().isLost(peer))
      return peer;
  return std::nullopt;
}

/// Whether launches wait for nothing that will come. Notes the peer that is lost, and since when.
bool DeviceWatch::areToEnd(std::optional<int> &lost, Clock::time_point &noticed) const {
  if (ranks.meeting->peers().isAborted())
    return true;
  if (!lost && (lost = lostPeer()))
    noticed = Clock::now();
  return lost && millisecondsSince(noticed) > graceMsOfLostPeers;
}

Status DeviceWatch::waitForLaunches(AfterAbort afterAbort) {
  Relaxed relaxed(ranks.devices.front()->driver());
  std::optional<int> lost;
  std::optional<Clock::time_point> aborted;
  Clock::time_point noticed;
  for (int64_t turn = 0;; ++turn) {
    Result<bool> isDone = launches.areDone();
    if (ranks.meeting && (!isDone.isOk() || *isDone))
      ranks.meeting->setRunning(false);
    if (!isDone.isOk())
      return fail(isDone.status());
    if (*isDone)
      break;
    pauseBetweenLooks(turn);
    if (!aborted && wasAborted.load(std::memory_order_acquire))
      aborted = Clock::now();
    if (aborted && afterAbort == AfterAbort::Return && millisecondsSince(*aborted) > graceMsOfLostPeers) {
      abortLaunches();
      break;
    }
    if (turn >= closeLooks)
      hearHosts();
    if (turn >= closeLooks && ranks.meeting && !isAborted() && areToEnd(lost, noticed))
      abortLaunches();
  }
  return isAborted() ? fail(causeOfEnd(lost)) : Status();
}

/// Why launches were ended.
Status DeviceWatch::causeOfEnd(std::optional<int> lost) const {
  if (ranks.meeting && ranks.meeting->peers().isAborted())
    return ranks.meeting->peers().abortCause();
  if (wasAborted.load(std::memory_order_acquire))
    return abortedHere();
  return programs.failureOr(lost ? peerLost(*lost) : gaveUp());
}

Status DeviceWatch::synchronize() {
  if (failure)
    return query();
  if (Status status = waitForLaunches(); !status.isOk())
    return status;
  return query();
}

} // namespace kolo::runtime
