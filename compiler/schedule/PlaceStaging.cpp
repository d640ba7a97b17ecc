// PlaceStaging: gives statements that read what they write a staging buffer.
//   Before:  kolo.transfer reducing %b -> %b to [flip %m] { slices }
//   After:   kolo.transfer %b -> %staging to [flip %m] { the same place in %staging } ;
//            kolo.reduce %staging -> %b { what the sender at (me xor m) would have written }
// A statement reads all its sources before it writes; without a hazard it may move data in one step. The staging buffer is
// shaped like the destination, once per sender that one rank receives from. Also says, in the attribute kolo.in_place,
// whether a call whose input lies inside its output may run as it is ("direct") or needs a copy of the input ("copyInput").
// Requires choreography form, checked. Guarantees that no statement has a hazard.
#include "compiler/Passes.h"
#include "compiler/project/Relations.h"
#include "compiler/schedule/Hazards.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PLACESTAGING
#include "compiler/Passes.h.inc"

namespace {

/// Rewrites one statement.
class Stager {
public:
  Stager(StatementInterface statement, int number)
      : statement(statement), transfer(dyn_cast<TransferOp>(statement.getOperation())),
        builder(statement->getContext()), loc(statement.getLoc()), number(number) {}

  void run();

private:
  void createStaging();
  void createMoveIn();
  void createMoveOut();
  /// The coordinates of the sender whose data the staging buffer keeps apart from that of others.
  SmallVector<Value> slotsOf(ValueRange sender) {
    return llvm::map_to_vector(slotDims, [&](size_t dim) { return sender[dim]; });
  }
  SmallVector<Value> ones() { return SmallVector<Value>(slotDims.size(), createConstant(builder, loc, 1)); }

