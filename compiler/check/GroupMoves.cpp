// Where translations move rows of ranks, and the places in them.
#include "compiler/check/GroupMoves.h"

#include "llvm/Support/ErrorHandling.h"

namespace kolo {

GroupMoves::GroupMoves(const RankGroup &group, llvm::ArrayRef<int64_t> mesh)
    : rows({mesh.data(), mesh.size()}), group(group) {
  switch (rows.length == 1 ? Translation::None : group.kinds[rows.dim]) {
  case Translation::None:
    break;
  case Translation::Cyclic:
    last.kind = RowMove::Kind::Rotate;
    break;
  case Translation::Xor:
    last.kind = RowMove::Kind::Flip;
    break;
  case Translation::ToFront:
    llvm_unreachable("only other roots come to the front");
  }
  if (rows.numRows > 1)
    last.rows.resize(rows.numRows);
}

const RowMove &GroupMoves::move(int64_t element, bool isBack) {
  if (element == lastElement && isBack == isLastBack)
    return last;
  lastElement = element;
  isLastBack = isBack;
  auto moved = [&](int64_t rank) { return isBack ? group.moveBack(element, rank) : group.move(element, rank); };
  if (last.kind != RowMove::Kind::None)
    last.amount = rows.placeOf(moved(0));
  for (uint32_t row = 0; row < last.rows.size(); ++row)
    last.rows[row] = rows.rowOf(moved(rows.rankAt(row, 0)));
  return last;
}

} // namespace kolo
