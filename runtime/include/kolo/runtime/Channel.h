// Channel: one-sided communication by hand. A rank puts data into a peer's window, signals that peer, and waits for it.
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"
#include "kolo/runtime/Window.h"

#include <cstddef>

namespace kolo::runtime {

class CommunicatorState;

/// Channels per ordered pair of ranks; their ids are 0 to numChannels - 1.
inline constexpr int numChannels = 8;

/// One rank's end of a channel. Communicator::channel makes it; it must not outlive that communicator, and only the
/// communicator's thread uses it. Copies name the same channel and share its counts.
/// Every function returns InvalidArgument when the peer or the id does not exist, and Aborted once the communicator has
/// failed.
class KOLO_RUNTIME_API Channel {
public:
  /// Copies sizeBytes bytes from src to offsetBytes in the peer's window. Blocks for the copy alone: the caller may
  /// reuse src when it returns. The peer may read the bytes once it has waited for a signal that follows this put.
  /// InvalidArgument: the window belongs to another rank, or the range leaves it.
  Status put(const RemoteWindow &window, size_t offsetBytes, const void *src, size_t sizeBytes);

  /// Adds one to the peer's count of signals on this channel. Never blocks, except to another host: if the network is
  /// busy; and before windows were exchanged, or with more than 4,096 ranks, until the peer is in a call. After the
  /// matching wait the peer sees all that this rank wrote before.
  Status signal();

  /// Blocks until the peer has sent one signal for every wait of this rank. Timeout and PeerLost abort the
  /// communicator; the message names the rank, the peer, the channel and the time waited.
  Status wait();

  /// Returns once all earlier puts are on their way. Nothing is left to do: `put` returns no earlier.
  Status flush();

private:
  friend class Communicator;
  Channel(CommunicatorState *owner, int peerRank, int channelId) : communicator(owner), peer(peerRank), id(channelId) {}
  CommunicatorState *communicator;
  int peer;
  int id;
};

} // namespace kolo::runtime
