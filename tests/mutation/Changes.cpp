// Late waits and other peers.
#include "Changes.h"
#include "Replant.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace kolo::mutation {

/// Whether `value` is computed from `source`.
static bool dependsOn(Value value, Value source) {
  llvm::SetVector<Value> needed;
  needed.insert(value);
  for (size_t i = 0; i < needed.size(); ++i)
    if (Operation *definition = needed[i].getDefiningOp())
      needed.insert(definition->operand_begin(), definition->operand_end());
  return needed.contains(source);
}

/// The rank operand of an op that has to do with a peer.
static OpOperand *peerOperand(Operation *op) {
  if (auto signal = dyn_cast<SignalOp>(op))
    return &signal.getRankMutable();
  if (auto wait = dyn_cast<WaitOp>(op))
    return &wait.getRankMutable();
  if (auto put = dyn_cast<PutOp>(op))
    return &put.getRankMutable();
  if (auto get = dyn_cast<GetOp>(op))
    return &get.getRankMutable();
  if (auto reduce = dyn_cast<ChannelReduceOp>(op); reduce && reduce.getRank())
    return &*reduce.getRankMutable().begin();
  return nullptr;
}

PutOp putBefore(SignalOp signal) {
  for (Operation *op = signal->getPrevNode(); op; op = op->getPrevNode()) {
    if (auto put = dyn_cast<PutOp>(op); put && put.getRank() == signal.getRank())
      return put;
    if (auto earlier = dyn_cast<SignalOp>(op); earlier && earlier.getRank() == signal.getRank())
      return nullptr;
  }
  return nullptr;
}

/// The innermost loop around an op that does not decide which peer the op has to do with. May be null.
static scf::ForOp innermostLoopOverTime(Operation *op) {
  Value peer = peerOperand(op)->get();
  auto loop = op->getParentOfType<scf::ForOp>();
  while (loop && dependsOn(peer, loop.getInductionVar()))
    loop = loop->getParentOfType<scf::ForOp>();
  return loop;
}

static Block &bodyOf(Operation *op) { return op->getParentOfType<ProgramOp>().getBody().front(); }

static void makeLateIn(scf::ForOp loop, WaitOp wait) {
  Operation *nest = loop.getBody()->findAncestorOpInBlock(*wait), *leaf = wait;
  Location loc = wait.getLoc();
  OpBuilder builder(nest);
  Value index = loop.getInductionVar();
  auto isLater = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, index, loop.getLowerBound());
  auto branch = scf::IfOp::create(builder, loc, isLater, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  Replant before(builder);
  before.replace(index, createSub(builder, loc, index, loop.getStep()));
  before.plant(nest, leaf);

  bool isNested = bool(loop->getParentOfType<scf::ForOp>());
  Operation *outer = isNested ? loop : bodyOf(wait).findAncestorOpInBlock(*wait);
  isNested ? builder.setInsertionPointAfter(loop) : builder.setInsertionPointToEnd(&bodyOf(wait));
  Replant last(builder);
  last.takeLastOf(loop);
  last.plant(outer, leaf);
}

void makeLate(WaitOp wait) {
  if (scf::ForOp loop = innermostLoopOverTime(wait)) {
    makeLateIn(loop, wait);
  } else {
    OpBuilder builder = OpBuilder::atBlockEnd(&bodyOf(wait));
    Operation *leaf = wait;
    Replant(builder).plant(bodyOf(wait).findAncestorOpInBlock(*wait), leaf);
  }
  wait.erase();
}

namespace {
/// Sizes and coordinates of the mesh, computed anew where the builder stands.
struct MeshValues {
  SmallVector<Value> sizes, coordinates;
  Value numRanks;
};
} // namespace

static MeshValues createMesh(OpBuilder &builder, Location loc, size_t numDims) {
  MeshValues mesh;
  mesh.numRanks = createConstant(builder, loc, 1);
  for (size_t dim = 0; dim < numDims; ++dim) {
    mesh.sizes.push_back(DimSizeOp::create(builder, loc, int64_t(dim)));
    mesh.coordinates.push_back(CoordOp::create(builder, loc, int64_t(dim)));
    mesh.numRanks = createMul(builder, loc, mesh.numRanks, mesh.sizes.back());
  }
  return mesh;
}

static Value createRank(OpBuilder &builder, Location loc, const MeshValues &mesh) {
  return createLinear(builder, loc, mesh.coordinates, mesh.sizes);
}

