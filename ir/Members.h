// The members of a group: which of them have an input and an output, and whose inputs an output combines. Used where
// programs are checked and projected.
#pragma once

#include "ir/Kolo.h"

namespace kolo {

/// Whether an output combines the inputs of the members before its own, and in a scan its own as well.
constexpr bool isPrefixReduction(CollectiveKind kind) {
  return kind == CollectiveKind::Scan || kind == CollectiveKind::Exscan;
}

/// Whether a call may ask for an average. Members of a prefix reduction combine different numbers of inputs.
constexpr bool mayAverage(CollectiveKind kind) { return isReduction(kind) && !isPrefixReduction(kind); }

/// Of how many members the output of a member combines inputs: the first ones of the group.
constexpr int64_t numCombined(CollectiveKind kind, int64_t member, int64_t groupSize) {
  return kind == CollectiveKind::Scan ? member + 1 : kind == CollectiveKind::Exscan ? member : groupSize;
}

/// Whether every member has a collective's input or output.
constexpr bool isEverywhere(CollectiveKind kind, BufferRole role) {
  return !isAtRoot(kind, role) && !(kind == CollectiveKind::Exscan && role == BufferRole::Output);
}
/// Whether one member has it: the root has some alone, and the first member of an exscan has no output.
constexpr bool isAtMember(CollectiveKind kind, BufferRole role, int64_t member, int64_t root) {
  return isEverywhere(kind, role) || (isAtRoot(kind, role) ? member == root : member > 0);
}

/// Whether members may change places: none is the root, and none combines more inputs than another one.
constexpr bool areMembersAlike(CollectiveKind kind) { return !hasRoot(kind) && !isPrefixReduction(kind); }

} // namespace kolo
