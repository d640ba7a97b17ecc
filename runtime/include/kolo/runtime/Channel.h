// Channel: one-sided communication by hand. put, signal and flush towards a peer; wait for what that peer signals.
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"
#include "kolo/runtime/Window.h"

#include <cstddef>

namespace kolo::runtime {

class CommunicatorState;

/// Channels per ordered pair of ranks; their ids are 0 to numChannels - 1.
inline constexpr int numChannels = 8;

/// Made by Communicator::channel, which it must not outlive. Used by the communicator's thread. Copies name the same
/// channel and share its counts. Every function returns InvalidArgument when the peer or the id does not exist, and
/// Aborted once the communicator has failed.
class KOLO_RUNTIME_API Channel {
public:
  /// Copies sizeBytes bytes from src to offsetBytes in the peer's window. Blocks for the copy alone; src may be reused
  /// when it returns. The peer may read the bytes after it waited for a signal sent after this put.
  /// InvalidArgument: the window is another rank's, or the range leaves it.
  Status put(const RemoteWindow &window, size_t offsetBytes, const void *src, size_t sizeBytes);

  /// Adds one to the peer's count of signals on this channel. Never blocks. Everything this rank wrote before is
  /// visible to the peer after the matching wait.
  Status signal();

  /// Blocks until the peer has signalled once more than this rank has waited. Timeout or PeerLost name the rank, the
  /// peer, the channel and the time waited; either aborts the communicator.
  Status wait();

  /// Returns once all earlier puts are complete at the peer. (With shared memory they always are.)
  Status flush();

private:
  friend class Communicator;
  Channel(CommunicatorState *owner, int peerRank, int channelId) : communicator(owner), peer(peerRank), id(channelId) {}
  CommunicatorState *communicator;
  int peer;
  int id;
};

} // namespace kolo::runtime
