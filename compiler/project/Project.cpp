// Project: from the global view to one rank's program.
//   Before:  kolo.transfer %b -> %b to [next %k] { slices }
//   After:   put to (me + k); signal 0 to (me + k); flush; wait 0 from (me - k)
//            Pulled: signal 0 to (me + k); wait 0 from (me - k); get from (me - k), or reduce from (me - k)
// The relation says what a rank sends, the inverse relation what it receives. The receiver pulls a transfer that
// combines, so that no two ranks combine into one chunk at a time. The schedule decides about the others. Along the
// dimensions of `network_dims`, nothing is read but published inputs: PlaceSlots has rewritten what combines there.
// Requires choreography form, staged. Guarantees what VerifyProjected states: channel form with data signals only.
// Nothing yet keeps a peer from writing too early, except an `enter` where ranks enter together or publish inputs.
#include "compiler/Passes.h"
#include "compiler/project/Relations.h"
#include "ir/IndexArithmetic.h"
#include "ir/Members.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PROJECT
#include "compiler/Passes.h.inc"

namespace {

class Projector {
public:
  Projector(ChoreographyOp choreography, Transfers transfers, bool isTogether)
      : choreography(choreography), transfers(transfers), isTogether(isTogether), builder(choreography.getContext()) {}

  LogicalResult run();

private:
  LogicalResult checkNetwork(TransferOp transfer);
  bool isPulled(TransferOp transfer) {
    return kolo::isPulled(transfer, networkDimOf(transfer) ? Transfers::Push : transfers);
  }
  void projectBlock(Block &block);
  void projectOp(Operation &op);
  void projectLocal(StatementInterface statement);
  void projectPush(TransferOp transfer, int64_t semaphore);
  void projectPull(TransferOp transfer, int64_t semaphore);
  void createDivision();
  void markPhase(int64_t phase);
  void placeEnter(ProgramOp program);
  Value rankOf(Location loc, ArrayRef<Value> coordinates) { return createLinear(builder, loc, coordinates, dimSizes); }
  Value mapped(Value value) { return mapping.lookupOrDefault(value); }

  /// Calls `build` for every peer in one direction, inside of the statement's condition.
  void forEachPeer(TransferOp transfer, Direction direction,
                   function_ref<void(const InlinedSlices &, Value rank)> build);

  ChoreographyOp choreography;
  Transfers transfers;
  bool isTogether;
  OpBuilder builder;
  IRMapping mapping;
  SmallVector<Value, 4> dimSizes, me;
  int64_t nextSemaphore = 0;
};

/// What reads from another host, or writes packets there, cannot be done.
LogicalResult Projector::checkNetwork(TransferOp transfer) {
  auto roleOf = [](Value buffer) { return buffer.getDefiningOp<BufferOp>().getRole(); };
  std::optional<StringRef> dim = networkDimOf(transfer);
  const bool isStaged = usesStagedNetwork(choreography);
  if (!dim || (roleOf(transfer.getSource()) == BufferRole::Published && !isStaged))
    return success();
  if (roleOf(transfer.getDestination()) == BufferRole::Packets)
    return transfer.emitError() << "dimension '" << *dim << "' may be a network, which carries no packets";
  if (isPulled(transfer))
    return transfer.emitError() << "dimension '" << *dim << "' may be a network, over which ranks read nothing"
                                << (isStaged ? " where data is staged" : " but published inputs");
  if (isStaged && roleOf(transfer.getDestination()) != BufferRole::Inbox)
    return transfer.emitError() << "dimension '" << *dim
                                << "' may be a network, which is staged: data arrives in an inbox";
  return success();
}

LogicalResult Projector::run() {
  bool isWrong = false;
  choreography.walk([&](TransferOp transfer) { isWrong |= failed(checkNetwork(transfer)); });
  if (isWrong)
    return failure();
  int64_t numTransfers = 0;
  choreography.walk([&](TransferOp) { ++numTransfers; });
  builder.setInsertionPoint(choreography);
  auto program =
      ProgramOp::create(builder, choreography.getLoc(), choreography.getSymNameAttr(), choreography.getCollective(),
                        choreography.getMesh(), choreography.getMeshes(), uint64_t(numTransfers),
                        choreography.getInPlace(), /*needs_handshake=*/true, /*proved=*/nullptr);
  program->setDiscardableAttrs(choreography->getDiscardableAttrDictionary());
  builder.setInsertionPointToStart(&program.getBody().emplaceBlock());
  for (int64_t dim = 0; dim < int64_t(choreography.getMesh().size()); ++dim) {
    dimSizes.push_back(DimSizeOp::create(builder, choreography.getLoc(), dim));
    me.push_back(CoordOp::create(builder, choreography.getLoc(), dim));
  }
  int64_t phase = 0;
  for (Operation &op : choreography.getBody().front()) {
    projectOp(op);
    markPhase(phase++);
  }
  createDivision();
  markPhase(phase);
  placeEnter(program);
  choreography.erase();
  return success();
}

void Projector::projectBlock(Block &block) {
  for (Operation &op : block)
    projectOp(op);
}

/// Marks what was added to the program since the last time, but for arithmetic.
void Projector::markPhase(int64_t phase) {
  KoloDialect::PhaseAttrHelper mark(builder.getContext());
  for (Operation &op : llvm::reverse(*builder.getInsertionBlock())) {
    if (mark.isAttrPresent(&op))
      break;
    if (!isPure(&op) && !isa<BufferOp>(op))
      mark.setAttr(&op, builder.getI64IntegerAttr(phase));
  }
}

/// Behind the ops that fill published buffers, which come first.
void Projector::placeEnter(ProgramOp program) {
  Operation *lastPublishing = nullptr;
  program.walk([&](MoveInterface move) {
    if (move.getDestination().getDefiningOp<BufferOp>().getRole() == BufferRole::Published)
      lastPublishing = program.getBody().front().findAncestorOpInBlock(*move);
  });
  if (!isTogether && !lastPublishing)
    return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&program.getBody().front());
  if (lastPublishing)
    builder.setInsertionPointAfter(lastPublishing);
  EnterOp::create(builder, program.getLoc());
}

