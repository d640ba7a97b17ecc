// InferHandshake: makes every transfer wait for both sides.
//   Before:  put to %r; signal 0 to %r; ...; wait 0 from %s
//   After:   signal 1 to %s; ...; wait 1 from %r; put to %r; signal 0 to %r; ...; wait 0 from %s
//   Before:  signal 0 to %r; ...; wait 0 from %s; reduce from %s
//   After:   signal 0 to %r; ...; wait 0 from %s; reduce from %s; signal 1 to %s; ...; wait 1 from %r
// A put thus starts after everything before the statement is complete at the receiver, and a statement ends after every
// peer has read what it reads here: between statements nobody touches this rank's memory. Signals of a statement
// precede its waits on every rank, so that statement after statement completes. Plain, and sound for any program that
// Project makes; it needs one more semaphore per transfer. Requires channel form as Project leaves it, and leaves other
// programs alone: their authors wrote all of their synchronisation.
#include "compiler/Passes.h"
#include "compiler/sync/PlaceCredit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_INFERHANDSHAKE
#include "compiler/Passes.h.inc"

namespace {

struct InferHandshake : impl::InferHandshakeBase<InferHandshake> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    if (!program->removeAttr(needsHandshakeName))
      return;
    uint64_t semaphores = program.getSemaphores();
    for (const ProjectedTransfer &transfer : findTransfers(program))
      placeCredit(transfer, {Credit::Statement, 0}, semaphores++);
    program.setSemaphores(semaphores);
    program.walk([](Operation *op) { op->removeAttr(pipelinePhaseName); });
  }
};

} // namespace
} // namespace kolo
