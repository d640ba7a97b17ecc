// FuseStripes: runs the variants of a stripe side by side.
//   Before:  scf.for %s { a } {kolo.stripe = 0} ; scf.for %s { b } {kolo.stripe = 1}
//   After:   scf.for %s { a {kolo.stripe = 0} ; b {kolo.stripe = 1} }
// Statements of different variants take turns. Loops with equal bounds become one loop, and so on inside of them. Every
// variant keeps its own order. This is sound if every variant touches another part of every chunk. The pass checks
// that: a part is a constant index in the last dimension of a buffer's grid. It leaves other variants as they are.
// Requires choreography form, checked. Runs before PlaceStaging, which decides about calls in place by the order of
// statements.
#include "compiler/Passes.h"
#include "compiler/schedule/Arithmetic.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_FUSESTRIPES
#include "compiler/Passes.h.inc"

namespace {

KoloDialect::StripeAttrHelper stripeMark(Operation &op) { return KoloDialect::StripeAttrHelper(op.getContext()); }

/// The variant of a statement or a loop; nothing for other ops and outside of stripes.
std::optional<int64_t> variantOf(Operation &op) {
  IntegerAttr attribute = stripeMark(op).getAttr(&op);
  auto loop = dyn_cast<scf::ForOp>(op);
  bool isItem = isa<StatementInterface>(op) || (loop && loop.getInitArgs().empty());
  return attribute && isItem ? std::optional(attribute.getInt()) : std::nullopt;
}

bool isAlike(Operation *a, Operation *b) {
  return a && b && isArithmetic(*a) && isArithmetic(*b) && a->getName() == b->getName() &&
         a->getAttrDictionary() == b->getAttrDictionary() && a->getNumOperands() == b->getNumOperands();
}

/// Whether two values are the same number, being computed alike.
bool isSame(Value a, Value b) {
  llvm::SetVector<std::pair<Value, Value>> pairs; // each once, however often values are used
  pairs.insert({a, b});
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto [one, other] = pairs[i];
    if (one == other)
      continue;
    Operation *first = one.getDefiningOp(), *second = other.getDefiningOp();
    if (!isAlike(first, second) || cast<OpResult>(one).getResultNumber() != cast<OpResult>(other).getResultNumber())
      return false;
    for (auto operands : llvm::zip_equal(first->getOperands(), second->getOperands()))
      pairs.insert({std::get<0>(operands), std::get<1>(operands)});
  }
  return true;
}

bool haveEqualBounds(scf::ForOp a, scf::ForOp b) {
  return isSame(a.getLowerBound(), b.getLowerBound()) && isSame(a.getUpperBound(), b.getUpperBound()) &&
         isSame(a.getStep(), b.getStep());
}

/// The one part of chunks that a slice takes: its index in the grid's last dimension, where that is a constant.
std::optional<int64_t> partOf(Value buffer, OperandRange offsets, OperandRange sizes) {
  if (offsets.empty() || getConstantIntValue(sizes.back()) != 1)
    return std::nullopt;
  std::optional<int64_t> extent = getConstantIntValue(buffer.getDefiningOp<BufferOp>().getGrid().back()),
                         part = getConstantIntValue(offsets.back());
  bool isInside = extent && part && 0 <= *part && *part < *extent; // others wrap around
  return isInside ? part : std::nullopt;
}

/// Statements and loops that follow each other, nothing but arithmetic between them, each of some variant.
class Run {
public:
  void add(Operation &op, int64_t variant) {
    items.push_back(&op);
    variants[variant].push_back(&op);
  }
  /// Does nothing when variants might meet.
  void interleave();

private:
  using Queue = SmallVector<Operation *>;
  bool isIndependent() const;
  static bool addParts(Operation *item, llvm::SetVector<int64_t> &parts);
  void hoistArithmetic();
  bool takeStatements();
  void takeLoops();
  void place(Queue &queue);

  Queue items;
  std::map<int64_t, Queue> variants; // what is left to be placed, each in its order
  Block *block = nullptr;
  Block::iterator end; // everything is placed anew before this
};

