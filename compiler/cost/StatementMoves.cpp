#include "compiler/cost/StatementMoves.h"
#include "compiler/cost/ClosedForm.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace kolo::cost {

using Along = DimStep::Along;

void collectArguments(Value value, llvm::SetVector<Value> &arguments) {
  SmallVector<Value> open = {value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (isa<BlockArgument>(next))
      arguments.insert(next);
    else if (seen.insert(next.getDefiningOp()).second)
      llvm::append_range(open, next.getDefiningOp()->getOperands());
  }
}

static Along alongOf(StepKind kind) {
  switch (kind) {
  case StepKind::Keep:
    return Along::Keep;
  case StepKind::Next:
    return Along::Next;
  case StepKind::Flip:
    return Along::Flip;
  case StepKind::Others:
    return Along::Others;
  case StepKind::At:
    return Along::At;
  case StepKind::Mapped:
    return Along::Mapped;
  }
  llvm_unreachable("every kind of step is handled");
}

static bool hasAmount(Along along) { return along == Along::Next || along == Along::Flip || along == Along::At; }

StatementMoves::StatementMoves(StatementInterface statement, size_t numDims)
    : statement(statement), body(&statement.getBody().front()),
      measured(hasSlots(statement.getDestination()) ? statement.getSource() : statement.getDestination()),
      sizes(hasSlots(statement.getDestination()) ? slicesOf(statement).getSourceSizes()
                                                 : slicesOf(statement).getDestinationSizes()),
      condition(slicesOf(statement).getCondition()), stepKinds(numDims), ofSender(numDims), ofReceiver(numDims) {
  llvm::SetVector<Value> arguments;
  for (Value size : sizes)
    collectArguments(size, arguments);
  if (condition)
    collectArguments(condition, arguments);
  if (auto transfer = dyn_cast<TransferOp>(statement.getOperation())) {
    for (auto [dim, step] : llvm::enumerate(transfer.getSteps().getAsRange<StepAttr>()))
      stepKinds[dim] = {alongOf(step.getKind()), 0, {step.getTable().data(), step.getTable().size()}};
    for (Value amount : transfer.getAmounts())
      collectArguments(amount, arguments);
  }
  for (Value argument : arguments) {
    auto place = cast<BlockArgument>(argument);
    if (place.getOwner() != body)
      loopIndices.insert(argument);
    else if (place.getArgNumber() < numDims)
      ofSender[place.getArgNumber()] = true;
    else
      ofReceiver[place.getArgNumber() - numDims] = true;
  }
}

bool StatementMoves::isEnumerated(const LoadModel &model) const {
  if (!model.isAligned())
    return true;
  for (size_t dim = 0; dim < stepKinds.size(); ++dim)
    if (dependsOn(dim) || model.mustEnumerate(dim, stepKinds[dim]))
      return true;
  return false;
}

/// A flip of a dimension whose size is a multiple of twice the mask's highest bit stays inside.
static bool flipStaysInside(int64_t mask, int64_t size) {
  return mask == 0 || (mask > 0 && size % (2 * int64_t(llvm::bit_floor(uint64_t(mask)))) == 0);
}

LogicalResult StatementMoves::readSteps(IndexEvaluator &evaluator, std::vector<DimStep> &steps) {
  auto transfer = dyn_cast<TransferOp>(statement.getOperation());
  size_t operand = 0;
  for (size_t dim = 0; transfer && dim < steps.size(); ++dim) {
    DimStep &step = steps[dim];
    int64_t size = evaluator.mesh()[dim];
    if (hasAmount(step.along))
      step.amount = evaluator.get(transfer.getAmounts()[operand++]);
    StringRef name = cast<StringAttr>(enclosingProgram(transfer).mesh[dim]).getValue();
    if (step.along == Along::Flip && !flipStaysInside(step.amount, size))
      return transfer.emitError() << "flip(" << name << ", " << step.amount << ") leads out of the " << size
                                  << " ranks of " << name << "; the size must be a power of two";
    if (step.along == Along::At && (step.amount < 0 || step.amount >= size))
      return transfer.emitError() << "at(" << name << ", " << step.amount << "), but " << name << " has " << size
                                  << " ranks";
    if (step.along == Along::Mapped && int64_t(step.table.size()) != size)
      return transfer.emitError() << "the table mapped along " << name << " has " << step.table.size()
                                  << " entries, but " << name << " has " << size << " ranks";
  }
  return success();
}

/// Of one chunk of the buffer that is measured, in all bytes of the call.
double StatementMoves::chunkShare(IndexEvaluator &evaluator, double blocks) {
  auto buffer = measured.getDefiningOp<BufferOp>();
  double chunks = 1;
  for (Value extent : buffer.getGrid().drop_front(size_t(buffer.getBlocks())))
    chunks *= double(evaluator.get(extent));
  return 1 / (chunks * blocks);
}

/// Whether there is a move between the ends that the arguments say, and of how many chunks.
bool StatementMoves::executeBody(IndexEvaluator &evaluator, bool &isFailed, double &chunks) {
  if (failed(evaluator.execute(*body))) {
    isFailed = true;
    return false;
  }
  if (condition && !evaluator.get(condition))
    return false;
  chunks = 1;
  for (Value size : sizes)
    chunks *= double(std::max<int64_t>(0, evaluator.get(size)));
  return true;
}

