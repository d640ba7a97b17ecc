// Hub: short messages between rank 0 and ranks of other hosts, over connections of their own. For doors, whose ranks
// agree on something before they call it, while others compute.
#pragma once

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace kolo::runtime {

/// Takes a message of a rank. Must not throw. False: no rank says that; its connection ends.
using HubHandler = std::function<bool(int sender, std::span<const std::byte> message)>;

struct HubState;

/// One rank's end. Movable, not copyable. Its functions are for any thread. No thread runs here: messages move in
/// `progress` and `wait`, and the handler is called in them.
class KOLO_RUNTIME_API Hub {
public:
  /// Connects the ranks in `spokes` with rank 0, over TCP, as Communicator::create does with ranks of several hosts.
  /// All ranks pass the same spokes: in ascending order, without rank 0. Every rank calls `exchange` three times, with
  /// at most 512 bytes. Blocks until all have connected, or for 30 s, or CommunicatorOptions::timeoutMs if that is
  /// less. All ranks get the same answer. InvalidArgument, Mismatch, SystemError, PeerLost, Timeout: with the rank.
  static Result<Hub> create(int rank, int size, std::span<const int> spokes, const AllGather &exchange,
                            HubHandler handler, const CommunicatorOptions &options = {});

  Hub(Hub &&) noexcept;
  Hub &operator=(Hub &&) noexcept;
  /// Leaves: what was sent arrives.
  ~Hub();

  /// Sends a message of 1 byte to 16 KiB: rank 0 to a spoke, a spoke to rank 0. Never blocks. Messages of a rank arrive
  /// in their order. InvalidArgument; PeerLost, Mismatch: the connection has ended.
  Status send(int peer, std::span<const std::byte> message);
  /// Sends and receives what is possible now. Never blocks.
  void progress();
  /// The same when something arrives; returns after so many microseconds at the latest.
  void wait(int mostMicroseconds);
  /// Whether the peer has left in good order, and all that it sent has come.
  bool hasLeft(int peer) const;
  /// Whether the connection has ended otherwise.
  bool isLost(int peer) const;

private:
  explicit Hub(std::unique_ptr<HubState> state);
  std::unique_ptr<HubState> state;
};

} // namespace kolo::runtime
