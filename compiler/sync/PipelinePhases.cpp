// Phases are known by the marks of PlacePipeline, and slices by the conditions of phases.
#include "compiler/sync/PipelinePhases.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {

/// In the order of their numbers; empty if there is no pipeline.
static SmallVector<scf::IfOp> findPhases(ProgramOp program) {
  KoloDialect::PipelinePhaseAttrHelper mark(program.getContext());
  SmallVector<scf::IfOp> phases;
  program.walk([&](scf::IfOp op) {
    if (mark.isAttrPresent(op))
      phases.push_back(op);
  });
  llvm::sort(phases, [&](scf::IfOp a, scf::IfOp b) { return mark.getAttr(a).getInt() < mark.getAttr(b).getInt(); });
  return phases;
}

bool isPhase(Operation *op) { return KoloDialect::PipelinePhaseAttrHelper(op->getContext()).isAttrPresent(op); }

bool deferWait(const ProjectedTransfer &transfer) {
  if (transfer.isPull())
    return false;
  SmallVector<scf::IfOp> phases = findPhases(transfer.wait->getParentOfType<ProgramOp>());
  auto *phase = llvm::find_if(phases, [&](scf::IfOp op) { return op->isProperAncestor(transfer.wait); });
  if (phase == phases.end() || phase + 1 == phases.end())
    return false;
  moveWait(transfer.wait, *phase, &phase[1].thenBlock()->front());
  return true;
}

/// Whether a phase waits for peers before it moves anything, and not after that.
static bool waitsFirst(scf::IfOp phase) {
  bool hasMoved = false;
  for (Operation &nest : *phase.thenBlock()) {
    nest.walk([&](MoveInterface) { hasMoved = true; });
    WalkResult result = nest.walk([&](Operation *op) {
      auto move = dyn_cast<MoveInterface>(op);
      bool waits = isa<WaitOp, FlushOp>(op) ? hasMoved : move && !isa<PutOp>(op) && move.getSourceRank();
      return waits ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      return false;
  }
  return true;
}

bool putEarlierPhasesFirst(ProgramOp program) {
  SmallVector<scf::IfOp> phases = findPhases(program);
  if (phases.empty() || !llvm::all_of(phases, waitsFirst))
    return false;
  // The arithmetic of all phases stands before them all.
  Block *round = phases.front()->getBlock();
  for (scf::IfOp phase : phases)
    phase->moveBefore(round->getTerminator());
  return true;
}

static arith::ConstantIndexOp slicesOf(ProgramOp program) {
  SmallVector<scf::IfOp> phases = findPhases(program);
  if (phases.empty())
    return {};
  auto isOpen = phases.front().getCondition().getDefiningOp<arith::AndIOp>().getRhs().getDefiningOp<arith::CmpIOp>();
  return isOpen.getRhs().getDefiningOp<arith::ConstantIndexOp>();
}

std::optional<int64_t> numSlices(ProgramOp program) {
  arith::ConstantIndexOp slices = slicesOf(program);
  return slices ? std::optional(slices.value()) : std::nullopt;
}

int64_t fewSlices(ProgramOp program) { return int64_t(findPhases(program).size()) + 2; }

void setNumSlices(ProgramOp program, int64_t number) {
  arith::ConstantIndexOp slices = slicesOf(program);
  slices.setValueAttr(IntegerAttr::get(slices.getType(), number));
}

} // namespace kolo
