// VerifySynchronised: states what holds once synchronisation is inferred and lanes are placed. Changes nothing.
//   - synchronised_c1: no mark is left that one pass writes for a later one: kolo.needs_handshake, kolo.phase,
//     kolo.pipeline_phase.
//   - synchronised_c2: every move and every division takes a part of its chunks.
//   - synchronised_c3: only signals and waits belong to credits, each to a kind that PlaceCredit.h knows.
//   - synchronised_c4: all signals and waits of one semaphore are of one kind: all for data, or all for one kind of
//     credit.
// All programs satisfy this, also those that an author wrote in channel form. The verifiers of the ops see to it that
// semaphores are the program's (signal_c1, wait_c1). The fusing passes, the checker's counts and the targets rely on
// these constraints. CheckProgram decides whether the synchronisation is right.
#include "compiler/Passes.h"
#include "compiler/sync/PlaceCredit.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_VERIFYSYNCHRONISED
#include "compiler/Passes.h.inc"

namespace {

bool hasMark(Operation *op) {
  return op->hasAttr(needsHandshakeName) || op->hasAttr(phaseName) || op->hasAttr(pipelinePhaseName);
}

/// Nothing for an op that belongs to no credit, or to one of a kind that is not known.
std::optional<Credit> creditOf(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>(creditName);
  for (Credit kind : {Credit::Lag, Credit::Exit, Credit::Entry, Credit::Statement})
    if (name && name.getValue() == nameOf(kind))
      return kind;
  return std::nullopt;
}
bool belongsToCredit(Operation *op) { return op->hasAttr(creditName); }

StringRef purposeOf(Credit kind) { return kind == Credit::None ? "data" : nameOf(kind); }

class SynchronisedProgram {
public:
  explicit SynchronisedProgram(ProgramOp program) : program(program) {}

  LogicalResult verify() {
    WalkResult result = program.walk(
        [&](Operation *op) { return failed(verifyOp(op)) ? WalkResult::interrupt() : WalkResult::advance(); });
    return failure(result.wasInterrupted());
  }

private:
  LogicalResult verifyOp(Operation *op) {
    if (hasMark(op))
      return op->emitOpError("synchronised_c1: has a mark that an earlier pass should have taken away");
    auto move = dyn_cast<MoveInterface>(op);
    auto divide = dyn_cast<DivideOp>(op);
    if ((move && !move.getPart()) || (divide && !divide.getPart()))
      return op->emitOpError("synchronised_c2: takes whole chunks, not a part for every lane");
    if (belongsToCredit(op) && !(isa<SignalOp, WaitOp>(op) && creditOf(op)))
      return op->emitOpError("synchronised_c3: belongs to no credit that there is");
    if (auto signal = dyn_cast<SignalOp>(op))
      return verifyKind(op, signal.getSemaphore());
    if (auto wait = dyn_cast<WaitOp>(op))
      return verifyKind(op, wait.getSemaphore());
    return success();
  }

  LogicalResult verifyKind(Operation *op, uint64_t semaphore) {
    Credit kind = creditOf(op).value_or(Credit::None);
    Credit first = kinds.try_emplace(semaphore, kind).first->second;
    if (first != kind)
      return op->emitOpError("synchronised_c4: is for ")
             << purposeOf(kind) << ", but semaphore " << semaphore << " is for " << purposeOf(first);
    return success();
  }

  ProgramOp program;
  llvm::DenseMap<uint64_t, Credit> kinds; // by semaphore, as far as it was met; Credit::None: for data
};

struct VerifySynchronised : impl::VerifySynchronisedBase<VerifySynchronised> {
  void runOnOperation() override {
    if (failed(SynchronisedProgram(getOperation()).verify()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace kolo
