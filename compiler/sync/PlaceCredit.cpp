// Puts the signals and waits of credits into one rank's text.
#include "compiler/sync/PlaceCredit.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"

#include <map>

using namespace mlir;

namespace kolo {

void removePipelinePhases(ProgramOp program) {
  program.walk([](Operation *op) { op->removeAttr(KoloDialect::PipelinePhaseAttrHelper::getNameStr()); });
}

SmallVector<ProjectedTransfer> findTransfers(ProgramOp program) {
  std::map<uint64_t, ProjectedTransfer> found;
  program.walk([&](Operation *op) {
    if (creditOf(op))
      return;
    if (auto signal = dyn_cast<SignalOp>(op)) {
      found[signal.getSemaphore()].signal = signal;
      if (auto put = dyn_cast_if_present<PutOp>(op->getPrevNode()))
        found[signal.getSemaphore()].move = put;
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      ProjectedTransfer &transfer = found[wait.getSemaphore()];
      transfer.wait = wait;
      // The wait of a push may have been moved to such a place.
      auto move = dyn_cast_if_present<MoveInterface>(op->getNextNode());
      if (move && move.getSourceRank() && !isa_and_present<PutOp>(transfer.move))
        transfer.move = move;
    }
  });
  SmallVector<ProjectedTransfer> transfers;
  for (auto &[semaphore, transfer] : found) {
    transfer.semaphore = semaphore;
    transfers.push_back(transfer);
  }
  return transfers;
}

Block::iterator afterEnter(ProgramOp program) {
  auto enters = program.getBody().getOps<EnterOp>();
  return enters.empty() ? program.getBody().front().begin() : std::next((*enters.begin())->getIterator());
}

Block::iterator endBeforeDivision(ProgramOp program) {
  Block &body = program.getBody().front();
  auto end = body.end();
  while (end != body.begin()) {
    bool divides = false, doesMore = false;
    std::prev(end)->walk([&](Operation *op) {
      divides |= isa<DivideOp>(op);
      doesMore |= isa<MoveInterface, SignalOp, WaitOp>(op);
    });
    if (!divides || doesMore)
      break;
    --end;
  }
  return end;
}

namespace {

/// The loops and conditions around `op`, inside of `outer`, outermost first.
SmallVector<Operation *> nestOf(Operation *op, Operation *outer) {
  SmallVector<Operation *> nest;
  for (op = op->getParentOp(); op != outer; op = op->getParentOp())
    nest.push_back(op);
  std::reverse(nest.begin(), nest.end());
  return nest;
}

/// Rebuilds a nest of loops and conditions somewhere else, and in it, one op.
class NestBuilder {
public:
  explicit NestBuilder(OpBuilder builder) : builder(builder) {}

  void enter(ArrayRef<Operation *> nest) {
    for (Operation *op : nest) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        Value lower = get(loop.getLowerBound()), upper = get(loop.getUpperBound()), step = get(loop.getStep());
        auto made = scf::ForOp::create(builder, loop.getLoc(), lower, upper, step);
        mapping.map(loop.getInductionVar(), made.getInductionVar());
        builder.setInsertionPointToStart(made.getBody());
      } else {
        enterIf(op->getLoc(), get(cast<scf::IfOp>(op).getCondition()));
      }
    }
  }
  void enterIf(Location loc, Value condition) {
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, condition).thenBlock());
  }

  /// The value here; its arithmetic is repeated where it is not visible.
  Value get(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    if (isVisible(value))
      return value;
    Operation *definition = value.getDefiningOp();
    for (Value operand : definition->getOperands())
      (void)mapping.map(operand, get(operand));
    return builder.clone(*definition, mapping)->getResult(0);
  }

  OpBuilder builder;

private:
  bool isVisible(Value value) const {
    Block *block = builder.getInsertionBlock(), *definingBlock = value.getParentBlock();
    Operation *definition = value.getDefiningOp();
    if (block == definingBlock)
      return !definition || builder.getInsertionPoint() == block->end() ||
             definition->isBeforeInBlock(&*builder.getInsertionPoint());
    Operation *ancestor = definingBlock->findAncestorOpInBlock(*block->getParentOp());
    return ancestor && (!definition || definition->isBeforeInBlock(ancestor));
  }

  IRMapping mapping;
};

/// Whether an op is a phase of a pipeline: in its rounds it does the same for one slice after the other.
bool isPipelinePhase(Operation *op) { return KoloDialect::PipelinePhaseAttrHelper(op->getContext()).isAttrPresent(op); }