void Projector::projectOp(Operation &op) {
  if (auto transfer = dyn_cast<TransferOp>(op))
    return isPulled(transfer) ? projectPull(transfer, nextSemaphore++) : projectPush(transfer, nextSemaphore++);
  if (auto statement = dyn_cast<StatementInterface>(op))
    return projectLocal(statement);
  auto loop = dyn_cast<scf::ForOp>(op);
  if (!loop) {
    if (!isa<scf::YieldOp>(op))
      builder.clone(op, mapping);
    return;
  }
  OpBuilder::InsertionGuard guard(builder);
  auto projected = scf::ForOp::create(builder, loop.getLoc(), mapped(loop.getLowerBound()),
                                      mapped(loop.getUpperBound()), mapped(loop.getStep()));
  mapping.map(loop.getInductionVar(), projected.getInductionVar());
  builder.setInsertionPointToStart(projected.getBody());
  projectBlock(*loop.getBody());
}

/// Leaves the builder inside the condition's region, if there is a condition.
static void enterIf(OpBuilder &builder, Location loc, Value condition) {
  if (!condition)
    return;
  auto conditional = scf::IfOp::create(builder, loc, condition);
  builder.setInsertionPointToStart(conditional.thenBlock());
}

void Projector::projectLocal(StatementInterface statement) {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = statement.getLoc();
  InlinedSlices slices = inlineBody(builder, statement, me, {}, mapping);
  enterIf(builder, loc, slices.condition);
  Value source = mapped(statement.getSource()), destination = mapped(statement.getDestination());
  if (statement.isReducing())
    ChannelReduceOp::create(builder, loc, source, slices.sourceOffsets, slices.sourceSizes, destination,
                            slices.destinationOffsets, slices.destinationSizes, Value(), Value(), Value());
  else
    ChannelCopyOp::create(builder, loc, source, slices.sourceOffsets, slices.sourceSizes, destination,
                          slices.destinationOffsets, slices.destinationSizes, Value(), Value());
}

