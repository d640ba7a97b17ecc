#include "network/fabric/FabricLeave.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime::fabric {

/// Only signals of this rank's own agreements can be missing, so they stay few.
Status FabricLeave::note(int sender, FabricPeer &peer, const ControlMessage &message) {
  if (peer.hasSaidAll)
    return rankError(StatusCode::Mismatch, sender, "rank {} leaves twice", sender);
  for (const LastCount &one : message.lastCounts)
    if (state.ownCell(sender, one.lane, one.signal))
      peer.lastCounts[{one.signal.agreement, one.lane, one.signal.semaphore}] = one.signal.count;
  peer.isLeaving = true;
  peer.hasSaidAll = message.isLast;
  if (message.isLast)
    leaving.insert(sender);
  return {};
}

void FabricLeave::answer() {
  std::erase_if(leaving, [this](int number) { return isOver(number); });
}

/// Whether this rank has said farewell, or nobody waits for it.
bool FabricLeave::isOver(int number) {
  FabricPeer &peer = state.peers.at(number);
  if (!state.isThere(number))
    return true; // it did not wait
  std::erase_if(peer.lastCounts, [&](const auto &one) {
    auto [agreement, lane, semaphore] = one.first;
    const Cell *cell = state.ownCell(number, lane, {agreement, semaphore, one.second});
    return !cell || cell->hasReached(one.second);
  });
  if (!peer.lastCounts.empty() || peer.isWrittenTo())
    return false;
  ControlMessage message;
  message.kind = ControlKind::Farewell;
  state.tell(number, message);
  return true;
}

void FabricLeave::tell(int number, FabricPeer &peer) {
  if (!peer.isAcquainted())
    return;
  ControlMessage message;
  message.kind = ControlKind::Leaving;
  for (auto &[lane, path] : peer.paths) {
    path.requests.clear();
    for (const auto &[key, count] : path.counts) {
      if (!peer.agreements.contains(key.first))
        continue;
      if (message.lastCounts.size() == maxLastCounts) {
        state.tell(number, message);
        message.lastCounts.clear();
      }
      message.lastCounts.push_back({lane, {key.first, key.second, count}});
    }
  }
  message.isLast = true;
  state.tell(number, message);
}

/// Whether the peer may be writing here, or waits for signals of this rank.
bool FabricLeave::mustHear(int number, const FabricPeer &peer) const {
  if (peer.stage == Stage::Strange) // it does not know this rank's address
    return false;
  auto isAwaited = [&](const auto &path) {
    return std::ranges::any_of(path.second.counts,
                               [&](const auto &one) { return peer.agreements.contains(one.first.first); });
  };
  return peer.stage != Stage::Met || state.exposed.mayWrite(number) || std::ranges::any_of(peer.paths, isAwaited);
}

bool FabricLeave::mayLeave(bool waitsForAnswers) const {
  return std::ranges::none_of(state.peers, [&](const auto &one) {
    const auto &[number, peer] = one;
    return peer.isWorking() && state.isThere(number) &&
           (peer.isWrittenTo() || (waitsForAnswers && !peer.saidFarewell && mustHear(number, peer)));
  });
}

} // namespace kolo::runtime::fabric
