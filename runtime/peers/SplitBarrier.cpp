#include "peers/SplitBarrier.h"

#include "base/Error.h"

namespace kolo::runtime {

Result<uint64_t> SplitBarrier::begin() {
  if (!peers.mayCall())
    return peers.whyNoCall();
  if (peers.hosts().areSeveral())
    return error(StatusCode::UnsupportedMesh, "ranks are on several hosts: they cannot begin a barrier and go on");
  begunBy(peers.rank()).raise(++last);
  return last;
}

Status SplitBarrier::loseTo(int peer, const char *why) {
  return peers.abort(rankError(StatusCode::PeerLost, peer, "rank {} waited for {} to begin a barrier: {}", peers.rank(),
                               peers.hosts().describe(peer), why));
}

Status SplitBarrier::checkNumber(uint64_t number) const {
  return begunBy(peers.rank()).hasReached(number)
             ? Status()
             : error(StatusCode::InvalidArgument, "this rank has not begun barrier {}", number);
}

Result<bool> SplitBarrier::isOver(uint64_t number) {
  if (Status status = checkNumber(number); !status.isOk())
    return status;
  const int size = peers.size(), first = missing.load(std::memory_order_relaxed);
  for (int i = 0; i < size; ++i) {
    const int peer = first + i < size ? first + i : first + i - size;
    if (begunBy(peer).hasReached(number)) [[likely]]
      continue;
    missing.store(peer, std::memory_order_relaxed);
    if (peers.isAborted())
      return peers.whyNoCall();
    const bool mustCheck = numInVain.fetch_add(1, std::memory_order_relaxed) % looksPerCheck == looksPerCheck - 1;
    if (mustCheck && peers.isLost(peer) && !begunBy(peer).hasReached(number))
      return loseTo(peer, "it has ended or left");
    return false;
  }
  return true;
}

/// Not by Peers::checkWait, which is for the thread that uses the communicator.
Status SplitBarrier::await(int peer, uint64_t number) {
  thread_local YieldChoice yields;
  WaitPolicy policy = peers.policyFor(peer);
  policy.yields = &yields;
  policy.seat = nullptr;
  Counter &counter = begunBy(peer);
  if (counter.hasReached(number) || spinUntil(counter, number, policy))
    return {};
  const Clock::time_point start = Clock::now();
  switch (waitSlowly(counter, number, policy, [&] {
    if (peers.isAborted())
      return WaitEnd::Aborted;
    if (peers.isLost(peer))
      return WaitEnd::PeerLost;
    return millisecondsSince(start) >= peers.settings().timeoutMs ? WaitEnd::Timeout : WaitEnd::Reached;
  })) {
  case WaitEnd::Reached:
    return {};
  case WaitEnd::Aborted:
    return peers.whyNoCall();
  case WaitEnd::PeerLost:
    return loseTo(peer, "it has ended or left");
  case WaitEnd::Timeout:
    break;
  }
  return peers.abort(rankError(StatusCode::Timeout, peer, "rank {} waited {} ms for {} to begin a barrier: timed out",
                               peers.rank(), millisecondsSince(start), peers.hosts().describe(peer)));
}

Status SplitBarrier::finish(uint64_t number) {
  if (Status status = checkNumber(number); !status.isOk())
    return status;
  for (int peer = 0; peer < peers.size(); ++peer)
    if (Status status = await(peer, number); !status.isOk())
      return status;
  return {};
}

} // namespace kolo::runtime
