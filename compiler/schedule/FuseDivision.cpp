// FuseDivision: divides an average in the pass over memory that makes its sum, before the sum goes to other ranks.
//   Before:  fuse %out[%me] { copy; for %p { reduce }; for %p { put } }; ...; divide %out[0] size [%n]
//   After:   fuse %out[%me] { copy; for %p { reduce }; divide %out[%me]; for %p { put } }; ...
// Only all ranks together show which sum is the last one. The pass tries, and keeps a program that the checker proves:
// the checker knows which chunks were divided. Requires channel form with its moves fused.
#include "compiler/Passes.h"
#include "compiler/check/Verdict.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_FUSEDIVISION
#include "compiler/Passes.h.inc"

namespace {

/// The division that is in no fuse; null if there is none, or more than one.
DivideOp divisionOf(ProgramOp program) {
  SmallVector<DivideOp> found;
  program.walk([&](DivideOp divide) {
    if (!divide->getParentOfType<FuseOp>())
      found.push_back(divide);
  });
  return found.size() == 1 ? found.front() : DivideOp();
}

/// Those that combine, in the order of the text.
SmallVector<FuseOp> sumsOf(ProgramOp program) {
  SmallVector<FuseOp> sums;
  program.walk([&](FuseOp fuse) {
    if (fuse.isReducing())
      sums.push_back(fuse);
  });
  return sums;
}

void divideIn(FuseOp fuse) {
  Block &body = fuse.getBody().front();
  Operation *last = nullptr; // into the slice, or the loop around it
  for (MoveInterface move : fuse.getMoves())
    if (fuse.isInto(move))
      last = body.findAncestorOpInBlock(*move);
  OpBuilder builder(fuse.getContext());
  builder.setInsertionPointAfter(last);
  DivideOp::create(builder, fuse.getLoc(), fuse.getBuffer(), fuse.getOffsets(), fuse.getSizes(), fuse.getPart(),
                   fuse.getParts());
}

struct FuseDivision : impl::FuseDivisionBase<FuseDivision> {
  using FuseDivisionBase::FuseDivisionBase;

  void runOnOperation() override {
    numBytes = guessBudget;
    if (findCoded(getOperation())) // an average is divided after the last rounding
      return;
    size_t numSums = sumsOf(getOperation()).size();
    if (!divisionOf(getOperation()) || numSums == 0)
      return;
    // Of several sums the last, most likely; or all, which variants of a stripe are.
    for (size_t number = numSums; number-- > 0;)
      if (tryIn([&](size_t sum) { return sum == number; }))
        return;
    if (numSums > 1)
      (void)tryIn([](size_t) { return true; });
  }

private:
  ProofLimits limits() const { return {budget, represented, standInBudget}; }

  int64_t numBytes = 0; // that guesses about this program took so far

  bool tryIn(function_ref<bool(size_t sum)> isChosen) {
    OwningOpRef<ProgramOp> changed(getOperation().clone());
    for (auto [number, fuse] : llvm::enumerate(sumsOf(*changed)))
      if (isChosen(number))
        divideIn(fuse);
    divisionOf(*changed).erase();
    // First on small meshes, which refute most sums. They may not show that a sum is not the last one.
    if (!isProvedOnSmallMeshes(*changed, numBytes, budget))
      return false;
    ProofLimits guess{numBytes, true, numBytes};
    if (!isProvedOnItsMeshes(*changed, optionsInFull(*changed, inFull ? limits() : guess)))
      return false;
    getOperation().getBody().takeBody(changed->getBody());
    return true;
  }
};

} // namespace
} // namespace kolo
