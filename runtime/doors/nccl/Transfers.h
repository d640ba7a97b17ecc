// Transfers: the sends and receives of a group. Those of one rank may be its part of an all-to-all whose blocks have
// lengths of their own.
#pragma once

#include "Group.h"
#include "GroupAgreement.h"

#include <array>
#include <span>
#include <vector>

namespace kolo::nccl {

/// Of an element, by NCCL's number of its type; 0: there is no such type.
size_t bytesOfType(int type);
/// Of a block; a larger number is left to the real library.
inline constexpr size_t mostElements = size_t(1) << 56;

/// Those of one rank in one group. Its blocks live as long as it, at one address.
class TransferGroup {
public:
  /// `called`: at least one, all of one rank. `hasNoCollective`: the group has none of that rank.
  TransferGroup(std::vector<Transfer> called, bool hasNoCollective);
  TransferGroup(const TransferGroup &) = delete;
  TransferGroup &operator=(const TransferGroup &) = delete;

  /// Tells the other ranks of this group. Never blocks for peers.
  void begin();
  /// Looks whether the ranks have agreed, after `begin`, and returns whether that is known. Never blocks. It is known
  /// after KOLO_NCCL_GROUP_MS at the latest.
  bool look();
  /// The call that carries the group, once the ranks have agreed on that; null: they have not.
  const QueuedCall *call() const { return isCarried ? &carried : nullptr; }
  /// Gives the group to the real library, or fails because this rank has left meanwhile.
  Code forward() const;

private:
  bool consider();
  bool examine();
  void addBlocks();
  bool lieApart() const;
  void refuse(const char *why);
  Code failureOf(const GroupVerdict &verdict) const;
  const Member &member() const { return *transfers.front().member; }
  GroupAgreement &board() const { return *transfers.front().member->groups.board(member()); }

  const std::vector<Transfer> transfers;
  const bool isAlone;
  bool isPending = false, isCarried = false;
  Code failure = Code::Success; // of this rank, which neither carries nor forwards the group
  EnteredGroup entered;
  std::vector<int64_t> counts[2], places[2]; // in bytes, of what is sent and of what is received, by peer
  std::array<size_t, 2> sizeBytes = {};      // from the first block to the end of the last one
  runtime::BlockTables tables;
  QueuedCall carried;
};

} // namespace kolo::nccl
