// SplitBarrier: barriers that a rank begins, and completes later. They need nothing of a rank that has begun one.
#pragma once

#include "peers/Peers.h"

#include <atomic>
#include <cstdint>

namespace kolo::runtime {

/// Each rank has a Counter of the barriers that it began, which all ranks read. Barrier n is over when every counter
/// has reached n. So any number of them may be outstanding, and they have nothing to do with exchanges. Only where all
/// ranks are on this host.
class SplitBarrier {
public:
  explicit SplitBarrier(Peers &owner) : peers(owner) {}

  /// Begins this rank's next barrier and returns its number. One thread at a time. Never blocks. UnsupportedMesh: ranks
  /// are on several hosts. Aborted, InvalidArgument: see Peers::whyNoCall.
  Result<uint64_t> begin();

  /// Whether every rank has begun this barrier. Any thread. Never blocks. InvalidArgument: this rank has not
  /// begun it. PeerLost, Aborted.
  Result<bool> isOver(uint64_t number);

  /// Blocks until every rank has begun this barrier. Any thread. InvalidArgument, as above. Timeout,
  /// PeerLost, Aborted.
  Status finish(uint64_t number);

private:
  /// So many looks in vain until one of them also asks whether the peer lives, which is a system call.
  static constexpr uint32_t looksPerCheck = 256;

  Counter &begunBy(int peer) const { return peers.block(peer).begunBarriers; }
  Status checkNumber(uint64_t number) const;
  Status await(int peer, uint64_t number);
  Status loseTo(int peer, const char *why);

  Peers &peers;
  uint64_t last = 0;
  std::atomic<int> missing = 0;        // a rank that had not begun the barrier when somebody looked
  std::atomic<uint32_t> numInVain = 0; // looks, in all
};

} // namespace kolo::runtime