/// False when an op in the item may touch more than one part.
bool Run::addParts(Operation *item, llvm::SetVector<int64_t> &parts) {
  auto visit = [&](Operation *op) {
    if (auto statement = dyn_cast<StatementInterface>(op)) {
      SlicesOp slices = slicesOf(statement);
      auto from = partOf(statement.getSource(), slices.getSourceOffsets(), slices.getSourceSizes());
      auto to = partOf(statement.getDestination(), slices.getDestinationOffsets(), slices.getDestinationSizes());
      if (!from || !to)
        return WalkResult::interrupt();
      parts.insert(*from);
      parts.insert(*to);
      return WalkResult::advance();
    }
    return isa<scf::ForOp, scf::YieldOp, SlicesOp>(op) || isArithmetic(*op) ? WalkResult::advance()
                                                                            : WalkResult::interrupt();
  };
  return !item->walk(visit).wasInterrupted();
}

/// Whether every variant touches one part of chunks, a different one each.
bool Run::isIndependent() const {
  llvm::SetVector<int64_t> taken;
  for (const auto &[variant, queue] : variants) {
    llvm::SetVector<int64_t> parts;
    if (!llvm::all_of(queue, [&](Operation *item) { return addParts(item, parts); }) || parts.size() > 1)
      return false;
    if (!parts.empty() && !taken.insert(parts.front()))
      return false;
  }
  return true;
}

/// To the front of the run, which it does not depend on: loops without results define nothing.
void Run::hoistArithmetic() {
  Operation *last = items.back();
  for (Operation *op = items.front(); op != last;) {
    Operation *next = op->getNextNode();
    if (!llvm::is_contained(items, op))
      op->moveBefore(items.front());
    op = next;
  }
}

/// The next item of a variant.
void Run::place(Queue &queue) {
  queue.front()->moveBefore(block, end);
  queue.erase(queue.begin());
}

/// One statement of each variant that has one next. False when there was none.
bool Run::takeStatements() {
  bool didTake = false;
  for (auto &[variant, queue] : variants) {
    if (queue.empty() || !isa<StatementInterface>(queue.front()))
      continue;
    place(queue);
    didTake = true;
  }
  return didTake;
}

/// What is in a loop belongs to the variant of the loop.
void markBody(scf::ForOp loop) {
  for (Operation &op : loop.getBody()->without_terminator())
    if (isa<StatementInterface, scf::ForOp>(op))
      stripeMark(op).setAttr(&op, stripeMark(*loop).getAttr(loop));
}

void appendBody(scf::ForOp into, scf::ForOp from) {
  from.getInductionVar().replaceAllUsesWith(into.getInductionVar());
  Block *target = into.getBody(), *source = from.getBody();
  target->getOperations().splice(target->getTerminator()->getIterator(), source->getOperations(), source->begin(),
                                 source->getTerminator()->getIterator());
  from.erase();
}

/// The next loop of the first variant that is not through, and all that run along with it.
void Run::takeLoops() {
  scf::ForOp first;
  for (auto &[variant, queue] : variants) {
    if (queue.empty())
      continue;
    auto loop = cast<scf::ForOp>(queue.front());
    if (first && !haveEqualBounds(first, loop))
      continue;
    place(queue);
    if (!first) {
      first = loop;
      continue;
    }
    if (KoloDialect::StripeAttrHelper mark = stripeMark(*first); mark.isAttrPresent(first)) {
      markBody(first);
      mark.removeAttr(first); // of several variants from here on
    }
    markBody(loop);
    appendBody(first, loop);
  }
}

void Run::interleave() {
  if (variants.size() < 2 || !isIndependent())
    return;
  hoistArithmetic();
  block = items.front()->getBlock();
  end = std::next(items.back()->getIterator());
  auto isLeft = [](const auto &entry) { return !entry.second.empty(); };
  while (llvm::any_of(variants, isLeft))
    if (!takeStatements())
      takeLoops();
}

void interleaveAll(Block &block) {
  std::vector<Run> runs(1);
  for (Operation &op : block) {
    if (std::optional<int64_t> variant = variantOf(op))
      runs.back().add(op, *variant);
    else if (!isArithmetic(op))
      runs.emplace_back();
  }
  for (Run &run : runs)
    run.interleave();
  for (auto loop : block.getOps<scf::ForOp>())
    interleaveAll(*loop.getBody());
}

struct FuseStripes : impl::FuseStripesBase<FuseStripes> {
  void runOnOperation() override { interleaveAll(getOperation().getBody().front()); }
};

} // namespace
} // namespace kolo
