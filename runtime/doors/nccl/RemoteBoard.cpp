#include "RemoteBoard.h"

#include <utility>

namespace kolo::nccl {
namespace {

constexpr int hubRank = 0;

} // namespace

bool RemoteBoard::take(std::span<const std::byte> message) {
  const std::optional<GroupReply> parsed = parseReply(message);
  if (!parsed || parsed->number > numEntered)
    return false;
  if (parsed->number == numEntered) // else of one for which this rank did not wait, as it has left
    reply = parsed;
  return true;
}

/// A hub that is gone carries nothing of this rank any more: then there is nobody to tell.
void RemoteBoard::tell(const GroupMessage &message) { (void)hub->send(hubRank, toBytes(message)); }

void RemoteBoard::count(std::span<const PeerUse> peers) {
  tell({GroupMessage::Kind::Count, 0, 0, {{peers.begin(), peers.end()}, 0, {}, {}}});
}

void RemoteBoard::count(int peer, PeerUse use) {
  std::vector<PeerUse> peers(static_cast<size_t>(size));
  peers[static_cast<size_t>(peer)] = use;
  count(peers);
}

void RemoteBoard::enter(EnteredGroup group, std::chrono::milliseconds most) {
  reply.reset();
  tell({GroupMessage::Kind::Enter, static_cast<uint32_t>(most.count()), ++numEntered, std::move(group)});
}

/// Whatever the hub has decided, it has said before it left in good order. Of one that is lost nobody knows.
std::optional<GroupVerdict> RemoteBoard::look() {
  hub->progress();
  if (reply)
    return GroupVerdict{reply->isCarried == 1, reply->bound, reply->hasOneLengthEach == 1, reply->isTimeout == 1, {}};
  if (hasLeft() || hub->hasLeft(hubRank))
    return GroupVerdict{};
  if (!hub->isLost(hubRank))
    return std::nullopt;
  GroupVerdict unknown;
  unknown.failure = {runtime::StatusCode::PeerLost,
                     "a group of sends and receives: lost the connection with rank 0, by which ranks agree on it"};
  return unknown;
}

void RemoteBoard::leave() {
  if (!isGone.exchange(true))
    tell({GroupMessage::Kind::Leave, 0, 0, {}});
}

} // namespace kolo::nccl
