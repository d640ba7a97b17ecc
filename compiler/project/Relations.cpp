// The peers of a relation, as index arithmetic.
#include "compiler/project/Relations.h"
#include "compiler/Passes.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {

bool isPutToInbox(MoveInterface move) {
  return move.getDestinationRank() && move.getDestination().getDefiningOp<BufferOp>().getRole() == BufferRole::Inbox;
}

std::optional<StringRef> networkDimOf(TransferOp transfer) {
  auto choreography = transfer->getParentOfType<ChoreographyOp>();
  auto dims = choreography->getAttrOfType<DenseI64ArrayAttr>(networkAttrName);
  for (auto [dim, step] : llvm::enumerate(transfer.getSteps().getAsRange<StepAttr>()))
    if (dims && step.getKind() != StepKind::Keep && llvm::is_contained(dims.asArrayRef(), int64_t(dim)))
      return cast<StringAttr>(choreography.getMesh()[dim]).getValue();
  return std::nullopt;
}

SmallVector<scf::ForOp> loopsAround(Operation *statement) {
  SmallVector<scf::ForOp> loops;
  for (auto loop = statement->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>())
    loops.insert(loops.begin(), loop);
  return loops;
}

/// Data that only the root has is pulled: otherwise the root alone would move all of it.
bool isPulled(TransferOp transfer, Transfers transfers) {
  auto roleOf = [](Value buffer) { return buffer.getDefiningOp<BufferOp>().getRole(); };
  if (roleOf(transfer.getDestination()) == BufferRole::Packets)
    return false;
  if (transfer.getReducing() || transfers == Transfers::Pull || roleOf(transfer.getSource()) == BufferRole::Published)
    return true;
  return transfers == Transfers::Auto && roleOf(transfer.getSource()) == BufferRole::Input &&
         isAtRoot(enclosingProgram(transfer).collective.getKind(), BufferRole::Input);
}

/// First of the loop indices that tell the peers along one dimension apart, or none when there is one peer.
static std::optional<int64_t> fanStart(StepKind kind, Direction direction) {
  if (kind == StepKind::Others)
    return 1;
  if (kind == StepKind::At && direction == Direction::ToSenders)
    return 0;
  return std::nullopt;
}

FanIndices openFanLoops(OpBuilder &builder, TransferOp transfer, ArrayRef<Value> dimSizes, Direction direction) {
  FanIndices fan;
  Location loc = transfer.getLoc();
  for (auto [step, size] : llvm::zip_equal(transfer.getSteps().getAsRange<StepAttr>(), dimSizes)) {
    std::optional<int64_t> start = fanStart(step.getKind(), direction);
    fan.push_back(Value());
    if (!start)
      continue;
    auto loop =
        scf::ForOp::create(builder, loc, createConstant(builder, loc, *start), size, createConstant(builder, loc, 1));
    builder.setInsertionPointToStart(loop.getBody());
    fan.back() = loop.getInductionVar();
  }
  return fan;
}

static SmallVector<int64_t> invert(ArrayRef<int64_t> table) {
  SmallVector<int64_t> inverse(table.size());
  for (auto [from, to] : llvm::enumerate(table))
    inverse[size_t(to)] = int64_t(from);
  return inverse;
}

PeerCoordinates createPeer(OpBuilder &builder, TransferOp transfer, ArrayRef<Value> mine, ArrayRef<Value> dimSizes,
                           const FanIndices &fan, Direction direction) {
  Location loc = transfer.getLoc();
  PeerCoordinates peer;
  auto amount = transfer.getAmounts().begin();
  bool isForward = direction == Direction::ToReceivers;
  auto rotate = [&](Value coordinate, Value distance, Value size) {
    Value moved =
        isForward ? createAdd(builder, loc, coordinate, distance) : createSub(builder, loc, coordinate, distance);
    return createModulo(builder, loc, moved, size);
  };
  for (auto [dim, step] : llvm::enumerate(transfer.getSteps().getAsRange<StepAttr>())) {
    Value coordinate = mine[dim];
    switch (step.getKind()) {
    case StepKind::Keep:
      break;
    case StepKind::Next:
      coordinate = rotate(coordinate, *amount++, dimSizes[dim]);
      break;
    case StepKind::Flip:
      coordinate = arith::XOrIOp::create(builder, loc, coordinate, *amount++);
      break;
    case StepKind::Others:
      coordinate = rotate(coordinate, fan[dim], dimSizes[dim]);
      break;
    case StepKind::At: {
      Value fixed = *amount++;
      if (!isForward) {
        Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, coordinate, fixed);
        peer.condition = createAnd(builder, loc, peer.condition, isThere);
      }
      coordinate = isForward ? fixed : fan[dim];
      break;
    }
    case StepKind::Mapped:
      coordinate = LookupOp::create(builder, loc, coordinate,
                                    isForward ? SmallVector<int64_t>(step.getTable()) : invert(step.getTable()));
      break;
    }
    peer.coordinates.push_back(coordinate);
  }
  return peer;
}

Value createIsSender(OpBuilder &builder, TransferOp transfer, ArrayRef<Value> sender, ArrayRef<Value> dimSizes) {
  Value isSender;
  if (!slicesOf(transfer).getCondition())
    return isSender;
  Location loc = transfer.getLoc();
  for (auto [dim, step] : llvm::enumerate(transfer.getSteps().getAsRange<StepAttr>())) {
    if (step.getKind() != StepKind::Flip)
      continue;
    using arith::CmpIPredicate;
    Value zero = createConstant(builder, loc, 0);
    Value isInside = createAnd(builder, loc, arith::CmpIOp::create(builder, loc, CmpIPredicate::sle, zero, sender[dim]),
                               arith::CmpIOp::create(builder, loc, CmpIPredicate::slt, sender[dim], dimSizes[dim]));
    isSender = createAnd(builder, loc, isSender, isInside);
  }
  return isSender;
}

InlinedSlices inlineBody(OpBuilder &builder, StatementInterface statement, ValueRange sender, ValueRange receiver,
                         IRMapping mapping) {
  Block &body = statement.getBody().front();
  mapping.map(body.getArguments().take_front(sender.size()), sender);
  if (body.getNumArguments() > sender.size())
    mapping.map(body.getArguments().drop_front(sender.size()), receiver);
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  auto lookUp = [&](OperandRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return mapping.lookupOrDefault(value); });
  };
  SlicesOp slices = slicesOf(statement);
  return {lookUp(slices.getSourceOffsets()), lookUp(slices.getSourceSizes()), lookUp(slices.getDestinationOffsets()),
          lookUp(slices.getDestinationSizes()),
          slices.getCondition() ? mapping.lookupOrDefault(slices.getCondition()) : Value()};
}

} // namespace kolo
