// Finds the loop by what depends on its round, and compares the steps of all slices.
#include "compiler/check/SliceInduction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

#include <map>

using namespace mlir;

namespace kolo {

/// Follows the round through one loop.
class PipelineFinder {
public:
  PipelineFinder(ProgramOp program, scf::ForOp loop) : program(program), loop(loop) {}
  std::optional<SlicePipeline> run();

private:
  /// A number that depends on the round t.
  enum class Kind {
    Slice,  // t - phase
    Lower,  // t - phase >= 0
    Upper,  // t - phase < slices
    Inside, // both
    Scaled, // (t - phase) * lanes
    Part    // (t - phase) * lanes + lane
  };
  struct Number {
    Kind kind;
    int64_t phase;
  };

  std::optional<Number> numberOf(Operation *op);
  std::optional<Number> comparisonOf(arith::CmpIOp comparison);
  std::optional<Number> sumOf(Operation *op);
  std::optional<Number> find(Value value) const {
    auto found = numbers.find(value);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  }
  bool isSlices(OpOperand &operand);
  bool isPhase(scf::IfOp branch);
  bool addStep(Operation *op);
  bool isSliced(Value part, Value parts, int64_t phase);
  bool follow(Operation *op);
  bool movesNoPartsElsewhere();

  ProgramOp program;
  scf::ForOp loop;
  SlicePipeline pipeline;
  std::optional<int64_t> numSlices;
  llvm::DenseMap<Value, Number> numbers;
};

static bool isStep(Operation *op) { return isa<MoveInterface, DivideOp, SignalOp, WaitOp, FlushOp, EnterOp>(op); }

static std::pair<Value, Value> partOf(Operation *op) {
  if (auto move = dyn_cast<MoveInterface>(op))
    return {move.getPart(), move.getParts()};
  if (auto divide = dyn_cast<DivideOp>(op))
    return {divide.getPart(), divide.getParts()};
  if (auto fuse = dyn_cast<FuseOp>(op))
    return {fuse.getPart(), fuse.getParts()};
  return {};
}

/// Whether an operand is the number of slices, which it is from then on if none was seen before.
bool PipelineFinder::isSlices(OpOperand &operand) {
  std::optional<int64_t> value = getConstantIntValue(operand.get());
  if (!value || *value != numSlices.value_or(*value))
    return false;
  numSlices = value;
  if (!llvm::is_contained(pipeline.numbersOfSlices, &operand))
    pipeline.numbersOfSlices.push_back(&operand);
  return true;
}

std::optional<PipelineFinder::Number> PipelineFinder::comparisonOf(arith::CmpIOp comparison) {
  std::optional<Number> slice = find(comparison.getLhs());
  if (!slice || slice->kind != Kind::Slice)
    return std::nullopt;
  if (comparison.getPredicate() == arith::CmpIPredicate::sge && isZeroInteger(comparison.getRhs()))
    return Number{Kind::Lower, slice->phase};
  if (comparison.getPredicate() == arith::CmpIPredicate::slt && isSlices(comparison->getOpOperand(1)))
    return Number{Kind::Upper, slice->phase};
  return std::nullopt;
}

/// Of a sum, a difference or a product.
std::optional<PipelineFinder::Number> PipelineFinder::sumOf(Operation *op) {
  Value left = op->getOperand(0), right = op->getOperand(1);
  if (std::optional<Number> a = find(left), b = find(right); a && b)
    return std::nullopt;
  else if (!a && !isa<arith::SubIOp>(op))
    std::swap(left, right);
  std::optional<Number> number = find(left);
  if (!number)
    return std::nullopt;
  std::optional<int64_t> constant = getConstantIntValue(right);
  if (number->kind == Kind::Slice && constant && isa<arith::AddIOp, arith::SubIOp>(op))
    return Number{Kind::Slice, number->phase + (isa<arith::SubIOp>(op) ? *constant : -*constant)};
  if (number->kind == Kind::Slice && isa<arith::MulIOp>(op) && right.getDefiningOp<NumLanesOp>())
    return Number{Kind::Scaled, number->phase};
  if (number->kind == Kind::Scaled && isa<arith::AddIOp>(op) && right.getDefiningOp<LaneOp>())
    return Number{Kind::Part, number->phase};
  return std::nullopt;
}

std::optional<PipelineFinder::Number> PipelineFinder::numberOf(Operation *op) {
  if (auto comparison = dyn_cast<arith::CmpIOp>(op))
    return comparisonOf(comparison);
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return sumOf(op);
  if (isa<arith::AndIOp>(op)) {
    std::optional<Number> a = find(op->getOperand(0)), b = find(op->getOperand(1));
    bool isBoth =
        a && b && a->phase == b->phase &&
        ((a->kind == Kind::Lower && b->kind == Kind::Upper) || (a->kind == Kind::Upper && b->kind == Kind::Lower));
    return isBoth ? std::optional(Number{Kind::Inside, a->phase}) : std::nullopt;
  }
  return std::nullopt;
}

/// Where the first phase cannot come too early, one comparison is enough.
bool PipelineFinder::isPhase(scf::IfOp branch) {
  std::optional<Number> condition = find(branch.getCondition());
  bool isWhole =
      condition && (condition->kind == Kind::Inside || (condition->kind == Kind::Upper && condition->phase == 0));
  if (!isWhole || condition->phase < 0 || branch->getParentOp() != loop || branch.elseBlock())
    return false;
  pipeline.phases = std::max(pipeline.phases, condition->phase + 1);
  return true;
}

bool PipelineFinder::isSliced(Value part, Value parts, int64_t phase) {
  std::optional<Number> number = part ? find(part) : std::nullopt;
  auto product = parts ? parts.getDefiningOp<arith::MulIOp>() : nullptr;
  if (!number || number->kind != Kind::Part || number->phase != phase || !product)
    return false;
  bool isScaledLeft = product.getRhs().getDefiningOp<NumLanesOp>() != nullptr;
  bool isProduct = isScaledLeft || product.getLhs().getDefiningOp<NumLanesOp>();
  auto isPartOnly = [](Operation *user) { return partOf(user).second != nullptr; };
  return isProduct && llvm::all_of(product->getUsers(), isPartOnly) &&
         isSlices(product->getOpOperand(isScaledLeft ? 0 : 1));
}

/// In a phase; a move takes the slice of that phase.
bool PipelineFinder::addStep(Operation *op) {
  Operation *branch = op;
  while (branch->getParentOp() != loop)
    branch = branch->getParentOp();
  auto phase = dyn_cast<scf::IfOp>(branch);
  std::optional<Number> condition = phase ? find(phase.getCondition()) : std::nullopt;
  if (!condition)
    return false;
  if (isa<MoveInterface, DivideOp, FuseOp>(op)) {
    auto [part, parts] = partOf(op);
    if (!isSliced(part, parts, condition->phase))
      return false;
  }
  pipeline.phaseOf[op] = condition->phase;
  return !isa<EnterOp>(op);
}

bool PipelineFinder::follow(Operation *op) {
  if (isStep(op) || isa<FuseOp>(op))
    return addStep(op);
  auto dependsOnRound = [&](Value operand) { return numbers.contains(operand); };
  if (llvm::none_of(op->getOperands(), dependsOnRound))
    return true;
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return isPhase(branch);
  std::optional<Number> number = numberOf(op);
  if (number)
    numbers.try_emplace(op->getResult(0), *number);
  return number.has_value();
}

/// What moves slices moves them in the loop, and packets and published buffers take turns that the proof does not look
/// at.
bool PipelineFinder::movesNoPartsElsewhere() {
  return !program
              .walk([&](Operation *op) {
                auto buffer = dyn_cast<BufferOp>(op);
                bool takesTurns =
                    buffer && (buffer.getRole() == BufferRole::Packets || buffer.getRole() == BufferRole::Published);
                auto [part, parts] = partOf(op);
                bool isSlice = part && !(part.getDefiningOp<LaneOp>() && parts.getDefiningOp<NumLanesOp>());
                bool isElsewhere = isSlice && !loop->isProperAncestor(op);
                return takesTurns || isElsewhere ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

std::optional<SlicePipeline> PipelineFinder::run() {
  std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound()),
                         upper = getConstantIntValue(loop.getUpperBound()), step = getConstantIntValue(loop.getStep());
  if (lower != 0 || !upper || step != 1 || loop.getNumRegionIterArgs() != 0)
    return std::nullopt;
  numbers[loop.getInductionVar()] = {Kind::Slice, 0};
  WalkResult result = loop.getBody()->walk<WalkOrder::PreOrder>(
      [&](Operation *op) { return follow(op) ? WalkResult::advance() : WalkResult::interrupt(); });
  if (result.wasInterrupted() || !numSlices || pipeline.phases == 0 || *upper < *numSlices + pipeline.phases - 1 ||
      !movesNoPartsElsewhere())
    return std::nullopt;
  pipeline.rounds = loop;
  pipeline.slices = *numSlices;
  return std::move(pipeline);
}

std::optional<SlicePipeline> SlicePipeline::find(ProgramOp program) {
  for (auto loop : program.getBody().getOps<scf::ForOp>())
    if (std::optional<SlicePipeline> pipeline = PipelineFinder(program, loop).run())
      return pipeline;
  return std::nullopt;
}

void SlicePipeline::setNumSlices(int64_t number) {
  OpBuilder builder(rounds);
  int64_t numRounds = *getConstantIntValue(rounds.getUpperBound()) + number - slices;
  for (OpOperand *operand : numbersOfSlices) {
    builder.setInsertionPoint(operand->getOwner());
    operand->set(arith::ConstantIndexOp::create(builder, rounds.getLoc(), number));
  }
  builder.setInsertionPoint(rounds);
  rounds.setUpperBound(arith::ConstantIndexOp::create(builder, rounds.getLoc(), numRounds));
  slices = number;
}

static bool isSameBox(const Trace &trace, const Box &a, const Box &b, size_t numDims) {
  return a.buffer == b.buffer && trace.numbersOf(a, numDims) == trace.numbersOf(b, numDims);
}

/// But for the part of every chunk.
static bool isSameStep(const Tracer &tracer, const Trace &trace, const Event &a, const Event &b) {
  auto numDims = [&](const Box &box) { return tracer.grids()[box.buffer].extents.size(); };
  const OpInfo &info = tracer.program().ops[a.op];
  if (a.op != b.op || a.peer != b.peer)
    return false;
  if (info.isMove() && !isSameBox(trace, a.source, b.source, numDims(a.source)))
    return false;
  return (!info.isMove() && info.kind != EventKind::Divide) ||
         isSameBox(trace, a.destination, b.destination, numDims(a.destination));
}

/// Of every step of a trace. Nothing if the slices of a phase take different steps.
std::optional<std::vector<SlicePipeline::SlicePhase>> SlicePipeline::findPhases(const Tracer &tracer,
                                                                                const Trace &trace) const {
  std::vector<std::vector<size_t>> steps(static_cast<size_t>(phases)); // by phase
  std::vector<SlicePhase> places(trace.events.size());
  for (auto [number, event] : llvm::enumerate(trace.events))
    if (auto phase = phaseOf.find(tracer.program().ops[event.op].op); phase != phaseOf.end()) {
      places[number].phase = phase->second;
      steps[size_t(phase->second)].push_back(number);
    }
  for (const std::vector<size_t> &ofPhase : steps) {
    size_t perSlice = ofPhase.size() / size_t(slices);
    if (ofPhase.size() % size_t(slices) != 0)
      return std::nullopt;
    for (auto [number, place] : llvm::enumerate(ofPhase)) {
      places[place].slice = int64_t(number / perSlice);
      const Event &event = trace.events[place], &first = trace.events[ofPhase[number % perSlice]];
      bool isMoved = event.kind == EventKind::Divide || tracer.program().ops[event.op].isMove();
      if (!isSameStep(tracer, trace, event, first) || (isMoved && event.part != places[place].slice))
        return std::nullopt;
    }
  }
  return places;
}

bool SlicePipeline::areSlicesAlike(const Tracer &tracer, const TracedGroup &traced) const {
  struct Ends {
    std::vector<SlicePhase> signals, waits;
  };
  const RankGroup &group = traced.group;
  std::map<Channel, Ends> channels;
  for (auto [orbit, trace] : llvm::enumerate(traced.traces)) {
    std::optional<std::vector<SlicePhase>> places = findPhases(tracer, trace);
    if (!places)
      return false;
    int64_t rank = group.representatives()[orbit];
    for (auto [event, place] : llvm::zip_equal(trace.events, *places)) {
      if (event.kind != EventKind::Signal && event.kind != EventKind::Wait)
        continue;
      Ends &ends = channels[group.channelOf(rank, event)];
      (event.kind == EventKind::Signal ? ends.signals : ends.waits).push_back(place);
    }
  }
  auto isMatched = [](const SlicePhase &signal, const SlicePhase &wait) {
    bool isOutside = signal.phase < 0 && wait.phase < 0;
    bool isInside = signal.phase >= 0 && signal.slice == wait.slice && wait.phase >= signal.phase;
    return isOutside || isInside;
  };
  return llvm::all_of(channels, [&](const auto &channel) {
    const Ends &ends = channel.second;
    return ends.signals.size() == ends.waits.size() && llvm::equal(ends.signals, ends.waits, isMatched);
  });
}

} // namespace kolo
