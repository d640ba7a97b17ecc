// Watches launches: waits for them, notices failures, and says what a kernel waited for.
#include "device/DeviceState.h"

#include "base/Error.h"

#include <atomic>
#include <thread>

namespace kolo::runtime {
namespace {

using std::chrono::milliseconds;

/// A lost rank may have done its part before it ended, so launches here have this time to end by themselves.
constexpr int64_t graceMs = 20;

uint64_t codeOf(const KoloDeviceFailure &failure) {
  return std::atomic_ref(const_cast<uint64_t &>(failure.code)).load(std::memory_order_acquire);
}

/// The first looks follow each other closely, because collectives are short.
void pauseBetweenLooks(int64_t turn) {
  if (turn < 1000)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(turn < 2000 ? 50 : 1000));
}

} // namespace

bool DeviceState::isAborted() const {
  return std::atomic_ref(*static_cast<uint64_t *>(abortFlag.data())).load(std::memory_order_acquire) != 0;
}

void DeviceState::abortLaunches() {
  std::atomic_ref(*static_cast<uint64_t *>(abortFlag.data())).store(1, std::memory_order_release);
}

/// Aborts the communicator, with this cause or that of a peer that aborted first. Returns the cause.
Status DeviceState::fail(Status cause) {
  abortLaunches();
  failure = cause;
  if (meeting && cause.code() == StatusCode::Aborted)
    failure = meeting->peers().abortCause();
  else if (meeting)
    cause = *(failure = meeting->peers().abort(cause));
  return cause;
}

/// Reports what is known already. Makes no system call.
Status DeviceState::checkUsable() {
  if (!failure && wasAborted.load(std::memory_order_acquire))
    failure = meeting ? meeting->peers().abortCause() : abortedHere();
  if (failure)
    return rankError(StatusCode::Aborted, failure->rank(), "this communicator was aborted: {}", failure->message());
  if (meeting && meeting->peers().isAborted())
    return fail(meeting->peers().abortCause());
  if (isAborted())
    return fail(failureOnDevice(error(StatusCode::Timeout, "a kernel gave up waiting, and did not say for what")));
  return {};
}

Status DeviceState::query() {
  if (Status status = checkUsable(); !status.isOk())
    return status;
  const std::optional<int> lost = lostPeer();
  if (!lost)
    return {};
  Relaxed relaxed(devices.front()->driver());
  if (Result<bool> isDone = areLaunchesDone(); !isDone.isOk() || *isDone)
    return {};
  if (!noticedLoss)
    noticedLoss = Clock::now();
  if (millisecondsSince(*noticedLoss) <= graceMs)
    return {};
  return fail(rankError(StatusCode::PeerLost, *lost, "rank {} has ended or left", *lost));
}

Status DeviceState::abortedHere() const {
  return rankError(StatusCode::PeerLost, rankNumbers.front(), "rank {} aborted this communicator", rankNumbers.front());
}

/// Another thread may be in a call, so this writes only what both may access.
void DeviceState::abort() {
  if (meeting)
    (void)meeting->peers().abort(abortedHere());
  wasAborted.store(true, std::memory_order_release);
  abortLaunches();
}

/// The first timeout that a lane has noted, or else another failure of a lane, with the code of `otherwise`. Without
/// any it returns `otherwise`.
Status DeviceState::failureOnDevice(const Status &otherwise) const {
  const KoloDeviceFailure *found = nullptr;
  const DeviceProgram *of = nullptr;
  size_t rank = 0;
  int lane = 0;
  for (const auto &[key, program] : programs)
    for (size_t local = 0; program->failures.data() && local < locals.size(); ++local)
      for (int number = 0; number < options.lanes; ++number) {
        const KoloDeviceFailure *noted = program->failureOf(local, number, options.lanes);
        uint64_t code = codeOf(*noted);
        if (code == KOLO_DEVICE_OK || (found && (code != KOLO_DEVICE_TIMEOUT || codeOf(*found) == KOLO_DEVICE_TIMEOUT)))
          continue;
        found = noted, of = program.get(), rank = local, lane = number;
      }
  if (!found)
    return otherwise;
  bool isLost = otherwise.code() == StatusCode::PeerLost;
  std::string end = isLost ? otherwise.message() : "timed out";
  int culprit = isLost ? otherwise.rank() : static_cast<int>(found->peer);
  if (found->peer == KOLO_DEVICE_PACKETS)
    return rankError(otherwise.code(), culprit, "rank {} waited for packets on device {} (lane {}; {}): {}",
                     locals[rank].rank, devices[locals[rank].device]->ordinal(), lane,
                     describeStatement(*of->info, found->statement), end);
  return rankError(otherwise.code(), culprit, "rank {} waited for rank {} on device {} (semaphore {}, lane {}; {}): {}",
                   locals[rank].rank, found->peer, devices[locals[rank].device]->ordinal(), found->semaphore, lane,
                   describeStatement(*of->info, found->statement), end);
}

