// InferHandshake: makes every transfer wait for both sides.
//   Before:  put to %r; signal 0 to %r; ...; wait 0 from %s
//   After:   signal 1 to %s; ...; wait 1 from %r; put to %r; signal 0 to %r; ...; wait 0 from %s
//   Before:  signal 0 to %r; ...; wait 0 from %s; reduce from %s
//   After:   signal 0 to %r; ...; wait 0 from %s; reduce from %s; signal 1 to %s; ...; wait 1 from %r
// A put starts after the receiver has completed everything before the statement. A statement ends after every peer has
// read what it reads here. So no other rank touches this rank's memory between statements. On every rank the signals of
// a statement precede its waits, so no rank waits for ever. This is sound for every program that Project makes, and
// costs one more semaphore per transfer. Requires channel form as VerifyProjected states it. Leaves programs alone that
// their author wrote in channel form.
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
    if (!program.getNeedsHandshake())
      return;
    program.setNeedsHandshake(false);
    uint64_t semaphores = program.getSemaphores();
    for (const ProjectedTransfer &transfer : findTransfers(program))
      placeCredit(transfer, {CreditKind::Statement, 0}, semaphores++);
    program.setSemaphores(semaphores);
    removePipelinePhases(program);
  }
};

} // namespace
} // namespace kolo
