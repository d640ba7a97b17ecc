// Channel: put, signal, wait and flush by hand.
#include "kolo/runtime/Channel.h"

#include "CommunicatorState.h"
#include "Error.h"

#include <cstring>

namespace kolo::runtime {
namespace {

Status checkChannel(CommunicatorState &communicator, int peer, int id) {
  Peers &peers = communicator.peers();
  if (peer < 0 || peer >= peers.size())
    return error(StatusCode::InvalidArgument, "channel to rank {}: there are {} ranks", peer, peers.size());
  if (id < 0 || id >= numChannels)
    return error(StatusCode::InvalidArgument, "channel {} to rank {}: ids are 0 to {}", id, peer, numChannels - 1);
  return peers.isAborted() ? peers.abortedEarlier() : Status();
}

Status waitForSignal(CommunicatorState &communicator, int peer, int id) {
  Peers &peers = communicator.peers();
  uint64_t target = ++communicator.channelAwaited[CommunicatorState::channelIndex(peer, id)];
  Cell &cell = peers.control().channelCell(peers.rank(), peer, id);
  if (cell.hasReached(target) || spinUntil(cell, target, peers.policy()))
    return {};
  Clock::time_point start = Clock::now();
  WaitEnd end = waitSlowly(cell, target, peers.policy(), [&] { return peers.checkWait(peer, start); });
  if (end == WaitEnd::Reached)
    return {};
  if (end == WaitEnd::Aborted)
    return peers.abortCause();
  bool isLost = end == WaitEnd::PeerLost;
  return peers.abort(rankError(isLost ? StatusCode::PeerLost : StatusCode::Timeout, peer,
                               "rank {} waited {} ms for a signal of rank {} on channel {}: {}", peers.rank(),
                               millisecondsSince(start), peer, id, isLost ? "it has ended or left" : "timed out"));
}

} // namespace

Status Channel::put(const RemoteWindow &window, size_t offsetBytes, const void *src, size_t sizeBytes) {
  return guarded([&]() -> Status {
    if (Status status = checkChannel(*communicator, peer, id); !status.isOk())
      return status;
    if (window.rank() != peer)
      return error(StatusCode::InvalidArgument, "channel to rank {}: the window is rank {}'s", peer, window.rank());
    if (offsetBytes > window.sizeBytes() || sizeBytes > window.sizeBytes() - offsetBytes)
      return error(StatusCode::InvalidArgument, "put of {} bytes at {} into a window of {}", sizeBytes, offsetBytes,
                   window.sizeBytes());
    if (sizeBytes != 0)
      std::memmove(window.state->data + offsetBytes, src, sizeBytes);
    return {};
  });
}

Status Channel::signal() {
  return guarded([&]() -> Status {
    if (Status status = checkChannel(*communicator, peer, id); !status.isOk())
      return status;
    Peers &peers = communicator->peers();
    uint64_t count = ++communicator->channelSent[CommunicatorState::channelIndex(peer, id)];
    peers.control().channelCell(peer, peers.rank(), id).raise(count);
    return {};
  });
}

Status Channel::wait() {
  return guarded([&]() -> Status {
    if (Status status = checkChannel(*communicator, peer, id); !status.isOk())
      return status;
    return waitForSignal(*communicator, peer, id);
  });
}

Status Channel::flush() {
  return guarded([&] { return checkChannel(*communicator, peer, id); });
}

} // namespace kolo::runtime