/// Whether which peer `op` meets, and whether it does, depends on the index of a loop around it.
bool peersDependOn(Operation *op, scf::ForOp loop) {
  SmallVector<Value> values;
  if (auto signal = dyn_cast<SignalOp>(op))
    values.push_back(signal.getRank());
  if (auto wait = dyn_cast<WaitOp>(op))
    values.push_back(wait.getRank());
  for (Operation *around : nestOf(op, loop))
    if (!isPipelinePhase(around))
      llvm::append_range(values, around->getOperands());
  return dependsOn(values, loop.getInductionVar());
}

/// One transfer's credit, with all that its placement needs.
class Placement {
public:
  Placement(const ProjectedTransfer &transfer, const CreditChoice &choice, uint64_t semaphore)
      : transfer(transfer), choice(choice), semaphore(semaphore), program(transfer.move->getParentOfType<ProgramOp>()),
        loc(transfer.move->getLoc()) {
    // The loops around both ends.
    for (Operation *op = transfer.signal->getParentOp(); op != program; op = op->getParentOp())
      if (auto loop = dyn_cast<scf::ForOp>(op); loop && loop->isProperAncestor(transfer.wait))
        common.push_back(loop); // innermost first
  }

  /// The innermost loop whose iterations all meet the same peers, where it is not a pipeline's.
  scf::ForOp lagLoop() {
    if (transfer.isPull() || common.empty() || meetsOthers(common.front()) || isPipeline(common.front()) ||
        getConstantIntValue(common.front().getStep()) != 1)
      return {};
    return common.front();
  }

  void placeLag();
  void placeEntry();
  void placeExit();
  void placeStatement();

private:
  static bool isPipeline(scf::ForOp loop) { return llvm::any_of(loop.getOps<scf::IfOp>(), isPipelinePhase); }
  bool meetsOthers(scf::ForOp loop) {
    return peersDependOn(transfer.signal, loop) || peersDependOn(transfer.wait, loop);
  }
  /// The outermost of the loops whose iterations all meet the same peers, so that one credit does for all of them.
  scf::ForOp outermostOfSamePeers() {
    for (scf::ForOp loop : llvm::reverse(common))
      if (!meetsOthers(loop))
        return loop;
    return {};
  }
  SmallVector<Operation *> without(ArrayRef<Operation *> nest) { // the loops that one credit does for
    return llvm::filter_to_vector(nest, [&](Operation *op) {
      auto loop = dyn_cast<scf::ForOp>(isPipelinePhase(op) ? op->getParentOp() : op);
      return !loop || !llvm::is_contained(common, loop) || meetsOthers(loop);
    });
  }
  CreditKindAttr credit() { return CreditKindAttr::get(program.getContext(), *choice.kind); }
  void createSignal(NestBuilder &nest, Value rank) {
    SignalOp::create(nest.builder, loc, semaphore, nest.get(rank), credit());
  }
  void createWait(NestBuilder &nest, Value rank) {
    WaitOp::create(nest.builder, loc, semaphore, nest.get(rank), credit());
  }
  /// The op of the block around both ends that is, or holds, `end`.
  Operation *besideOther(Operation *end, Operation *other) {
    while (!end->getBlock()->findAncestorOpInBlock(*other))
      end = end->getParentOp();
    return end;
  }

  ProjectedTransfer transfer;
  CreditChoice choice;
  uint64_t semaphore;
  ProgramOp program;
  Location loc;
  SmallVector<scf::ForOp, 4> common;
};

void Placement::placeStatement() {
  // The nests below the block that both ends are in.
  Operation *around = besideOther(transfer.signal, transfer.wait)->getParentOp();
  if (!transfer.isPull()) {
    NestBuilder give(OpBuilder(besideOther(transfer.move, transfer.wait)));
    give.enter(nestOf(transfer.wait, around));
    createSignal(give, transfer.wait.getRank());
    NestBuilder take{OpBuilder(transfer.move)};
    createWait(take, transfer.signal.getRank());
    return;
  }
  OpBuilder after(program.getContext());
  after.setInsertionPointAfter(besideOther(transfer.move, transfer.signal));
  NestBuilder take(after);
  take.enter(nestOf(transfer.signal, around));
  createWait(take, transfer.signal.getRank());
  after.setInsertionPointAfter(transfer.move);
  NestBuilder give(after);
  createSignal(give, transfer.wait.getRank());
}

