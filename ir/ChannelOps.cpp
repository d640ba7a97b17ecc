// Verifiers of the channel phase.
#include "ir/VerifyProgram.h"

using namespace mlir;

namespace kolo {

LogicalResult ProgramOp::verify() {
  return verifyProgramShape(*this, {getCollective(), getMesh(), getMeshes()}, "program");
}

LogicalResult ProgramOp::verifyRegions() {
  WalkResult result = walk([](Operation *op) {
    if (!isa<StatementInterface>(op))
      return WalkResult::advance();
    op->emitOpError("program_c4: belongs to the choreography phase");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult CoordOp::verify() {
  ArrayAttr mesh = enclosingProgram(*this).mesh;
  if (!mesh || getDim() >= mesh.size() || int64_t(getDim()) < 0)
    return emitOpError("coord_c1: the mesh has no dimension ") << int64_t(getDim());
  return success();
}

static LogicalResult verifySemaphore(Operation *op, int64_t semaphore, StringRef label) {
  auto program = op->getParentOfType<ProgramOp>();
  if (!program || semaphore < 0 || semaphore >= int64_t(program.getSemaphores()))
    return op->emitOpError() << label << ": the program has no semaphore " << semaphore;
  return success();
}

LogicalResult SignalOp::verify() { return verifySemaphore(*this, getSemaphore(), "signal_c1"); }
LogicalResult WaitOp::verify() { return verifySemaphore(*this, getSemaphore(), "wait_c1"); }

/// Checks four constraints of an op that moves chunks; the first of them is `label`_c`first`.
static LogicalResult verifyMove(MoveInterface move, StringRef label, int first) {
  if (!fitsGrid(move.getSource(), move.getSourceOffsets(), move.getSourceSizes()) ||
      !fitsGrid(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes()))
    return move->emitOpError() << label << "_c" << first << ": a slice does not have its buffer's grid rank";
  if (countRanged(move.getSourceSizes()) != countRanged(move.getDestinationSizes()))
    return move->emitOpError() << label << "_c" << first + 1 << ": the source slice has "
                               << countRanged(move.getSourceSizes()) << " ranged dimensions, the destination slice "
                               << countRanged(move.getDestinationSizes());
  if (bool(move.getPart()) != bool(move.getParts()))
    return move->emitOpError() << label << "_c" << first + 2 << ": `part` and `of` come together";
  if (hasSlots(move.getSource()) && hasSlots(move.getDestination()))
    return move->emitOpError() << label << "_c" << first + 3 << ": one side must be a chunk of a buffer without slots";
  return success();
}

LogicalResult PutOp::verify() { return verifyMove(*this, "put", 1); }
LogicalResult GetOp::verify() { return verifyMove(*this, "get", 1); }
LogicalResult ChannelCopyOp::verify() { return verifyMove(*this, "copy", 2); }
LogicalResult ChannelReduceOp::verify() { return verifyMove(*this, "reduce", 2); }

LogicalResult DivideOp::verify() {
  if (!fitsGrid(getBuffer(), getOffsets(), getSizes()))
    return emitOpError("divide_c1: the slice does not have the buffer's grid rank");
  if (bool(getPart()) != bool(getParts()))
    return emitOpError("divide_c2: `part` and `of` come together");
  if (hasSlots(getBuffer()))
    return emitOpError("divide_c3: the length of what is in a slot is not known");
  return success();
}

} // namespace kolo