void Projector::forEachPeer(TransferOp transfer, Direction direction,
                            function_ref<void(const InlinedSlices &, Value)> build) {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = transfer.getLoc();
  // The relation's amounts may be values of the choreography; use their projected counterparts.
  auto relation = cast<TransferOp>(transfer->cloneWithoutRegions());
  relation.getAmountsMutable().assign(llvm::map_to_vector(transfer.getAmounts(), [&](Value v) { return mapped(v); }));
  FanIndices fan = openFanLoops(builder, relation, dimSizes, direction);
  PeerCoordinates peer = createPeer(builder, relation, me, dimSizes, fan, direction);
  relation->erase();
  bool isForward = direction == Direction::ToReceivers;
  if (!isForward)
    peer.condition =
        createAnd(builder, loc, peer.condition, createIsSender(builder, transfer, peer.coordinates, dimSizes));
  enterIf(builder, loc, peer.condition);
  InlinedSlices slices = isForward ? inlineBody(builder, transfer, me, peer.coordinates, mapping)
                                   : inlineBody(builder, transfer, peer.coordinates, me, mapping);
  enterIf(builder, loc, slices.condition);
  build(slices, rankOf(loc, peer.coordinates));
}

void Projector::projectPush(TransferOp transfer, int64_t semaphore) {
  Location loc = transfer.getLoc();
  forEachPeer(transfer, Direction::ToReceivers, [&](const InlinedSlices &slices, Value rank) {
    PutOp::create(builder, loc, mapped(transfer.getSource()), slices.sourceOffsets, slices.sourceSizes,
                  mapped(transfer.getDestination()), slices.destinationOffsets, slices.destinationSizes, rank, Value(),
                  Value());
    SignalOp::create(builder, loc, uint64_t(semaphore), rank, /*credit=*/nullptr);
  });
  FlushOp::create(builder, loc);
  forEachPeer(transfer, Direction::ToSenders, [&](const InlinedSlices &, Value rank) {
    WaitOp::create(builder, loc, uint64_t(semaphore), rank, /*credit=*/nullptr);
  });
}

void Projector::projectPull(TransferOp transfer, int64_t semaphore) {
  Location loc = transfer.getLoc();
  forEachPeer(transfer, Direction::ToReceivers, [&](const InlinedSlices &, Value rank) {
    SignalOp::create(builder, loc, uint64_t(semaphore), rank, /*credit=*/nullptr);
  });
  forEachPeer(transfer, Direction::ToSenders, [&](const InlinedSlices &slices, Value rank) {
    WaitOp::create(builder, loc, uint64_t(semaphore), rank, /*credit=*/nullptr);
    Value source = mapped(transfer.getSource()), destination = mapped(transfer.getDestination());
    if (transfer.getReducing())
      ChannelReduceOp::create(builder, loc, source, slices.sourceOffsets, slices.sourceSizes, destination,
                              slices.destinationOffsets, slices.destinationSizes, rank, Value(), Value());
    else
      GetOp::create(builder, loc, source, slices.sourceOffsets, slices.sourceSizes, destination,
                    slices.destinationOffsets, slices.destinationSizes, rank, Value(), Value());
  });
}

/// An average is a sum, divided at the end where the output is.
void Projector::createDivision() {
  CollectiveAttr collective = choreography.getCollective();
  CollectiveKind kind = collective.getKind();
  if (!mayAverage(kind))
    return;
  OpBuilder::InsertionGuard guard(builder);
  Location loc = choreography.getLoc();
  if (isAtRoot(kind, BufferRole::Output)) {
    SmallVector<Value> coordinates, sizes;
    for (int64_t dim : collective.getGroupDims()) {
      coordinates.push_back(me[size_t(dim)]);
      sizes.push_back(dimSizes[size_t(dim)]);
    }
    Value number = createLinear(builder, loc, coordinates, sizes);
    enterIf(builder, loc,
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, number, RootOp::create(builder, loc)));
  }
  for (auto buffer : choreography.getBody().getOps<BufferOp>()) {
    if (buffer.getRole() != BufferRole::Output)
      continue;
    SmallVector<Value> offsets, sizes;
    for (Value extent : buffer.getGrid()) {
      offsets.push_back(createConstant(builder, loc, 0));
      sizes.push_back(mapped(extent));
    }
    DivideOp::create(builder, loc, mapped(buffer), offsets, sizes, Value(), Value());
  }
}

struct Project : impl::ProjectBase<Project> {
  using ProjectBase::ProjectBase;

  void runOnOperation() override {
    for (auto choreography : llvm::make_early_inc_range(getOperation().getOps<ChoreographyOp>()))
      if (failed(Projector(choreography, transfers, together).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace kolo