void Placement::placeEntry() {
  Block &body = program.getBody().front();
  auto first = std::find_if(afterEnter(program), body.end(), [](Operation &op) {
    return op
        .walk([](Operation *inner) {
          return isa<MoveInterface, SignalOp, WaitOp, FlushOp, DivideOp>(inner) ? WalkResult::interrupt()
                                                                                : WalkResult::advance();
        })
        .wasInterrupted();
  });
  NestBuilder give(OpBuilder(&body, first));
  give.enter(without(nestOf(transfer.wait, program)));
  createSignal(give, transfer.wait.getRank());
  scf::ForOp loop = outermostOfSamePeers();
  NestBuilder take(OpBuilder(loop ? loop.getOperation() : transfer.move));
  if (loop)
    take.enter(without(nestOf(transfer.signal, loop)));
  createWait(take, transfer.signal.getRank());
}

void Placement::placeExit() {
  OpBuilder after(program.getContext());
  scf::ForOp loop = outermostOfSamePeers();
  after.setInsertionPointAfter(loop ? loop.getOperation() : transfer.move);
  NestBuilder give(after);
  if (loop)
    give.enter(without(nestOf(transfer.wait, loop)));
  createSignal(give, transfer.wait.getRank());
  NestBuilder take(OpBuilder(&program.getBody().front(), endBeforeDivision(program)));
  take.enter(without(nestOf(transfer.signal, program)));
  createWait(take, transfer.signal.getRank());
}

void Placement::placeLag() {
  scf::ForOp loop = lagLoop();
  OpBuilder builder(program.getContext());
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  NestBuilder give(builder);
  auto compare = [&](NestBuilder &nest, arith::CmpIPredicate predicate, Value a, Value b) {
    Value sum = createAdd(nest.builder, loc, a, createConstant(nest.builder, loc, choice.lag));
    nest.enterIf(loc, arith::CmpIOp::create(nest.builder, loc, predicate, sum, b));
  };
  compare(give, arith::CmpIPredicate::slt, loop.getInductionVar(), loop.getUpperBound());
  give.enter(nestOf(transfer.wait, loop));
  createSignal(give, transfer.wait.getRank());
  NestBuilder take{OpBuilder(transfer.move)};
  compare(take, arith::CmpIPredicate::sle, loop.getLowerBound(), loop.getInductionVar());
  createWait(take, transfer.signal.getRank());
}

} // namespace

void moveWait(WaitOp wait, Operation *outer, Operation *place) {
  NestBuilder nest{OpBuilder(place)};
  nest.enter(nestOf(wait, outer));
  WaitOp::create(nest.builder, wait.getLoc(), wait.getSemaphore(), nest.get(wait.getRank()), wait.getCreditAttr());
  eraseWithEmptyNest(wait);
}

void eraseWithEmptyNest(Operation *op) {
  while (op) {
    Operation *parent = op->getParentOp();
    op->erase();
    bool isEmpty = isa<scf::ForOp, scf::IfOp>(parent) &&
                   llvm::all_of(parent->getRegion(0).front(),
                                [](Operation &inner) { return isa<scf::YieldOp>(inner) || isPure(&inner); });
    op = isEmpty ? parent : nullptr;
  }
}

SmallVector<CreditChoice> possibleCredits(const ProjectedTransfer &transfer) {
  SmallVector<CreditChoice> choices(1);
  if (transfer.isPull()) {
    choices.push_back({CreditKind::Exit, 0});
  } else {
    if (Placement(transfer, {}, 0).lagLoop()) {
      // As far behind as there are slots to receive into, where that is a number; the weakest first.
      llvm::SmallSetVector<int64_t, 4> lags;
      auto destination = cast<MoveInterface>(transfer.move).getDestination().getDefiningOp<BufferOp>();
      for (Value extent : destination.getGrid())
        if (std::optional<int64_t> slots = getConstantIntValue(extent); slots && *slots > 1)
          lags.insert(*slots);
      lags.insert(1);
      for (int64_t lag : lags)
        choices.push_back({CreditKind::Lag, lag});
    }
    choices.push_back({CreditKind::Entry, 0});
  }
  choices.push_back({CreditKind::Statement, 0});
  return choices;
}

void placeCredit(const ProjectedTransfer &transfer, const CreditChoice &choice, uint64_t semaphore) {
  Placement placement(transfer, choice, semaphore);
  switch (*choice.kind) {
  case CreditKind::Lag:
    return placement.placeLag();
  case CreditKind::Exit:
    return placement.placeExit();
  case CreditKind::Entry:
    return placement.placeEntry();
  case CreditKind::Statement:
    return placement.placeStatement();
  }
}

} // namespace kolo
