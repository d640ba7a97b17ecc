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

#include "GroupAgreement.h"
#include "SharedMemory.h"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kolo::nccl {

/// What all blocks are bounded by if the longest of them has so many bytes. Few bounds make few shapes of calls.
int64_t boundOf(int64_t longest);

struct GroupBoardMemory;

class GroupBoard final : public GroupAgreement {
public:
  static constexpr int mostRanks = 256;

  /// Opens or makes the memory. At most mostRanks; all of them are on `host`, or somebody there acts for them. Errors
  /// as for SharedMemory::open.
  static runtime::Result<std::unique_ptr<GroupBoard>> open(const Key &key, uint64_t host, int rank, int size);

  void count(std::span<const PeerUse> peers) override;
  void count(int peer, PeerUse use) override;
  void enter(EnteredGroup group, std::chrono::milliseconds most) override;
  std::optional<GroupVerdict> look() override;
  void leave() override;
  bool hasLeft() const override;
  void hide() override { memory.hide(); }

private:
  using Clock = std::chrono::steady_clock;
  GroupBoard(SharedMemory opened, int ownRank, int numRanks);
  struct Entries {
    bool areAllIn = false, fit = false, areInSameWindows = false, haveOneLengthEach = false;
    uint32_t shift = 0; // 1 << shift bounds the blocks
  };
  bool isOver() const;
  void noteOthers();
  void enterRound();
  Entries read() const;
  void decide(uint64_t seen);
  void end(uint64_t seen, const Entries *carried);

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
