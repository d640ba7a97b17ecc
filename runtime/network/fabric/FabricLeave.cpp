// How a rank leaves. An endpoint that closes while data still comes to it may lose what it sent last: so the rank tells
// its last counts, and its peers say farewell when they have them and write nothing more.
#include "base/Error.h"
#include "network/fabric/FabricTransport.h"
#include "wait/Clock.h"

#include <unistd.h>

#include <algorithm>

namespace kolo::runtime::fabric {
namespace {

constexpr std::chrono::microseconds lookInterval{100};
/// A peer that computes says nothing. What this rank wrote arrives all the same, so it does not wait longer.
constexpr std::chrono::milliseconds longestAnswer{2000};

} // namespace

/// Keeps the counts of one letter. Only signals of this rank's own agreements can be missing, so they stay few.
Status FabricTransport::noteLeaving(int sender, Peer &peer, const Letter &letter) {
  if (peer.hasSaidAll)
    return rankError(StatusCode::Mismatch, sender, "rank {} leaves twice", sender);
  for (const LastCount &one : letter.lastCounts)
    if (ownCell(sender, one.lane, one.signal))
      peer.lastCounts[{one.signal.agreement, one.lane, one.signal.semaphore}] = one.signal.count;
  peer.isLeaving = true;
  peer.hasSaidAll = letter.isLast;
  if (letter.isLast)
    leaving.insert(sender);
  isSomeoneLeaving.store(true, std::memory_order_release);
  return {};
}

/// Says farewell to the peers whose signals have all come, and to which nothing is under way. Requires `mutex`, as all
/// below but leave.
void FabricTransport::answerLeaving() {
  std::erase_if(leaving, [this](int number) {
    Peer &peer = peers.at(number);
    if (!mails.stateOf(number).isOk())
      return true; // it did not wait
    std::erase_if(peer.lastCounts, [&](const auto &one) {
      auto [agreement, lane, semaphore] = one.first;
      const Cell *cell = ownCell(number, lane, {agreement, semaphore, one.second});
      return !cell || cell->hasReached(one.second);
    });
    bool isWritten = std::ranges::any_of(peer.paths, [](const auto &one) { return one.second.numUnderWay != 0; });
    if (!peer.lastCounts.empty() || isWritten)
      return false;
    Letter letter;
    letter.kind = LetterKind::Farewell;
    (void)mails.mail(number, write(letter));
    return true;
  });
}

/// Writes the last counts of all agreements that the peer still has.
void FabricTransport::tellLeaving(int number, Peer &peer) {
  if (!peer.isAcquainted())
    return;
  Letter letter;
  letter.kind = LetterKind::Leaving;
  for (auto &[lane, path] : peer.paths) {
    path.requests.clear();
    for (const auto &[key, count] : path.counts) {
      if (!peer.agreements.contains(key.first))
        continue;
      if (letter.lastCounts.size() == maxLastCounts) {
        (void)mails.mail(number, write(letter));
        letter.lastCounts.clear();
      }
      letter.lastCounts.push_back({lane, {key.first, key.second, count}});
    }
  }
  letter.isLast = true;
  (void)mails.mail(number, write(letter));
}

/// Whether the peer may be writing here, or waits for signals of this rank.
bool FabricTransport::mustHear(int number, const Peer &peer) const {
  if (peer.stage == Stage::Strange) // it does not know this rank's address
    return false;
  bool mayWrite = peer.stage != Stage::Met || std::ranges::any_of(exposed, [&](const auto &one) {
                    return one.second.registration.senders[static_cast<size_t>(number)];
                  });
  auto isAwaited = [&](const auto &path) {
    return std::ranges::any_of(path.second.counts,
                               [&](const auto &one) { return peer.agreements.contains(one.first.first); });
  };
  return mayWrite || std::ranges::any_of(peer.paths, isAwaited);
}

/// `waitsForAnswers`: not only for what this rank writes.
bool FabricTransport::mayLeave(bool waitsForAnswers) {
  for (const auto &[number, peer] : peers) {
    if (!peer.refusal.isOk() || !peer.failure.isOk() || !mails.stateOf(number).isOk())
      continue;
    bool isWriting = std::ranges::any_of(peer.paths, [](const auto &one) { return one.second.numUnderWay != 0; });
    if (isWriting || (waitsForAnswers && !peer.saidFarewell && mustHear(number, peer)))
      return false;
  }
  return true;
}

void FabricTransport::leave() {
  if (getpid() != creatorPid || !isConnected.load(std::memory_order_acquire))
    return;
  const Counter none = {};
  const Clock::time_point begin = Clock::now(), until = begin + std::chrono::milliseconds(options.timeoutMs);
  {
    std::scoped_lock lock(mutex);
    hasLeft = true;
    meetings.clear();
    for (auto &[number, peer] : peers)
      if (nic && mails.stateOf(number).isOk())
        tellLeaving(number, peer);
  }
  while (Clock::now() < until && !(options.mustStop && options.mustStop())) {
    (void)progress(); // a peer's failure does not end this
    {
      std::scoped_lock lock(mutex);
      if (!nic || mayLeave(Clock::now() - begin < longestAnswer))
        return;
    }
    (void)mails.idle(none, 1, Clock::now() + lookInterval);
  }
}

} // namespace kolo::runtime::fabric