  StatementInterface statement;
  TransferOp transfer; // null: a local statement
  OpBuilder builder;
  Location loc;
  int number;
  SmallVector<size_t, 4> slotDims; // mesh dimensions along which a rank has many senders
  SmallVector<Value, 4> dimSizes;
  Value staging;
};

void Stager::run() {
  createStaging();
  builder.setInsertionPoint(statement);
  createMoveIn();
  createMoveOut();
  statement->erase();
}

void Stager::createStaging() {
  auto buffer = statement.getDestination().getDefiningOp<BufferOp>();
  assert(!buffer.getCut() && "what reads and writes one buffer would move from slot to slot");
  builder.setInsertionPointAfter(buffer);
  size_t numDims = enclosingProgram(statement).mesh.size();
  for (size_t dim = 0; dim < numDims; ++dim)
    dimSizes.push_back(DimSizeOp::create(builder, loc, int64_t(dim)));
  SmallVector<Value> grid;
  for (size_t dim = 0; transfer && dim < numDims; ++dim) {
    StepKind kind = cast<StepAttr>(transfer.getSteps()[dim]).getKind();
    if (kind != StepKind::Others && kind != StepKind::At)
      continue;
    slotDims.push_back(dim);
    grid.push_back(dimSizes[dim]);
  }
  llvm::append_range(grid, buffer.getGrid());
  auto type = BufferType::get(builder.getContext(), unsigned(grid.size()));
  staging = BufferOp::create(builder, loc, type, BufferRole::Scratch, "staging" + std::to_string(number), grid,
                             slotDims.size() + buffer.getBlocks(), Value());
}

/// The statement as it was, but into the staging buffer.
void Stager::createMoveIn() {
  OpBuilder::InsertionGuard guard(builder);
  Operation *move;
  if (transfer)
    move = TransferOp::create(builder, loc, false, statement.getSource(), staging, transfer.getSteps(),
                              transfer.getAmounts());
  else
    move = CopyOp::create(builder, loc, statement.getSource(), staging);
  Block &body = move->getRegion(0).emplaceBlock();
  for (BlockArgument argument : statement.getBody().getArguments())
    body.addArgument(argument.getType(), argument.getLoc());
  builder.setInsertionPointToStart(&body);
  auto sender = body.getArguments().take_front(dimSizes.size()), receiver = body.getArguments().drop_front(dimSizes.size());
  InlinedSlices slices = inlineBody(builder, statement, sender, receiver, {});
  SmallVector<Value> offsets = slotsOf(sender), sizes = ones();
  llvm::append_range(offsets, slices.destinationOffsets);
  llvm::append_range(sizes, slices.destinationSizes);
  SlicesOp::create(builder, loc, slices.sourceOffsets, slices.sourceSizes, offsets, sizes, slices.condition);
}

/// What every rank received, from the staging buffer to where it belongs: once per sender.
void Stager::createMoveOut() {
  OpBuilder::InsertionGuard guard(builder);
  FanIndices fan;
  if (transfer)
    fan = openFanLoops(builder, transfer, dimSizes, Direction::ToSenders);
  Operation *move;
  if (statement.isReducing())
    move = ReduceOp::create(builder, loc, staging, statement.getDestination());
  else
    move = CopyOp::create(builder, loc, staging, statement.getDestination());
  Block &body = move->getRegion(0).emplaceBlock();
  for (size_t dim = 0; dim < dimSizes.size(); ++dim)
    body.addArgument(builder.getIndexType(), loc);
  builder.setInsertionPointToStart(&body);
  SmallVector<Value, 4> me(body.getArguments());
  PeerCoordinates sender{me, Value()};
  if (transfer)
    sender = createPeer(builder, transfer, me, dimSizes, fan, Direction::ToSenders);
  InlinedSlices slices = inlineBody(builder, statement, sender.coordinates, me, {});
  SmallVector<Value> offsets = slotsOf(sender.coordinates), sizes = ones();
  llvm::append_range(offsets, slices.destinationOffsets);
  llvm::append_range(sizes, slices.destinationSizes);
  SlicesOp::create(builder, loc, offsets, sizes, slices.destinationOffsets, slices.destinationSizes,
                   createAnd(builder, loc, sender.condition, slices.condition));
}

/// Whether a statement from input to output moves every element to where it is already, on every rank that has an input,
/// when the call is in place.
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
  switch (shape.collective.getKind()) {
  case CollectiveKind::AllGather:
  case CollectiveKind::Gather:
    return slices.getSourceOffsets().empty() && isMyBlock(slices.getDestinationOffsets());
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::Scatter:
    return slices.getDestinationOffsets().empty() && isMyBlock(slices.getSourceOffsets());
  default: // input and output have one size; the same place is home, and "everything" starts at constants 0
    return llvm::equal(slices.getSourceSizes(), slices.getDestinationSizes(), [](Value a, Value b) {
             return a == b || (a.getDefiningOp() && b.getDefiningOp() &&
                               OperationEquivalence::isEquivalentTo(a.getDefiningOp(), b.getDefiningOp(),
                                                                    OperationEquivalence::IgnoreLocations));
           }) &&
           llvm::equal(slices.getSourceOffsets(), slices.getDestinationOffsets(), [](Value a, Value b) {
             return a == b || (getConstantIntValue(a) && getConstantIntValue(a) == getConstantIntValue(b));
           });
  }
}

/// An in-place call may run as it is if nothing reads the input once anything of the output was overwritten. Statements in
/// a loop count as simultaneous.
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
    constexpr int64_t maxMoves = 1 << 20;
    FailureOr<llvm::SetVector<Operation *>> hazards = findHazards(getOperation(), maxMoves);
    if (failed(hazards))
      return signalPassFailure();
    int number = 0;
    for (Operation *statement : *hazards)
      Stager(cast<StatementInterface>(statement), number++).run();
    Builder builder(&getContext());
    getOperation()->setAttr("kolo.in_place", builder.getStringAttr(mayRunInPlace(getOperation()) ? "direct" : "copyInput"));
  }
};

} // namespace
} // namespace kolo
