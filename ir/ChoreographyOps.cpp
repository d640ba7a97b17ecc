// Verifiers of the choreography phase.
#include "ir/VerifyProgram.h"

using namespace mlir;

namespace kolo {

LogicalResult ChoreographyOp::verify() {
  if (failed(verifyProgramShape(*this, {getCollective(), getMesh(), getMeshes()}, "choreography")))
    return failure();
  if (getChecked() && !areOfMeshes(*getChecked(), getMeshes()))
    return emitOpError("choreography_c5: was checked for another mesh than those it is compiled for, or twice for one");
  return success();
}

LogicalResult ChoreographyOp::verifyRegions() {
  WalkResult result = walk([](Operation *op) {
    if (!op->getName().getStringRef().starts_with("kolo.chan."))
      return WalkResult::advance();
    op->emitOpError("choreography_c4: belongs to the channel phase");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted() || failed(verifyLoops(*this, "choreography_c6")));
}

/// The body takes `coordinatesPerDim` values of type index per mesh dimension, and computes slices.
static LogicalResult verifyBody(StatementInterface statement, size_t coordinatesPerDim, StringRef label) {
  Block &body = statement.getBody().front();
  ArrayAttr mesh = enclosingProgram(statement).mesh;
  size_t numExpected = (mesh ? mesh.size() : 0) * coordinatesPerDim;
  if (!mesh || body.getNumArguments() != numExpected ||
      !llvm::all_of(body.getArgumentTypes(), [](Type type) { return type.isIndex(); }))
    return statement->emitOpError() << label << ": the body must take " << numExpected << " coordinates of type index";
  if (body.empty() || !isa<SlicesOp>(body.back()))
    return statement->emitOpError("the body must end with kolo.slices");
  return success();
}

LogicalResult TransferOp::verify() {
  ArrayAttr mesh = enclosingProgram(*this).mesh;
  if (mesh && getSteps().size() != mesh.size())
    return emitOpError("transfer_c1: ") << getSteps().size() << " steps for a mesh of " << mesh.size() << " dimensions";
  size_t numAmounts = llvm::count_if(getSteps().getAsRange<StepAttr>(), [](StepAttr step) {
    return step.getKind() == StepKind::Next || step.getKind() == StepKind::Flip || step.getKind() == StepKind::At;
  });
  if (numAmounts != getAmounts().size())
    return emitOpError("transfer_c2: the relation needs ") << numAmounts << " operands, not " << getAmounts().size();
  return success();
}

LogicalResult TransferOp::verifyRegions() { return verifyBody(*this, 2, "transfer_c3"); }
LogicalResult CopyOp::verifyRegions() { return verifyBody(*this, 1, "copy_c1"); }
LogicalResult ReduceOp::verifyRegions() { return verifyBody(*this, 1, "reduce_c1"); }

LogicalResult SlicesOp::verify() {
  auto statement = cast<StatementInterface>((*this)->getParentOp());
  if (!fitsGrid(statement.getSource(), getSourceOffsets(), getSourceSizes()))
    return emitOpError("slices_c1: the source slice does not have the source's grid rank");
  if (!fitsGrid(statement.getDestination(), getDestinationOffsets(), getDestinationSizes()))
    return emitOpError("slices_c1: the destination slice does not have the destination's grid rank");
  if (countRanged(getSourceSizes()) != countRanged(getDestinationSizes()))
    return emitOpError("slices_c2: the source slice has ")
           << countRanged(getSourceSizes()) << " ranged dimensions, the destination slice "
           << countRanged(getDestinationSizes());
  if (hasSlots(statement.getSource()) && hasSlots(statement.getDestination()))
    return emitOpError("slices_c3: one side must be a chunk of a buffer without slots");
  codec::Codec stored = codecOf(statement.getDestination());
  if (statement.isReducing() && (codec::isScaled(stored) || stored.isStochastic()))
    return emitOpError("slices_c4: combines into a buffer whose codec has scales, or is stochastic");
  if (haveDifferentScales(statement.getSource(), statement.getDestination()))
    return emitOpError("slices_c5: the buffers have two different codecs with scales");
  return success();
}

} // namespace kolo
