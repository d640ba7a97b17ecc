// Channel: put, signal, wait and flush by hand.
#include "kolo/runtime/Channel.h"

#include "base/Error.h"
#include "call/CommunicatorState.h"

#include <cstring>

namespace kolo::runtime {
namespace {

Status checkChannel(CommunicatorState &communicator, int peer, int id) {
  Peers &peers = communicator.peers();
  if (peer < 0 || peer >= peers.size())
    return error(StatusCode::InvalidArgument, "channel to rank {}: there are {} ranks", peer, peers.size());
  if (id < 0 || id >= numChannels)
    return error(StatusCode::InvalidArgument, "channel {} to rank {}: ids are 0 to {}", id, peer, numChannels - 1);
  return peers.mayCall() ? Status() : peers.whyNoCall();
}

Status waitForSignal(CommunicatorState &communicator, int peer, int id) {
  Peers &peers = communicator.peers();
  uint64_t target = communicator.channels.nextAwaited(peer, id);
  Cell &cell = *peers.channelCell(peers.rank(), peer, id);
  const WaitPolicy policy = peers.policyFor(peer);
  if (cell.hasReached(target) || spinUntil(cell, target, policy))
    return {};
  Clock::time_point start = Clock::now();
  WaitEnd end = waitSlowly(cell, target, policy, [&] { return peers.checkWait(peer, start); });
  if (end == WaitEnd::Reached)
    return {};
  if (end == WaitEnd::Aborted)
    return peers.abortCause();
  bool isLost = end == WaitEnd::PeerLost;
  return peers.abort(rankError(isLost ? StatusCode::PeerLost : StatusCode::Timeout, peer,
                               "rank {} waited {} ms for a signal of {} on channel {}: {}", peers.rank(),
                               millisecondsSince(start), peers.hosts().describe(peer), id,
                               isLost ? "it has ended or left" : "timed out"));
}

/// What the transport says. A peer that was lost is noticed by whoever waits for it.
Status orAbort(Peers &peers, const Status &status) {
  return status.isOk() || status.code() == StatusCode::PeerLost ? Status() : peers.abort(status);
}

struct Source {
  const void *data;
  size_t sizeBytes;
};

Status putOverNetwork(Peers &peers, int peer, const RemotePlace &place, Source src) {
  Transport &transport = peers.transport();
  if (Status status = orAbort(peers, transport.put({peer, 0}, place, src.data, src.sizeBytes)); !status.isOk())
    return status;
  return orAbort(peers, transport.flush(0));
}

/// Flushes, because this rank may do nothing more, or leave.
Status signalOverNetwork(Peers &peers, int peer, const RemoteSignal &signal) {
  Transport &transport = peers.transport();
  if (Status status = orAbort(peers, transport.signal({peer, 0}, signal)); !status.isOk())
    return status;
  return orAbort(peers, transport.flush(0));
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
    Peers &peers = communicator->peers();
    if (!window.state->data) // the window is on another host
      return putOverNetwork(peers, peer, {window.state->remoteNumber, 0, offsetBytes}, {src, sizeBytes});
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
    uint64_t count = communicator->channels.nextSent(peer, id);
    Cell *cell = peers.channelCell(peer, peers.rank(), id);
    if (!cell)
      return signalOverNetwork(peers, peer, {channelsNumber, static_cast<uint32_t>(id), count});
    cell->raise(count);
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