Result<bool> DeviceState::areLaunchesDone() const {
  for (const LocalRank &local : locals) {
    if (!local.hasLaunched)
      continue;
    Result<bool> isDone = local.launched->isDone();
    if (!isDone.isOk() || !*isDone)
      return isDone;
  }
  return true;
}

std::optional<int> DeviceState::lostPeer() const {
  for (int peer = 0; meeting && peer < numRanks; ++peer)
    if (peer != meeting->rank() && meeting->peers().isLost(peer))
      return peer;
  return std::nullopt;
}

/// Kernels end by themselves, because their waits do. If a rank is lost, this function ends them soon. A kernel that
/// has not begun waits for its stream, so after `abort` this function returns soon, unless the caller frees memory.
Status DeviceState::waitForLaunches(AfterAbort afterAbort) {
  Relaxed relaxed(devices.front()->driver());
  std::optional<int> lost;
  std::optional<Clock::time_point> aborted;
  Clock::time_point noticed;
  for (int64_t turn = 0;; ++turn) {
    Result<bool> isDone = areLaunchesDone();
    if (meeting && (!isDone.isOk() || *isDone))
      meeting->setRunning(false);
    if (!isDone.isOk())
      return fail(isDone.status());
    if (*isDone)
      break;
    pauseBetweenLooks(turn);
    if (!aborted && wasAborted.load(std::memory_order_acquire))
      aborted = Clock::now();
    if (aborted && afterAbort == AfterAbort::Return && millisecondsSince(*aborted) > graceMs) {
      abortLaunches();
      break;
    }
    if (turn < 1000 || !meeting || isAborted())
      continue;
    if (meeting->peers().isAborted())
      abortLaunches();
    if (!lost && (lost = lostPeer()))
      noticed = Clock::now();
    if (lost && millisecondsSince(noticed) > graceMs)
      abortLaunches();
  }
  if (!isAborted())
    return {};
  if (meeting && meeting->peers().isAborted())
    return fail(meeting->peers().abortCause());
  if (wasAborted.load(std::memory_order_acquire))
    return fail(abortedHere());
  if (lost)
    return fail(failureOnDevice(rankError(StatusCode::PeerLost, *lost, "rank {} has ended or left", *lost)));
  return fail(failureOnDevice(error(StatusCode::Timeout, "a kernel gave up waiting, and did not say for what")));
}

Status DeviceState::synchronize() {
  if (failure)
    return query();
  if (Status status = waitForLaunches(); !status.isOk())
    return status;
  return query();
}

DeviceState::~DeviceState() {
  if (!devices.empty())
    ending.emplace(devices.front()->driver());
  if (!abortFlag.data()) { // `open` failed
    if (meeting)
      meeting->leave(false);
    return;
  }
  if (failure)
    abortLaunches();
  bool isWell = waitForLaunches(AfterAbort::Wait).isOk() && !failure;
  for (void *stream : {side.in, side.out})
    if (stream)
      (void)devices.front()->driver().destroyStream(devices.front()->ordinal(), stream);
  if (!meeting)
    return;
  // Peers unmap this rank's memory before this rank frees it, and the other way round.
  heap.unmapPeers();
  windows.clear();
  meeting->leave(isWell);
}

} // namespace kolo::runtime
