// GroupBoard: where the ranks of a communicator on this host agree whether the groups of sends and receives that they
// end now are one all-to-all. For Transfers.
//
// NCCL matches sends and receives by their order between two ranks. So each rank counts, for each peer, its sends to
// that peer and its receives from there that are decided: carried, or forwarded. A group of sends and receives with all
// other ranks is entered with these counts. The groups of all ranks are one all-to-all if each block that a rank sends
// is at the same place of that order where its peer receives it.
//
// Groups are entered in a round, of which there is one at a time. All ranks read its outcome in one word, which changes
// once for each round. It becomes "carried" by a rank that sees that all have entered groups which fit. It becomes
// "forwarded" by a rank that gives up, and forwards its group. A rank gives up when a peer has decided a transfer of
// this group without it, when one has left, or when it has waited for long enough. Others enter the next round with the
// same group: if it is the one that was forwarded, they see so. All ranks have entered a round that was carried. So no
// later one is carried before all of them have read that.
#pragma once

#include "SharedMemory.h"

#include <chrono>
#include <memory>
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
};

/// What all blocks are bounded by if the longest of them has so many bytes. Few bounds make few shapes of calls.
int64_t boundOf(int64_t longest);

/// Between looks of a thread: spins, then yields, then sleeps. `numLooks`: 0 at first.
void pause(int &numLooks);

/// What became of a group that was entered.
struct GroupVerdict {
  bool isCarried = false;
  int64_t bound = 0;      // at least as long as the longest block of any rank; the same on all ranks
  bool isTimeout = false; // this rank has waited in vain
};

struct GroupBoardMemory;

/// For one thread at a time, but for `leave`.
class GroupBoard {
public:
  static constexpr int mostRanks = 256;

  /// Opens or makes the memory. All ranks are on `host`, and at most mostRanks. Errors as for SharedMemory::open.
  static runtime::Result<std::unique_ptr<GroupBoard>> open(const Key &key, uint64_t host, int rank, int size);

  /// Counts sends and receives that are decided without an agreement. Never blocks. `peers`: as in EnteredGroup.
  void count(std::span<const PeerUse> peers);
  void count(int peer, PeerUse use);
  /// Enters a group, which names all other ranks. Never blocks. `look` follows until it knows the outcome. This rank
  /// gives up after `most`. After each time that it has waited in vain it waits for half as long, but for 1 ms at
  /// least. It waits in full again when the others have entered as many groups as this rank has since its last one, or
  /// when a group was carried.
  void enter(EnteredGroup group, std::chrono::milliseconds most);
  /// The outcome, if it is known. It is the same on all ranks that take part in the group. Then the group's sends and
  /// receives are counted. Never blocks. A thread looks for all its ranks in turns, since they may be peers.
  std::optional<GroupVerdict> look();
  /// The rank goes away: nobody waits for it, and it waits for nobody. Never blocks; for any thread.
  void leave();
  bool hasLeft() const;
  /// Removes the memory's name: a rank that has not opened it will not find it.
  void hide() { memory.hide(); }

private:
  using Clock = std::chrono::steady_clock;
  GroupBoard(SharedMemory opened, int ownRank, int numRanks);
  struct Entries {
    bool areAllIn = false, fit = false, areInSameWindows = false;
    uint32_t shift = 0; // 1 << shift bounds the blocks
  };
  bool isOver() const;
  void noteOthers();
  void enterRound();
  Entries read() const;
  void decide(uint64_t seen);
  void end(uint64_t seen, std::optional<uint32_t> carriedShift);

  SharedMemory memory;
  GroupBoardMemory &content;
  const int rank, size;
  EnteredGroup entered;
  uint32_t enteredRound = 0;
  Clock::time_point until;    // when this rank gives up
  bool givesUp = false;       // and forwards the group, unless it was carried
  int numVain = 0;            // waits in vain that count
  uint64_t othersEntered = 0; // groups of all others, when this rank entered its last one
};

} // namespace kolo::nccl
