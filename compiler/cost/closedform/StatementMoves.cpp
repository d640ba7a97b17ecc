#include "compiler/cost/closedform/StatementMoves.h"
#include "compiler/cost/closedform/AlikeRanks.h"
#include "compiler/cost/closedform/ClosedForm.h"

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
  llvm::SmallPtrSet<Operation *, 16> users;
  for (Operation &op : *body)
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          auto argument = dyn_cast<BlockArgument>(operand);
          return argument ? argument.getOwner() == body : users.contains(operand.getDefiningOp());
        })) {
      users.insert(&op);
      ofArguments.push_back(&op);
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

bool StatementMoves::staysInNode(const LoadModel &model) const {
  if (!model.isAligned())
    return false;
  for (size_t dim = 0; dim < stepKinds.size(); ++dim)
    if (!model.isInNode(dim) && (model.enumerated()[dim] || stepKinds[dim].along != Along::Keep))
      return false;
  return true;
}

bool StatementMoves::isAlike(IndexRanges &ranges) {
  for (Operation &op : *body)
    ranges.execute(&op);
  auto isOne = [&](Value value) { return ranges.isOne(value); };
  auto transfer = dyn_cast<TransferOp>(statement.getOperation());
  return llvm::all_of(sizes, isOne) && (!condition || isOne(condition)) &&
         (!transfer || llvm::all_of(transfer.getAmounts(), isOne));
}

/// A flip of a dimension whose size is a multiple of twice the mask's highest bit stays inside.
static bool flipStaysInside(int64_t mask, int64_t size) {
  return mask == 0 || (mask > 0 && size % (2 * int64_t(llvm::bit_floor(uint64_t(mask)))) == 0);
}

/// Whether the step leads from every coordinate to another one.
static bool staysInside(const DimStep &step, int64_t size) {
  if (step.along == Along::At)
    return step.amount >= 0 && step.amount < size;
  return step.along != Along::Flip || flipStaysInside(step.amount, size);
}

static StringRef nameOf(TransferOp transfer, size_t dim) {
  return cast<StringAttr>(enclosingProgram(transfer).mesh[dim]).getValue();
}

LogicalResult StatementMoves::refuseStep(const DimStep &step, size_t dim, int64_t size) {
  auto transfer = cast<TransferOp>(statement.getOperation());
  StringRef name = nameOf(transfer, dim);
  if (step.along == Along::At)
    return transfer.emitError() << "at(" << name << ", " << step.amount << "), but " << name << " has " << size
                                << " ranks";
  return transfer.emitError() << "flip(" << name << ", " << step.amount << ") leads out of the " << size << " ranks of "
                              << name << "; the size must be a power of two";
}

LogicalResult StatementMoves::readSteps(IndexEvaluator &evaluator, std::vector<DimStep> &steps) {
  auto transfer = dyn_cast<TransferOp>(statement.getOperation());
  size_t operand = 0;
  for (size_t dim = 0; transfer && dim < steps.size(); ++dim) {
    DimStep &step = steps[dim];
    int64_t size = evaluator.mesh()[dim];
    if (hasAmount(step.along))
      step.amount = evaluator.get(transfer.getAmounts()[operand++]);
    if (!condition && !staysInside(step, size))
      return refuseStep(step, dim, size);
    StringRef name = nameOf(transfer, dim);
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

namespace {

/// Coordinates of a sender's receivers along a dimension: `count` of them, one after the other, around the extent.
struct Targets {
  int64_t first, count, extent;

  int64_t operator[](int64_t number) const { return (first + number) % extent; }
};

} // namespace

/// The coordinates that a step leads to; of a dimension that is counted: one of them.
static Targets targetsOf(const DimStep &step, int64_t coordinate, int64_t size, bool isCounted) {
  auto one = [&](int64_t target) { return Targets{target, 1, INT64_MAX}; }; // perhaps outside of the mesh
  switch (step.along) {
  case Along::Keep:
    return one(coordinate);
  case Along::Next:
    return one(((coordinate + step.amount) % size + size) % size);
  case Along::Flip:
    return one(coordinate ^ step.amount);
  case Along::At:
    return one(step.amount);
  case Along::Mapped:
    return one(step.table[size_t(coordinate)]);
  case Along::Others:
    break;
  }
  return {coordinate + 1, isCounted ? std::min<int64_t>(size - 1, 1) : size - 1, size};
}

/// Moves of one execution that are kept in memory.
static constexpr size_t mostAtOnce = size_t(1) << 22;

/// Goes through the combinations of coordinates along the enumerated dimensions; if there are none, one move stands for
/// all.
class StatementMoves::Enumeration {
public:
  Enumeration(StatementMoves &of, IndexEvaluator &evaluator, const Placement &placement,
              const std::vector<bool> &isEnumerated, int64_t &budget, Moves &moves)
      : of(of), evaluator(evaluator), placement(placement), isEnumerated(isEnumerated), budget(budget), moves(moves),
        numDims(of.stepKinds.size()), looksAtReceiver(llvm::is_contained(of.ofReceiver, true)), sender(numDims, 0) {}

  LogicalResult run(double chunkShare);

private:
  LogicalResult refuse();
  double numLooks() const;
  bool findTargets();
  LogicalResult addMovesOfSender(double chunkShare);
  int64_t setReceiver(ArrayRef<int64_t> position, bool isNeeded);
  LogicalResult checkReceiver(ArrayRef<int64_t> position);

  StatementMoves &of;
  IndexEvaluator &evaluator;
  const Placement &placement;
  const std::vector<bool> &isEnumerated;
  int64_t &budget;
  Moves &moves;
  size_t numDims;
  bool looksAtReceiver;
  SmallVector<int64_t> sender;
  SmallVector<Targets, 4> targets; // of this sender, by dimension
};

LogicalResult StatementMoves::Enumeration::refuse() {
  return of.statement.emitError() << "what moves here depends on the rank, and on this mesh there are more ranks and "
                                     "peers than can be looked at one by one";
}

/// How often the body is executed at most.
double StatementMoves::Enumeration::numLooks() const {
  double result = 1;
  for (size_t dim = 0; dim < numDims; ++dim) {
    auto size = double(evaluator.mesh()[dim]);
    bool isFan = looksAtReceiver && of.stepKinds[dim].along == Along::Others;
    result *= isEnumerated[dim] ? size * (isFan ? size - 1 : 1) : 1;
  }
  return result;
}

/// Sets the sender's coordinates. False where it has no peer.
bool StatementMoves::Enumeration::findTargets() {
  targets.clear();
  for (size_t dim = 0; dim < numDims; ++dim) {
    targets.push_back(targetsOf(moves.steps[dim], sender[dim], evaluator.mesh()[dim], !isEnumerated[dim]));
    if (targets.back().count == 0)
      return false;
    evaluator.set(of.body->getArgument(unsigned(dim)), sender[dim]);
  }
  return true;
}

/// Gives the enumerated dimensions' part of its position.
int64_t StatementMoves::Enumeration::setReceiver(ArrayRef<int64_t> position, bool isNeeded) {
  int64_t result = 0;
  for (size_t dim = 0; dim < numDims; ++dim) {
    int64_t coordinate = targets[dim][position[dim]];
    if (isEnumerated[dim])
      result += coordinate * placement.strideOf(dim);
    if (isNeeded)
      evaluator.set(of.body->getArgument(unsigned(numDims + dim)), coordinate);
  }
  return result;
}

/// Of a move that takes place. Along dimensions that are counted it takes place for all coordinates.
LogicalResult StatementMoves::Enumeration::checkReceiver(ArrayRef<int64_t> position) {
  for (size_t dim = 0; dim < numDims; ++dim) {
    int64_t size = evaluator.mesh()[dim], target = targets[dim][position[dim]];
    if (isEnumerated[dim] ? target < 0 || target >= size : !staysInside(moves.steps[dim], size))
      return of.refuseStep(moves.steps[dim], dim, size);
  }
  return success();
}

/// The next combination of numbers below the sizes; false after the last.
static bool advance(MutableArrayRef<int64_t> position, function_ref<int64_t(size_t)> sizeOf) {
  for (size_t dim = position.size(); dim-- > 0;) {
    if (++position[dim] < sizeOf(dim))
      return true;
    position[dim] = 0;
  }
  return false;
}

LogicalResult StatementMoves::Enumeration::addMovesOfSender(double chunkShare) {
  bool isTransfer = isa<TransferOp>(of.statement.getOperation()), isKnown = false, isMoving = false, isFailed = false;
  double chunks = 0;
  int64_t from = 0;
  for (size_t dim = 0; dim < numDims; ++dim)
    from += sender[dim] * placement.strideOf(dim);
  SmallVector<int64_t> position(numDims, 0);
  do {
    if (--budget < 0 || moves.enumerated.size() > mostAtOnce)
      return refuse();
    int64_t to = setReceiver(position, isTransfer && !isKnown);
    if (!isKnown)
      isMoving = of.executeBody(evaluator, isFailed, chunks);
    if (isFailed)
      return failure();
    isKnown = !looksAtReceiver;
    if (isMoving && failed(checkReceiver(position)))
      return failure();
    if (isMoving)
      moves.enumerated.push_back({from, to, chunks * chunkShare});
    else if (isKnown)
      break;
  } while (advance(position, [&](size_t dim) { return targets[dim].count; }));
  return success();
}

LogicalResult StatementMoves::Enumeration::run(double chunkShare) {
  if (numLooks() > double(budget))
    return refuse();
  do {
    if (findTargets() && failed(addMovesOfSender(chunkShare)))
      return failure();
  } while (advance(sender, [&](size_t dim) { return isEnumerated[dim] ? evaluator.mesh()[dim] : 1; }));
  return success();
}

FailureOr<Moves> StatementMoves::evaluate(IndexEvaluator &evaluator, const LoadModel &model, const Placement &placement,
                                          double blocks, int64_t &budget) {
  Moves moves;
  moves.steps = stepKinds;
  if (failed(readSteps(evaluator, moves.steps)))
    return failure();
  bool isTold = isEnumerated(model);
  if (isTold && model.takesAlikeMoves()) {
    FailureOr<bool> areAlike = AlikeRanks(*this, evaluator, moves).find(chunkShare(evaluator, blocks), budget);
    if (failed(areAlike))
      return failure();
    moves.isEnumerated = true;
    if (*areAlike)
      return moves;
  }
  std::vector<bool> dims = isTold ? model.enumerated() : std::vector<bool>(stepKinds.size(), false);
  if (failed(Enumeration(*this, evaluator, placement, dims, budget, moves).run(chunkShare(evaluator, blocks))))
    return failure();
  moves.isEnumerated = isTold || moves.enumerated.empty();
  if (!moves.isEnumerated) {
    moves.share = moves.enumerated.front().share;
    moves.enumerated.clear();
  }
  return moves;
}

static Access accessTo(Value buffer, OperandRange offsets, OperandRange sizes, int64_t rank,
                       const IndexEvaluator &evaluator) {
  Access access{rank, buffer, {}};
  for (auto [offset, size, extent] : llvm::zip_equal(offsets, sizes, buffer.getDefiningOp<BufferOp>().getGrid()))
    access.dims.push_back({evaluator.get(offset), evaluator.get(size), evaluator.get(extent)});
  return access;
}

FailureOr<Accesses> StatementMoves::accesses(IndexEvaluator &evaluator, const Placement &placement,
                                             const Moves &moves) {
  Accesses result;
  SlicesOp slices = slicesOf(statement);
  size_t numDims = stepKinds.size();
  for (const EnumeratedMoves &move : moves.enumerated) {
    for (size_t dim = 0; dim < numDims; ++dim) {
      int64_t size = evaluator.mesh()[dim], stride = placement.strideOf(dim);
      evaluator.set(body->getArgument(unsigned(dim)), move.from / stride % size);
      if (body->getNumArguments() > numDims)
        evaluator.set(body->getArgument(unsigned(numDims + dim)), move.to / stride % size);
    }
    if (failed(evaluator.execute(*body)))
      return failure();
    result.read.push_back(
        accessTo(statement.getSource(), slices.getSourceOffsets(), slices.getSourceSizes(), move.from, evaluator));
    result.written.push_back(accessTo(statement.getDestination(), slices.getDestinationOffsets(),
                                      slices.getDestinationSizes(), move.to, evaluator));
  }
  return result;
}

/// Whether ranges have a coordinate in common; each wraps around its extent.
static bool overlap(const std::array<int64_t, 3> &one, const std::array<int64_t, 3> &other) {
  auto [offset, size, extent] = one;
  int64_t ahead = ((other[0] - offset) % extent + extent) % extent;
  return ahead < size || (ahead > 0 && extent - ahead < other[1]);
}

bool overlap(ArrayRef<Access> some, ArrayRef<Access> others) {
  auto areOne = [](const Access &one, const Access &other) {
    return one.rank == other.rank && one.buffer == other.buffer &&
           llvm::all_of(llvm::zip_equal(one.dims, other.dims),
                        [](const auto &dims) { return overlap(std::get<0>(dims), std::get<1>(dims)); });
  };
  return llvm::any_of(some, [&](const Access &one) {
    return llvm::any_of(others, [&](const Access &other) { return areOne(one, other); });
  });
}

} // namespace kolo::cost
