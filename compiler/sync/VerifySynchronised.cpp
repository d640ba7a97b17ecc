// VerifySynchronised: states what holds once synchronisation is inferred and lanes are placed. Changes nothing.
//   - synchronised_c1: no mark is left that one pass writes for a later one: needs_handshake, kolo.phase,
//     kolo.pipeline_phase.
//   - synchronised_c2: every move and every division takes a part of its chunks.
//   - synchronised_c3: no move of packets converts between codecs.
// All programs satisfy this, also those that an author wrote in channel form. The verifiers of the ops see to it that
// semaphores are the program's (signal_c1, wait_c1), each for data or for one kind of credit (program_c13). The fusing
// passes, the checker's counts and the targets rely on these constraints. CheckProgram decides whether the
// synchronisation is right.
#include "compiler/Passes.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_VERIFYSYNCHRONISED
#include "compiler/Passes.h.inc"

namespace {

bool hasMark(Operation *op) {
  MLIRContext *context = op->getContext();
  auto program = dyn_cast<ProgramOp>(op);
  return (program && program.getNeedsHandshake()) || KoloDialect::PhaseAttrHelper(context).isAttrPresent(op) ||
         KoloDialect::PipelinePhaseAttrHelper(context).isAttrPresent(op);
}

LogicalResult verifyOp(Operation *op) {
  if (hasMark(op))
    return op->emitOpError("synchronised_c1: has a mark that an earlier pass should have taken away");
  auto move = dyn_cast<MoveInterface>(op);
  auto divide = dyn_cast<DivideOp>(op);
  if ((move && !move.getPart()) || (divide && !divide.getPart()))
    return op->emitOpError("synchronised_c2: takes whole chunks, not a part for every lane");
  if (move && (arePackets(move.getSource()) || arePackets(move.getDestination())) && isConverting(move))
    return op->emitOpError("synchronised_c3: converts between codecs, and one of the buffers is packets");
  return success();
}

struct VerifySynchronised : impl::VerifySynchronisedBase<VerifySynchronised> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk(
        [](Operation *op) { return failed(verifyOp(op)) ? WalkResult::interrupt() : WalkResult::advance(); });
    if (result.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace kolo
