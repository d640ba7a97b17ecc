// The translations of a symmetry group, in terms of rows of ranks. Used by VectorClockRun and Contents.
#pragma once

#include "compiler/check/RankRows.h"
#include "compiler/model/RankGroup.h"

namespace kolo {

class GroupMoves {
public:
  GroupMoves(const RankGroup &group, llvm::ArrayRef<int64_t> mesh);
  GroupMoves(const GroupMoves &) = delete;

  /// Of an element of the group, or of its inverse. Valid until the next call.
  const RowMove &move(int64_t element, bool isBack);

  const RankRows rows;

private:
  const RankGroup &group;
  int64_t lastElement = -1;
  bool isLastBack = false;
  RowMove last;
};

} // namespace kolo