/// The coordinates that a step leads to; of a dimension that is counted: one of them.
static SmallVector<int64_t> targetsOf(const DimStep &step, int64_t coordinate, int64_t size, bool isCounted) {
  switch (step.along) {
  case Along::Keep:
    return {coordinate};
  case Along::Next:
    return {((coordinate + step.amount) % size + size) % size};
  case Along::Flip:
    return {coordinate ^ step.amount};
  case Along::At:
    return {step.amount};
  case Along::Mapped:
    return {step.table[size_t(coordinate)]};
  case Along::Others:
    break;
  }
  SmallVector<int64_t> others;
  for (int64_t distance = 1; distance < (isCounted ? std::min<int64_t>(size, 2) : size); ++distance)
    others.push_back((coordinate + distance) % size);
  return others;
}

/// Moves of one execution that are kept in memory.
static constexpr size_t mostAtOnce = size_t(1) << 22;

/// What `enumerate` goes through.
struct StatementMoves::Enumeration {
  IndexEvaluator &evaluator;
  const Placement &placement;
  const std::vector<bool> &isEnumerated; // by dimension; none: one move stands for all
  double chunkShare;
  int64_t &budget;
  Moves &moves;

  void set(Value argument, int64_t number) const { evaluator.set(argument, number); }
};

LogicalResult StatementMoves::enumerate(Enumeration &all) {
  size_t numDims = stepKinds.size();
  ArrayRef<int64_t> mesh = all.evaluator.mesh();
  bool isTransfer = isa<TransferOp>(statement.getOperation());
  bool looksAtReceiver = llvm::is_contained(ofReceiver, true);
  auto refuse = [&] {
    return statement.emitError() << "what moves here depends on the rank, and on this mesh there are more ranks and "
                                    "peers than can be looked at one by one";
  };
  double numLooks = 1;
  for (size_t dim = 0; dim < numDims; ++dim)
    if (all.isEnumerated[dim])
      numLooks *=
          double(mesh[dim]) * (looksAtReceiver && stepKinds[dim].along == Along::Others ? double(mesh[dim] - 1) : 1);
  if (numLooks > double(all.budget))
    return refuse();
  SmallVector<int64_t> sender(numDims, 0);
  /// The next combination of coordinates along the dimensions; false after the last.
  auto advance = [&](auto &&sizeOf, SmallVector<int64_t> &position) {
    for (size_t dim = numDims; dim-- > 0;) {
      if (++position[dim] < sizeOf(dim))
        return true;
      position[dim] = 0;
    }
    return false;
  };
  do {
    SmallVector<SmallVector<int64_t>, 4> targets;
    bool isAny = true;
    int64_t from = 0;
    for (size_t dim = 0; dim < numDims; ++dim) {
      targets.push_back(targetsOf(all.moves.steps[dim], sender[dim], mesh[dim], !all.isEnumerated[dim]));
      isAny &= !targets.back().empty();
      from += sender[dim] * all.placement.strideOf(dim);
      all.set(body->getArgument(unsigned(dim)), sender[dim]);
    }
    if (!isAny)
      continue;
    bool isKnown = false, isMoving = false, isFailed = false;
    double chunks = 0;
    SmallVector<int64_t> position(numDims, 0);
    do {
      if (--all.budget < 0 || all.moves.enumerated.size() > mostAtOnce)
        return refuse();
      int64_t to = 0;
      for (size_t dim = 0; dim < numDims; ++dim) {
        int64_t coordinate = targets[dim][size_t(position[dim])];
        if (all.isEnumerated[dim])
          to += coordinate * all.placement.strideOf(dim);
        if (isTransfer && !isKnown)
          all.set(body->getArgument(unsigned(numDims + dim)), coordinate);
      }
      if (!isKnown)
        isMoving = executeBody(all.evaluator, isFailed, chunks);
      if (isFailed)
        return failure();
      isKnown = !looksAtReceiver;
      if (isMoving)
        all.moves.enumerated.push_back({from, to, chunks * all.chunkShare});
      else if (isKnown)
        break;
    } while (advance([&](size_t dim) { return int64_t(targets[dim].size()); }, position));
  } while (advance([&](size_t dim) { return all.isEnumerated[dim] ? mesh[dim] : 1; }, sender));
  return success();
}

FailureOr<Moves> StatementMoves::evaluate(IndexEvaluator &evaluator, const LoadModel &model, const Placement &placement,
                                          double blocks, int64_t &budget) {
  Moves moves;
  moves.steps = stepKinds;
  if (failed(readSteps(evaluator, moves.steps)))
    return failure();
  bool isTold = isEnumerated(model);
  std::vector<bool> dims = isTold ? model.enumerated() : std::vector<bool>(stepKinds.size(), false);
  Enumeration all{evaluator, placement, dims, chunkShare(evaluator, blocks), budget, moves};
  if (failed(enumerate(all)))
    return failure();
  moves.isEnumerated = isTold || moves.enumerated.empty();
  if (!moves.isEnumerated) {
    moves.share = moves.enumerated.front().share;
    moves.enumerated.clear();
  }
  return moves;
}

} // namespace kolo::cost
