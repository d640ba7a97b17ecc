// PlacePipeline: cuts every chunk into slices that go through the phases of a program one behind the other.
//   Before:  phase 0 ; phase 1
//   After:   for t in 0 .. slices + 1: if (0 <= t - 2 < slices) {} ;
//              if (0 <= t - 1 < slices) phase 1 of slice t - 1 ; if (t < slices) phase 0 of slice t
// A phase is the code of one statement or loop at the top level of the choreography. One slice is in a phase while the
// next slice is in the phase before, so that the links of both are busy. A slice is cut again into the lanes' parts:
// part slice * lanes + lane of slices * lanes. Every phase keeps its number, by which InferSynchronisation moves the
// waits at its end to the next phase. Puts of the last phase have arrived one round later, so they get an empty phase
// for their waits: without it, a rank would wait for a slice to arrive before it sends the next one. Later phases come
// first in a round until InferSynchronisation knows where ranks wait. Requires channel form as VerifyProjected states
// it. Runs before synchronisation is inferred, which finds what slices need of each other.
#include "compiler/Passes.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PLACEPIPELINE
#include "compiler/Passes.h.inc"

namespace {

using Phase = SmallVector<Operation *>;

/// The top-level ops of every phase, in order.
SmallVector<Phase> collectPhases(ProgramOp program) {
  SmallVector<Phase> phases;
  KoloDialect::PhaseAttrHelper mark(program.getContext());
  int64_t current = -1;
  for (Operation &op : program.getBody().front()) {
    IntegerAttr number = mark.getAttr(&op);
    if (!number)
      continue;
    mark.removeAttr(&op);
    if (number.getInt() != current)
      phases.emplace_back();
    current = number.getInt();
    phases.back().push_back(&op);
  }
  return phases;
}

bool hasPut(const Phase &phase) {
  return llvm::any_of(
      phase, [](Operation *op) { return op->walk([](PutOp) { return WalkResult::interrupt(); }).wasInterrupted(); });
}

struct PlacePipeline : impl::PlacePipelineBase<PlacePipeline> {
  using PlacePipelineBase::PlacePipelineBase;

  void runOnOperation() override {
    SmallVector<Phase> phases = collectPhases(getOperation());
    if (depth <= 1 || phases.size() <= 1)
      return;
    if (hasPut(phases.back()))
      phases.emplace_back();
    KoloDialect::PipelinePhaseAttrHelper mark(&getContext());
    Location loc = getOperation().getLoc();
    OpBuilder builder = OpBuilder::atBlockEnd(&getOperation().getBody().front());
    Value lane = LaneOp::create(builder, loc), lanes = NumLanesOp::create(builder, loc);
    Value zero = createConstant(builder, loc, 0), one = createConstant(builder, loc, 1);
    Value numSlices = createConstant(builder, loc, depth);
    Value parts = arith::MulIOp::create(builder, loc, numSlices, lanes);
    Value numRounds = createAdd(builder, loc, numSlices, createConstant(builder, loc, int64_t(phases.size()) - 1));
    auto loop = scf::ForOp::create(builder, loc, zero, numRounds, one);
    builder.setInsertionPointToStart(loop.getBody());
    for (size_t number = phases.size(); number-- > 0;) {
      OpBuilder::InsertionGuard guard(builder);
      Value slice = createSub(builder, loc, loop.getInductionVar(), createConstant(builder, loc, int64_t(number)));
      Value isBegun = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, slice, zero);
      Value isOpen = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, slice, numSlices);
      auto branch = scf::IfOp::create(builder, loc, arith::AndIOp::create(builder, loc, isBegun, isOpen));
      mark.setAttr(branch, builder.getI64IntegerAttr(int64_t(number)));
      builder.setInsertionPointToStart(branch.thenBlock());
      Value part = arith::AddIOp::create(builder, loc, arith::MulIOp::create(builder, loc, slice, lanes), lane);
      for (Operation *op : phases[number])
        moveIn(op, branch.thenBlock()->getTerminator(), part, parts);
    }
  }

  static void moveIn(Operation *op, Operation *end, Value part, Value parts) {
    op->moveBefore(end);
    op->walk([&](Operation *inner) {
      if (auto move = dyn_cast<MoveInterface>(inner)) {
        move.getPartMutable().assign(part);
        move.getPartsMutable().assign(parts);
      } else if (auto divide = dyn_cast<DivideOp>(inner)) {
        divide.getPartMutable().assign(part);
        divide.getPartsMutable().assign(parts);
      }
    });
  }
};

} // namespace
} // namespace kolo
