// Channel: put, signal, wait and flush by hand.
#include "kolo/runtime/Channel.h"

#include "CommunicatorState.h"
#include "Error.h"

#include <cstring>

namespace kolo::runtime {
namespace {

Status checkChannel(CommunicatorState &communicator, int peer, int id) {
  World &world = communicator.world();
  if (peer < 0 || peer >= world.size())
    return error(StatusCode::InvalidArgument, "channel to rank {}: there are {} ranks", peer, world.size());
  if (id < 0 || id >= numChannels)
    return error(StatusCode::InvalidArgument, "channel {} to rank {}: ids are 0 to {}", id, peer, numChannels - 1);
  return world.isAborted() ? world.abortedEarlier() : Status();
}

Status waitForSignal(CommunicatorState &communicator, int peer, int id) {
  World &world = communicator.world();
  uint64_t target = ++communicator.channelAwaited[CommunicatorState::channelIndex(peer, id)];
  Cell &cell = world.control().channelCell(world.rank(), peer, id);
  if (cell.hasReached(target) || spinUntil(cell, target, world.policy()))
    return {};
  Clock::time_point start = Clock::now();
  WaitEnd end = waitSlowly(cell, target, world.policy(), [&] { return world.checkWait(peer, start); });
  if (end == WaitEnd::Reached)
    return {};
  if (end == WaitEnd::Aborted)
    return world.abortCause();
  bool isLost = end == WaitEnd::PeerLost;
  return world.abort(rankError(isLost ? StatusCode::PeerLost : StatusCode::Timeout, peer,
                               "rank {} waited {} ms for a signal of rank {} on channel {}: {}", world.rank(),
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
    World &world = communicator->world();
    uint64_t count = ++communicator->channelSent[CommunicatorState::channelIndex(peer, id)];
    world.control().channelCell(peer, world.rank(), id).raise(count);
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
