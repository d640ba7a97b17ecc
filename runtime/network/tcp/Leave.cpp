#include "network/tcp/Leave.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace kolo::runtime::tcp {
namespace {

/// A rank that leaves looks this often whether its peers have everything.
constexpr std::chrono::microseconds drainInterval{200};
/// After a failure it waits so long for a peer that takes nothing.
constexpr std::chrono::milliseconds lastPatience{250};

/// Says goodbye on these connections, and gives up those on which the peer takes nothing for so long.
void drain(std::vector<Connection *> open, std::chrono::milliseconds patience, const std::function<bool()> &isStopped) {
  for (Connection *one : open)
    one->toSend().sayGoodbye();
  uint64_t numLeft = UINT64_MAX;
  Clock::time_point lastChange = Clock::now();
  while (true) {
    std::vector<int> unreachable;
    std::erase_if(open, [&](Connection *one) {
      Connection::Drain state = one->drain();
      if (state == Connection::Drain::Broken)
        unreachable.push_back(one->peerRank());
      return state != Connection::Drain::Goes;
    });
    std::erase_if(
        open, [&](Connection *one) { return std::ranges::find(unreachable, one->peerRank()) != unreachable.end(); });
    uint64_t number = 0;
    for (const Connection *one : open)
      number += one->toSend().numUnconfirmed();
    if (std::exchange(numLeft, number) != number)
      lastChange = Clock::now();
    if (open.empty() || Clock::now() - lastChange >= (isStopped() ? std::min(patience, lastPatience) : patience))
      return;
    std::this_thread::sleep_for(drainInterval);
  }
}

} // namespace

void leave(ConnectionTable &connections, const std::function<bool()> &mustStop, std::chrono::milliseconds timeout) {
  auto isStopped = [&] { return mustStop && mustStop(); };
  std::vector<Connection *> mails, others;
  const bool isAborted = connections.newest() && isStopped();
  for (Connection *one = connections.newest(); one; one = one->olderOne())
    if (one->isOpen())
      (isAborted && one->isForMail() ? mails : others).push_back(one);
  drain(std::move(mails), lastPatience, isStopped);
  drain(std::move(others), isAborted ? std::chrono::milliseconds(0) : timeout, isStopped);
}

} // namespace kolo::runtime::tcp