/// Does an op only if `rank`, or this rank where that is null, is not the last one.
static void dropIfLast(Operation *op, Value rank) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  MeshValues mesh = createMesh(builder, loc, op->getParentOfType<ProgramOp>().getMesh().size());
  if (!rank)
    rank = createRank(builder, loc, mesh);
  Value last = createSub(builder, loc, mesh.numRanks, createConstant(builder, loc, 1));
  auto isOther = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, rank, last);
  auto branch = scf::IfOp::create(builder, loc, isOther, /*withElseRegion=*/false);
  op->moveBefore(branch.thenBlock()->getTerminator());
}

void dropOnLastRank(Operation *op) { dropIfLast(op, nullptr); }

void dropForLastRank(Operation *signalOrWait) {
  auto signal = dyn_cast<SignalOp>(signalOrWait);
  dropIfLast(signalOrWait, signal ? signal.getRank() : Value());
}

bool shiftPeer(Operation *op) {
  OpOperand *peer = peerOperand(op);
  if (!peer)
    return false;
  OpBuilder builder(op);
  Location loc = op->getLoc();
  MeshValues mesh = createMesh(builder, loc, op->getParentOfType<ProgramOp>().getMesh().size());
  Value next = createAdd(builder, loc, peer->get(), createConstant(builder, loc, 1));
  peer->set(createModulo(builder, loc, next, mesh.numRanks));
  return true;
}

/// Lets `replant` compute as the rank before this one would.
static void replaceCoordinates(OpBuilder &builder, Replant &replant, ProgramOp program) {
  Location loc = program.getLoc();
  MeshValues mesh = createMesh(builder, loc, program.getMesh().size());
  Value before = createSub(builder, loc, createRank(builder, loc, mesh), createConstant(builder, loc, 1));
  Value rest = createModulo(builder, loc, before, mesh.numRanks);
  SmallVector<Value> coordinates(mesh.sizes.size());
  for (size_t dim = coordinates.size(); dim-- > 0;) {
    coordinates[dim] = createModulo(builder, loc, rest, mesh.sizes[dim]);
    rest = arith::FloorDivSIOp::create(builder, loc, rest, mesh.sizes[dim]);
  }
  program.walk([&](CoordOp coordinate) {
    if (!llvm::is_contained(mesh.coordinates, coordinate.getResult()))
      replant.replace(coordinate, coordinates[coordinate.getDim()]);
  });
}

/// Replaces a wait, and what is pulled from the same peer right after it, by what the rank before this one does there.
static void takeOverFromRankBefore(WaitOp wait) {
  SmallVector<Operation *> leaves = {wait};
  Operation *pull = wait->getNextNode();
  while (pull && !isa<KoloDialect>(pull->getDialect()))
    pull = pull->getNextNode();
  OpOperand *peer = pull && isa<MoveInterface>(pull) ? peerOperand(pull) : nullptr;
  if (peer && !isa<PutOp>(pull) && peer->get() == wait.getRank())
    leaves.push_back(pull);
  scf::ForOp loop = innermostLoopOverTime(wait);
  Operation *nest = (loop ? *loop.getBody() : bodyOf(wait)).findAncestorOpInBlock(*wait);
  OpBuilder builder(nest);
  Replant replant(builder);
  replaceCoordinates(builder, replant, wait->getParentOfType<ProgramOp>());
  replant.plant(nest, leaves);
  for (Operation *leaf : llvm::reverse(leaves))
    leaf->erase();
}

bool shiftReceivers(ProgramOp program, uint64_t semaphore) {
  SmallVector<SignalOp> signals;
  SmallVector<WaitOp> waits;
  program.walk([&](Operation *op) {
    if (auto signal = dyn_cast<SignalOp>(op); signal && signal.getSemaphore() == semaphore)
      signals.push_back(signal);
    if (auto wait = dyn_cast<WaitOp>(op); wait && wait.getSemaphore() == semaphore)
      waits.push_back(wait);
  });
  if (signals.empty() || waits.empty())
    return false;
  for (SignalOp signal : signals) {
    if (PutOp put = putBefore(signal))
      shiftPeer(put);
    shiftPeer(signal);
  }
  for (WaitOp wait : waits)
    takeOverFromRankBefore(wait);
  return true;
}

} // namespace kolo::mutation
