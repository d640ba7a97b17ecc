// PlaceStaging: gives statements that read memory that they also write a staging buffer.
//   Before:  kolo.transfer reducing %b -> %b to [flip %m] { slices }
//   After:   kolo.transfer %b -> %staging to [flip %m] { the same chunk in %staging } ;
//            kolo.reduce %staging -> %b { what the sender at (me xor m) would have written }
// A statement reads all of its sources before it writes; only one without a hazard may move data in one step. The
// staging buffer has the destination's shape, once for every sender of a receiver. The pass also states
// `in_place direct` where a call whose input lies inside its output may run as it is; elsewhere the runtime copies the
// input first.
// Requires choreography form, checked. Guarantees that no statement has a hazard.
#include "compiler/Passes.h"
#include "compiler/schedule/Hazards.h"
#include "compiler/schedule/Stager.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PLACESTAGING
#include "compiler/Passes.h.inc"

namespace {

/// Whether a statement from input to output moves every element to where it is already, on every rank that has an
/// input, when the call is in place.
bool movesInputHome(StatementInterface statement, const ProgramShape &shape) {
  // Another rank's input would be overwritten, but in a broadcast there is none.
  if (!isa<CopyOp>(statement) && shape.collective.getKind() != CollectiveKind::Broadcast)
    return false;
  SlicesOp slices = slicesOf(statement);
  Block &body = statement.getBody().front();
  auto isMyBlock = [&](OperandRange offsets) {
    auto groupDims = shape.collective.getGroupDims();
    return offsets.size() == groupDims.size() && llvm::all_of(llvm::zip_equal(offsets, groupDims), [&](auto pair) {
             return std::get<0>(pair) == body.getArgument(unsigned(std::get<1>(pair)));
           });
  };
  CollectiveKind kind = shape.collective.getKind();
  bool isInCut = hasBlockPerMember(kind, BufferRole::Input), isOutCut = hasBlockPerMember(kind, BufferRole::Output);
  if (isOutCut && !isInCut)
    return slices.getSourceOffsets().empty() && isMyBlock(slices.getDestinationOffsets());
  if (isInCut && !isOutCut)
    return slices.getDestinationOffsets().empty() && isMyBlock(slices.getSourceOffsets());
  // Input and output have one size; the same place is home, and "everything" starts at constants 0.
  return llvm::equal(slices.getSourceSizes(), slices.getDestinationSizes(),
                     [](Value a, Value b) {
                       return a == b || (a.getDefiningOp() && b.getDefiningOp() &&
                                         OperationEquivalence::isEquivalentTo(a.getDefiningOp(), b.getDefiningOp(),
                                                                              OperationEquivalence::IgnoreLocations));
                     }) &&
         llvm::equal(slices.getSourceOffsets(), slices.getDestinationOffsets(), [](Value a, Value b) {
           return a == b || (getConstantIntValue(a) && getConstantIntValue(a) == getConstantIntValue(b));
         });
}

/// An in-place call may run as it is if nothing reads the input once anything of the output was overwritten. Statements
/// in a loop count as simultaneous.
bool mayRunInPlace(ChoreographyOp choreography) {
  bool isOverwritten = false, isDirect = true;
  for (Operation &op : choreography.getBody().front()) {
    bool reads = false, overwrites = false;
    op.walk([&](StatementInterface statement) {
      BufferRole source = statement.getSource().getDefiningOp<BufferOp>().getRole();
      BufferRole destination = statement.getDestination().getDefiningOp<BufferOp>().getRole();
      bool isHome = source == BufferRole::Input && destination == BufferRole::Output &&
                    movesInputHome(statement, enclosingProgram(choreography));
      reads |= source == BufferRole::Input;
      overwrites |= destination == BufferRole::Output && !isHome;
    });
    isOverwritten |= overwrites;
    isDirect &= !(reads && isOverwritten);
  }
  return isDirect;
}

struct PlaceStaging : impl::PlaceStagingBase<PlaceStaging> {
  void runOnOperation() override {
    // One statement costs at most this many moves to analyse: a fraction of a second.
    constexpr int64_t maxMoves = 1 << 16;
    FailureOr<llvm::SetVector<Operation *>> hazards = findHazards(getOperation(), maxMoves);
    if (failed(hazards))
      return signalPassFailure();
    // Over a network that is staged, data arrives in inboxes alone: see PlaceSlots.
    auto roleFor = [&](Operation *statement) {
      auto transfer = dyn_cast<TransferOp>(statement);
      const bool isStaged = transfer && networkDimOf(transfer) && usesStagedNetwork(getOperation());
      return isStaged ? BufferRole::Inbox : BufferRole::Scratch;
    };
    int number = 0;
    for (Operation *statement : *hazards)
      Stager(cast<StatementInterface>(statement), {roleFor(statement)}).run("staging" + std::to_string(number++));
    getOperation().setInPlace(mayRunInPlace(getOperation()) ? InPlace::Direct : InPlace::CopyInput);
  }
};

} // namespace
} // namespace kolo
