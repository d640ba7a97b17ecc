// VerifyProjected: states what holds after Project. Changes nothing.
//   - projected_c1: no choreography is left in the module.
//   - projected_c2: every semaphore belongs to one transfer, which has one signal op and one wait op.
//   - projected_c3: a transfer is a put directly before its signal, or a read directly after its wait, never both.
//   - projected_c4: the signal of a transfer comes before its wait; a flush stands between those of a put.
//   - projected_c5: every op of the top level except arithmetic, buffers and `enter` has the number of its phase; the
//     numbers never decrease.
//   - projected_c6: whole chunks move, one move at a time: no op has a part, and no moves are fused.
// Constraints 2 to 6 hold for programs that Project made. An author who writes channel form writes all of its
// synchronisation, and later passes leave it alone. PlacePipeline relies on c5 and c6; the passes that infer
// synchronisation rely on c2 to c4, and on there being no credits (program_c12).
#include "compiler/Passes.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_VERIFYPROJECTED
#include "compiler/Passes.h.inc"

namespace {

std::optional<int64_t> phaseOf(Operation *op) {
  IntegerAttr number = KoloDialect::PhaseAttrHelper(op->getContext()).getAttr(op);
  return number ? std::optional(number.getInt()) : std::nullopt;
}

class ProjectedProgram {
public:
  explicit ProjectedProgram(ProgramOp program) : program(program), transfers(program.getSemaphores()) {}
  LogicalResult verify();

private:
  struct Transfer {
    SmallVector<SignalOp, 1> signals;
    SmallVector<WaitOp, 1> waits;
  };

  LogicalResult verifyOp(Operation *op);
  LogicalResult verifyMove(MoveInterface move);
  LogicalResult verifyTransfer(uint64_t semaphore);
  LogicalResult verifyPhases();

  ProgramOp program;
  SmallVector<Transfer> transfers; // by semaphore
};

LogicalResult ProjectedProgram::verify() {
  WalkResult result = program.walk(
      [&](Operation *op) { return failed(verifyOp(op)) ? WalkResult::interrupt() : WalkResult::advance(); });
  if (result.wasInterrupted())
    return failure();
  for (uint64_t semaphore = 0; semaphore < transfers.size(); ++semaphore)
    if (failed(verifyTransfer(semaphore)))
      return failure();
  return verifyPhases();
}

LogicalResult ProjectedProgram::verifyOp(Operation *op) {
  if (auto signal = dyn_cast<SignalOp>(op))
    transfers[signal.getSemaphore()].signals.push_back(signal);
  if (auto wait = dyn_cast<WaitOp>(op))
    transfers[wait.getSemaphore()].waits.push_back(wait);
  auto divide = dyn_cast<DivideOp>(op);
  if (isa<FuseOp>(op) || (divide && divide.getPart()))
    return op->emitOpError("projected_c6: whole chunks move and are divided, one move at a time");
  if (auto move = dyn_cast<MoveInterface>(op))
    return verifyMove(move);
  return success();
}

LogicalResult ProjectedProgram::verifyMove(MoveInterface move) {
  if (move.getPart())
    return move->emitOpError("projected_c6: whole chunks move and are divided, one move at a time");
  auto signal = dyn_cast_if_present<SignalOp>(move->getNextNode());
  auto wait = dyn_cast_if_present<WaitOp>(move->getPrevNode());
  if (move.getDestinationRank() && !(signal && signal.getRank() == move.getDestinationRank()))
    return move->emitOpError("projected_c3: the signal to the receiver must follow at once");
  if (move.getSourceRank() && !(wait && wait.getRank() == move.getSourceRank()))
    return move->emitOpError("projected_c3: the wait for the sender must come right before");
  return success();
}

/// The ops that hold `a` and `b` in the innermost block around both.
std::pair<Operation *, Operation *> besideEachOther(Operation *a, Operation *b) {
  while (!a->getBlock()->findAncestorOpInBlock(*b))
    a = a->getParentOp();
  return {a, a->getBlock()->findAncestorOpInBlock(*b)};
}

LogicalResult ProjectedProgram::verifyTransfer(uint64_t semaphore) {
  Transfer &transfer = transfers[semaphore];
  if (transfer.signals.size() != 1 || transfer.waits.size() != 1)
    return program.emitOpError("projected_c2: semaphore ")
           << semaphore << " has " << transfer.signals.size() << " signals and " << transfer.waits.size() << " waits";
  SignalOp signal = transfer.signals.front();
  WaitOp wait = transfer.waits.front();
  auto read = dyn_cast_if_present<MoveInterface>(wait->getNextNode());
  bool isPush = isa_and_present<PutOp>(signal->getPrevNode()), isPull = read && read.getSourceRank();
  if (isPush == isPull)
    return signal.emitOpError("projected_c3: a transfer is either put or read by its receiver");
  auto [first, last] = besideEachOther(signal, wait);
  if (!first->isBeforeInBlock(last))
    return wait.emitOpError("projected_c4: the signal of the transfer must come before its wait");
  bool isFlushed = false;
  for (Operation *op = first; op != last; op = op->getNextNode())
    isFlushed |= isa<FlushOp>(op);
  if (isPush && !isFlushed)
    return wait.emitOpError("projected_c4: a flush must come between a put and the wait of its transfer");
  return success();
}

LogicalResult ProjectedProgram::verifyPhases() {
  int64_t last = 0;
  for (Operation &op : program.getBody().front()) {
    if (isPure(&op) || isa<BufferOp, EnterOp>(op))
      continue;
    std::optional<int64_t> phase = phaseOf(&op);
    if (!phase || *phase < last)
      return op.emitOpError("projected_c5: the number of its phase is missing, or below the one before");
    last = *phase;
  }
  return success();
}

struct VerifyProjected : impl::VerifyProjectedBase<VerifyProjected> {
  void runOnOperation() override {
    if (auto left = getOperation().getOps<ChoreographyOp>(); !left.empty()) {
      (*left.begin()).emitOpError("projected_c1: was not projected");
      return signalPassFailure();
    }
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getNeedsHandshake() && failed(ProjectedProgram(program).verify()))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace kolo
