// GroupAgreement: how a rank agrees with the others of its communicator whether the groups of sends and receives that
// they end now are one all-to-all. For Transfers. GroupBoard and RemoteBoard are the ways.
#pragma once

#include "kolo/runtime/Status.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kolo::nccl {

/// What a rank's group does with a peer: a sum of these.
using PeerUse = uint8_t;
inline constexpr PeerUse sendsTo = 1, receivesFrom = 2;

/// A group of sends and receives, as its rank enters it.
struct EnteredGroup {
  std::vector<PeerUse> peers; // by rank
  int64_t longest = 0;        // of all blocks, in bytes
  uint64_t windows[2] = {};   // of what is sent, and of what is received: see Carrier::examine
  uint64_t lengths[2] = {};   // of both, sums of lengthDigestOf
};

/// Of a block, by its ranks and its bytes. All that is sent has the same sum as all that is received, unless some block
/// has two lengths.
uint64_t lengthDigestOf(int sender, int receiver, int64_t numBytes);

/// Between looks of a thread: spins, then yields, then sleeps. `numLooks`: 0 at first.
void pause(int &numLooks);

/// What became of a group that was entered.
struct GroupVerdict {
  bool isCarried = false;
  int64_t bound = 0;            // at least as long as the longest block of any rank; the same on all ranks
  bool hasOneLengthEach = true; // no block is of one length where it is sent, and of another where it is received
  bool isTimeout = false;       // this rank has waited in vain
  runtime::Status failure = {}; // not Ok: what became of the group is not known, so this rank must not go on
};

/// For one thread at a time, but for `leave` and `hasLeft`.
class GroupAgreement {
public:
  virtual ~GroupAgreement() = default;

  /// Counts sends and receives that are decided without an agreement. Never blocks. `peers`: as in EnteredGroup.
  virtual void count(std::span<const PeerUse> peers) = 0;
  virtual void count(int peer, PeerUse use) = 0;
  /// Enters a group, which names all other ranks. Never blocks. `look` follows until it knows the outcome. This rank
  /// gives up after `most`. After each time that it has waited in vain it waits for half as long, but for 1 ms at
  /// least. It waits in full again when the others have entered as many groups as this rank has since its last one, or
  /// when a group was carried.
  virtual void enter(EnteredGroup group, std::chrono::milliseconds most) = 0;
  /// The outcome, if it is known. It is the same on all ranks that take part in the group, but for a failure. Then the
  /// group's sends and receives are counted. Never blocks. A thread looks for all its ranks in turns, since they may be
  /// peers.
  virtual std::optional<GroupVerdict> look() = 0;
  /// The rank goes away: nobody waits for it, and it waits for nobody. Never blocks; for any thread.
  virtual void leave() = 0;
  virtual bool hasLeft() const = 0;
  /// Removes the name of memory, if there is one: a rank that has not opened it will not find it.
  virtual void hide() {}
};

} // namespace kolo::nccl
