// Splits a statement into two.
#include "compiler/schedule/Stager.h"
#include "compiler/project/Relations.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace kolo {

void Stager::run(const std::string &name) {
  createStaging(name);
  builder.setInsertionPoint(statement);
  createMoveIn();
  keepStripe();
  createMoveOut();
  keepStripe();
  statement->erase();
}

/// Slots come before FuseStripes, so what was made last is of the same variant as the statement.
void Stager::keepStripe() {
  KoloDialect::StripeAttrHelper mark(builder.getContext());
  if (IntegerAttr variant = mark.getAttr(statement); variant && memory.isOfSlots)
    mark.setAttr(statement->getPrevNode(), variant);
}

/// Of a slot, those along which the statement moves more than one chunk, or a constant part.
void Stager::findKeptDims(BufferOp destination) {
  SlicesOp slices = slicesOf(statement);
  for (size_t dim = 0; dim < destination.getGrid().size(); ++dim) {
    bool isPart =
        getConstantIntValue(destination.getGrid()[dim]) && getConstantIntValue(slices.getDestinationOffsets()[dim]);
    if (!memory.isOfSlots || isRanged(slices.getDestinationSizes()[dim]) || isPart)
      keptDims.push_back(dim);
  }
}

void Stager::appendKept(ArrayRef<Value> ofDestination, SmallVector<Value> &values) {
  for (size_t dim : keptDims)
    values.push_back(ofDestination[dim]);
}

/// How many chunks every block of a buffer is cut into.
static Value createCut(OpBuilder &builder, Location loc, BufferOp buffer) {
  Value product = createConstant(builder, loc, 1);
  for (Value extent : buffer.getGrid().drop_front(buffer.getBlocks()))
    product = createMul(builder, loc, product, extent);
  return product;
}

void Stager::createStaging(const std::string &name) {
  auto buffer = statement.getDestination().getDefiningOp<BufferOp>();
  assert(!buffer.getCut() && "it would be moved from slot to slot");
  if (memory.loops.empty())
    builder.setInsertionPointAfter(buffer);
  else
    builder.setInsertionPoint(loopsAround(statement).front());
  size_t numDims = enclosingProgram(statement).mesh.size();
  for (size_t dim = 0; dim < numDims; ++dim)
    dimSizes.push_back(DimSizeOp::create(builder, loc, int64_t(dim)));
  SmallVector<Value> grid;
  for (scf::ForOp loop : memory.loops) {
    Value length = createSub(builder, loc, loop.getUpperBound(), loop.getLowerBound());
    Value last =
        createSub(builder, loc, createAdd(builder, loc, length, loop.getStep()), createConstant(builder, loc, 1));
    Value number = arith::FloorDivSIOp::create(builder, loc, last, loop.getStep());
    grid.push_back(arith::MaxSIOp::create(builder, loc, number, createConstant(builder, loc, 0)));
  }
  for (size_t dim = 0; transfer && memory.keepsSendersApart && dim < numDims; ++dim) {
    if (!hasManySenders(transfer, dim))
      continue;
    slotDims.push_back(dim);
    grid.push_back(dimSizes[dim]);
  }
  if (memory.turns)
    grid.push_back(createConstant(builder, loc, 2));
  findKeptDims(buffer);
  size_t numSets = grid.size();
  appendKept(llvm::to_vector(buffer.getGrid()), grid);
  auto type = BufferType::get(builder.getContext(), unsigned(grid.size()));
  // What is combined is moved as it is first; anything else is converted on its way here, and copied as it is.
  auto stored = statement.isReducing() ? statement.getSource().getDefiningOp<BufferOp>() : buffer;
  size_t blocks = memory.isOfSlots ? grid.size() : numSets + buffer.getBlocks();
  Value cut = memory.isOfSlots ? createCut(builder, loc, buffer) : Value();
  staging = BufferOp::create(builder, loc, type, memory.role, name, grid, blocks, cut, stored.getCodecAttr(),
                             memory.isOfLines);
}

Value Stager::iterationOf(scf::ForOp loop) {
  Value distance = createSub(builder, loc, loop.getInductionVar(), loop.getLowerBound());
  return arith::FloorDivSIOp::create(builder, loc, distance, loop.getStep());
}

SmallVector<Value> Stager::registersOf(ValueRange sender) {
  SmallVector<Value> result;
  for (scf::ForOp loop : memory.loops)
    result.push_back(iterationOf(loop));
  for (size_t dim : slotDims)
    result.push_back(sender[dim]);
  if (memory.turns)
    result.push_back(iterationOf(memory.turns)); // wraps around
  return result;
}

SmallVector<Value> Stager::ones() {
  return SmallVector<Value>(memory.loops.size() + slotDims.size() + size_t(bool(memory.turns)),
                            createConstant(builder, loc, 1));
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
  auto sender = body.getArguments().take_front(dimSizes.size()),
       receiver = body.getArguments().drop_front(dimSizes.size());
  InlinedSlices slices = inlineBody(builder, statement, sender, receiver, {});
  SmallVector<Value> offsets = registersOf(sender), sizes = ones();
  appendKept(slices.destinationOffsets, offsets);
  appendKept(slices.destinationSizes, sizes);
  SlicesOp::create(builder, loc, slices.sourceOffsets, slices.sourceSizes, offsets, sizes, slices.condition);
}

/// Where a `flip` gives a rank no sender, the body is evaluated for this rank as the sender instead: there it is
/// defined.
void Stager::requireSender(PeerCoordinates &sender, SmallVectorImpl<Value> &me) {
  Value isSender = createIsSender(builder, transfer, sender.coordinates, dimSizes);
  if (!isSender)
    return;
  sender.condition = createAnd(builder, loc, sender.condition, isSender);
  for (auto [dim, step] : llvm::enumerate(transfer.getSteps().getAsRange<StepAttr>())) {
    if (step.getKind() != StepKind::Flip)
      continue;
    Value one = sender.coordinates[dim], other = me[dim];
    sender.coordinates[dim] = arith::SelectOp::create(builder, loc, isSender, one, other);
    me[dim] = arith::SelectOp::create(builder, loc, isSender, other, one);
  }
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
  if (transfer) {
    sender = createPeer(builder, transfer, me, dimSizes, fan, Direction::ToSenders);
    requireSender(sender, me);
  }
  InlinedSlices slices = inlineBody(builder, statement, sender.coordinates, me, {});
  SmallVector<Value> offsets = registersOf(sender.coordinates), sizes = ones();
  appendKept(slices.destinationOffsets, offsets);
  appendKept(slices.destinationSizes, sizes);
  SlicesOp::create(builder, loc, offsets, sizes, slices.destinationOffsets, slices.destinationSizes,
                   createAnd(builder, loc, sender.condition, slices.condition));
}

} // namespace kolo
