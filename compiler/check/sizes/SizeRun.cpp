// The loops of a run, and the induction over their iterations. SizeOrder.cpp has signals and waits, SizeAccesses.cpp
// moves, SizeCalls.cpp what comes before and after a call.
#include "compiler/check/sizes/SizeRun.h"
#include "compiler/SourceLine.h"

using namespace mlir;

namespace kolo::sizes {

/// What is followed with loops of fixed length unrolled, before it is said to be too much.
static constexpr int64_t mostSteps = int64_t(1) << 14;
/// Ranks that differ along other dimensions, of which each is followed.
static constexpr int64_t mostOrbits = 8;
/// Iterations that are taken one by one, before the general ones and after them, if those are not taken in pairs.
static constexpr int64_t fewestFirst = 2, mostFirst = 7, mostLast = 4;

/// Calls `visit` with all runs of a part of a state.
template <typename Visit> static void eachRuns(Knowledge &knowledge, Visit visit) {
  for (std::vector<Runs<Time>> &view : knowledge.views)
    for (Runs<Time> &runs : view)
      visit(runs);
}
template <typename Visit> static void eachRuns(Runs<Cell> &cells, Visit visit) {
  visit(cells);
  for (Run<Cell> &run : cells)
    for (auto &[orbit, readers] : run.value.readers)
      visit(readers);
}
template <typename Visit> static void eachRuns(Runs<Signal> &signals, Visit visit) {
  visit(signals);
  for (Run<Signal> &run : signals) {
    run.value.knowledge = std::make_shared<Knowledge>(*run.value.knowledge);
    eachRuns(*run.value.knowledge, visit);
  }
}
template <typename Visit> static void eachRuns(Runs<Puts> &puts, Visit visit) { visit(puts); }
template <typename Visit> static void eachRuns(PutFamily &family, Visit visit) {
  visit(family.flushed);
  visit(family.waited);
}

SizeRun::SizeRun(ProgramOp program, const Setting &setting) : program(program), setting(setting) {
  decisions.region.least = setting.least;
  decisions.residues = {setting.period, setting.rest, 0};
  for (auto [meshDim, size] : llvm::enumerate(setting.mesh)) {
    inner *= meshDim > setting.dim ? size : 1;
    numOrbits *= meshDim != setting.dim ? size : 1;
  }
  for (int64_t orbit = 0; orbit < std::min(numOrbits, mostOrbits); ++orbit) {
    SmallVector<int64_t, 4> &each = coordinates.emplace_back(setting.mesh.size(), 0);
    int64_t rest = orbit;
    for (size_t meshDim = setting.mesh.size(); meshDim-- > 0;)
      if (meshDim != setting.dim) {
        each[meshDim] = rest % setting.mesh[meshDim];
        rest /= setting.mesh[meshDim];
      }
  }
  for (const SmallVector<int64_t, 4> &each : coordinates)
    tables.emplace_back(setting.mesh, setting.dim, each, decisions);
}

bool SizeRun::fail(std::string what) {
  decisions.fail(std::move(what));
  return false;
}

/// Says where the proof ended.
bool SizeRun::failAt(Operation *op) {
  SourceLine line = sourceLineOf(op->getLoc());
  if (hasFailed() && !isLocated && line != SourceLine())
    *decisions.reason += " (" + line.file + ":" + std::to_string(line.line) + ")";
  isLocated = true;
  return false;
}

std::optional<std::string> SizeRun::run() {
  if (numOrbits > mostOrbits)
    return "more than " + std::to_string(mostOrbits) + " ranks that differ along other dimensions";
  if (defineBuffers()) {
    start();
    Mask all(size_t(numOrbits), true);
    for (currentCall = 0; currentCall < 2 && !hasFailed(); ++currentCall) {
      familyOf.clear();
      if (!startCall(currentCall) || !runBlock(program.getBody().front(), all) || !endCall(currentCall))
        break;
      if (!state.signals.empty())
        fail("a signal is not waited for in its call");
    }
  }
  return decisions.reason;
}

/// Nobody knows anything, and no chunk was accessed.
void SizeRun::start() {
  state.now = 0;
  for (int64_t orbit = 0; orbit < numOrbits; ++orbit) {
    state.knowledge.emplace_back();
    know(orbit, {-1}, {-1});
    std::vector<Shared<Runs<Cell>>> &cells = state.cells.emplace_back();
    for (const Buffer &buffer : buffers)
      for (size_t i = 0; i < buffer.numCells; ++i) {
        Cell cell;
        cell.isPlaceModSize = input && buffers[*input].isMoved;
        if (decisions.isLess(0, buffer.grownExtent()))
          cells.push_back(Runs<Cell>{{0, buffer.grownExtent(), cell}});
        else
          cells.emplace_back();
      }
  }
}

bool SizeRun::runBlock(Block &block, const Mask &mask) {
  return llvm::all_of(block, [&](Operation &op) { return runOp(op, mask); });
}

bool SizeRun::runOp(Operation &op, const Mask &mask) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return runLoop(loop, mask) || failAt(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return runBranch(branch, mask) || failAt(branch);
  if (auto fuse = dyn_cast<FuseOp>(op)) // its moves one after the other: see check/README.md
    return runBlock(fuse.getBody().front(), mask);
  if (isa<BufferOp, scf::YieldOp>(op))
    return true;
  bool isStep = isa<MoveInterface, DivideOp, SignalOp, WaitOp, FlushOp, EnterOp>(op);
  if (!isStep && op.getNumRegions() != 0)
    return fail("it is no flat program");
  if (isStep) {
    state.now = state.now + 1;
    if (++numSteps > mostSteps)
      return fail("it has more than " + std::to_string(mostSteps) + " steps, loops that do not grow being unrolled");
  }
  if (isa<EnterOp>(op))
    return enter(mask) || failAt(&op);
  for (int64_t orbit = 0; orbit < numOrbits; ++orbit) {
    if (!mask[size_t(orbit)])
      continue;
    if (!isStep)
      tables[size_t(orbit)].compute(&op);
    else if (!step(&op, orbit) || hasFailed())
      return failAt(&op);
  }
  return !hasFailed();
}

bool SizeRun::step(Operation *op, int64_t orbit) {
  if (auto each = dyn_cast<SignalOp>(op))
    return signal(each, orbit);
  if (auto each = dyn_cast<WaitOp>(op))
    return wait(each, orbit);
  if (auto each = dyn_cast<DivideOp>(op))
    return divide(each, orbit);
  if (auto each = dyn_cast<MoveInterface>(op))
    return move(each, orbit);
  flush(orbit);
  return true;
}

bool SizeRun::runBranch(scf::IfOp branch, const Mask &mask) {
  Mask then(mask.size()), otherwise(mask.size());
  for (size_t orbit = 0; orbit < mask.size(); ++orbit) {
    if (!mask[orbit])
      continue;
    std::optional<int64_t> condition = tables[orbit].at(branch.getCondition()).asConstant();
    if (!condition)
      return fail("a condition differs between ranks along the dimension, or between sizes");
    (*condition ? then : otherwise)[orbit] = true;
  }
  auto isAny = [](const Mask &each) { return llvm::is_contained(each, true); };
  return (!isAny(then) || runBlock(*branch.thenBlock(), then)) &&
         (!isAny(otherwise) || !branch.elseBlock() || runBlock(*branch.elseBlock(), otherwise));
}

bool SizeRun::runLoop(scf::ForOp loop, const Mask &mask) {
  std::optional<std::pair<int64_t, int64_t>> growing; // first, and n + last + 1 ends it
  bool isFixed = true;
  for (size_t orbit = 0; orbit < mask.size(); ++orbit) {
    if (!mask[orbit])
      continue;
    Index lower = tables[orbit].at(loop.getLowerBound()), upper = tables[orbit].at(loop.getUpperBound()),
          step = tables[orbit].at(loop.getStep());
    if (!lower.asConstant() || !upper.isSame() || !step.asConstant())
      return fail("the bounds of a loop are not affine in the size, or differ between ranks along the dimension");
    if (upper.asConstant())
      continue;
    isFixed = false;
    std::pair<int64_t, int64_t> bounds(*lower.asConstant(), upper.rest.constant - 1);
    if (upper.rest != Affine::n() + bounds.second + 1 || step.asConstant() != 1 || growing.value_or(bounds) != bounds)
      return fail("the bounds of a loop are not a constant, and the size plus a constant");
    growing = bounds;
  }
  if (isFixed)
    return runFixedLoop(loop, mask);
  if (growingLoop)
    return fail("a loop that grows with the size is inside of another one");
  growingLoop = loop;
  beforeLoop = state.knowledge; // shared
  familyOf.clear();
  const bool isDone = runGrowingLoopSomehow(loop, mask, growing->first, growing->second);
  growingLoop = {};
  familyOf.clear();
  return isDone;
}

/// With all that ranks know, or without news from one side. If nothing helps, the reason is that of the first attempt.
bool SizeRun::runGrowingLoopSomehow(scf::ForOp loop, const Mask &mask, int64_t first, int64_t last) {
  const State before = state;
  const size_t depth = iterations.size();
  std::optional<std::string> reason;
  bool isDone = false, wasLocated = false;
  constexpr std::optional<Knowledge::View> sides[] = {std::nullopt, Knowledge::FromNext, Knowledge::FromBefore};
  for (size_t i = 0; i < std::size(sides) && !isDone; ++i) {
    state = before;
    iterations.resize(depth);
    familyOf.clear();
    decisions.reason.reset();
    isLocated = false;
    forgottenSide = sides[i];
    isDone = runGrowingLoop(loop, mask, first, last);
    if (!isDone && i == 0) {
      reason = decisions.reason;
      wasLocated = isLocated;
    }
  }
  forgottenSide.reset();
  if (!isDone) {
    decisions.reason = reason;
    isLocated = wasLocated;
  }
  return isDone;
}

bool SizeRun::runFixedLoop(scf::ForOp loop, const Mask &mask) {
  bool isPipeline = setting.few && setting.few->isRounds(loop);
  iterations.push_back(0);
  for (int64_t number = 0;; ++number) {
    Mask left(mask.size());
    for (size_t orbit = 0; orbit < mask.size(); ++orbit) {
      if (!mask[orbit])
        continue;
      IndexTable &table = tables[orbit];
      int64_t lower = *table.at(loop.getLowerBound()).asConstant(), step = *table.at(loop.getStep()).asConstant();
      if (step < 1)
        return fail("a loop has no positive step");
      const int64_t upper = *table.at(loop.getUpperBound()).asConstant();
      if (number == 0 && (upper - lower) / step > mostSteps)
        return fail("a loop has more than " + std::to_string(mostSteps) + " iterations");
      left[orbit] = lower + number * step < upper;
      table.set(loop.getInductionVar(), Affine(lower + number * step));
    }
    if (!llvm::is_contained(left, true))
      break;
    iterations.back() = number;
    if (isPipeline)
      currentRound = number;
    if (!growingLoop)
      familyOf.clear();
    if (!runBlock(*loop.getBody(), left))
      return false;
  }
  iterations.pop_back();
  return true;
}

/// Whether the loop goes through all places along the dimension, in an order that nobody can tell: its iterations take
/// no steps but moves, and each writes nothing but chunks of its own place.
bool SizeRun::isOverAllPlaces(scf::ForOp loop) const {
  Value place = loop.getInductionVar();
  bool isUsed = false;
  auto isAtPlace = [&](Value buffer, OperandRange offsets, OperandRange sizes, bool isWritten) {
    const Buffer &info = buffers[bufferNumbers.at(buffer)];
    if (!info.grownDim || !info.isMoved)
      return !isWritten && !llvm::is_contained(offsets, place);
    for (auto [gridDim, offset] : llvm::enumerate(offsets))
      if ((offset == place) != (gridDim == *info.grownDim))
        return false;
    isUsed = true;
    return !isRanged(sizes[*info.grownDim]) && !llvm::is_contained(sizes, place);
  };
  WalkResult result = loop.getBody()->walk([&](Operation *op) {
    bool isFine = true;
    if (auto move = dyn_cast<MoveInterface>(op))
      isFine = place != move.getSourceRank() && place != move.getDestinationRank() && place != move.getPart() &&
               isAtPlace(move.getSource(), move.getSourceOffsets(), move.getSourceSizes(), false) &&
               isAtPlace(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes(), true);
    else if (auto divide = dyn_cast<DivideOp>(op))
      isFine = isAtPlace(divide.getBuffer(), divide.getOffsets(), divide.getSizes(), true);
    else if (isa<SignalOp, WaitOp, FlushOp, EnterOp>(op))
      isFine = false;
    else if (!isa<FuseOp>(op))
      isFine = !llvm::is_contained(op->getOperands(), place);
    return isFine ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted() && isUsed;
}

bool SizeRun::runIteration(scf::ForOp loop, const Mask &mask, const Affine &iteration) {
  Index index(iteration);
  const IndexTable &any = tables[size_t(llvm::find(mask, true) - mask.begin())];
  bool coversPlaces = any.at(loop.getLowerBound()).rest == Affine() && any.at(loop.getUpperBound()).rest == Affine::n();
  if (coversPlaces && isOverAllPlaces(loop)) { // which every rank may begin with its own
    index = Index();
    index.scale = 1;
    index.part = iteration;
  }
  for (size_t orbit = 0; orbit < mask.size(); ++orbit)
    if (mask[orbit])
      tables[orbit].set(loop.getInductionVar(), index);
  return runBlock(*loop.getBody(), mask);
}

bool SizeRun::runIterations(scf::ForOp loop, const Mask &mask, const Affine &first, int64_t number) {
  for (int64_t i = 0; i < number; ++i)
    if (!runIteration(loop, mask, first + i))
      return false;
  return true;
}

/// What the state before iteration s is, if it grows from period to period as the last three did: the last one is that
/// before iteration `at`, and s is a number of periods from there.
std::optional<SizeRun::General> SizeRun::generalise(State &first, State &second, State &third, int64_t at) const {
  General general{third, {}};
  bool isEven = true;
  auto grow = [&](const Affine &x, const Affine &y, const Affine &z) {
    Affine more = y - x;
    isEven &= more.isConstant() && z - y == more && more.constant % setting.period == 0;
    return more.constant / setting.period;
  };
  general.state.now = third.now + (Affine::s() - at) * grow(first.now, second.now, third.now);
  bool haveSameParts = eachPart(
      [&](auto &part, const auto &x, const auto &y, const auto &z) {
        general.isGrowing.push_back(false);
        if (!isEven || (x.isSame(y) && y.isSame(z)))
          return;
        Flat a = flatten(*x), b = flatten(*y), c = flatten(*z);
        isEven &= a.shapes == b.shapes && b.shapes == c.shapes && a.numbers.size() == c.numbers.size();
        std::vector<int64_t> growth;
        for (size_t i = 0; isEven && i < a.numbers.size(); ++i)
          growth.push_back(grow(a.numbers[i].first, b.numbers[i].first, c.numbers[i].first));
        if (!isEven || llvm::all_of(growth, [](int64_t each) { return each == 0; }))
          return;
        general.isGrowing.back() = true;
        size_t i = 0;
        changeNumbers(part.change(), [&](const Affine &number) { return number + (Affine::s() - at) * growth[i++]; });
      },
      general.state, first, second, third);
  return haveSameParts && isEven ? std::optional(std::move(general)) : std::nullopt;
}

/// To the state before round `round`: runs that have no place there are gone. False where that depends on n.
bool SizeRun::enterRound(General general, const Affine &round) {
  state = std::move(general.state);
  state.now = state.now.inRound(round);
  size_t number = 0;
  eachPart(
      [&](auto &part) {
        if (!general.isGrowing[number++])
          return;
        changeNumbers(part.change(), [&](const Affine &each) { return each.inRound(round); });
        eachRuns(part.change(), [&](auto &runs) {
          std::erase_if(runs, [](const auto &run) { return run.begin == run.end; });
          for (const auto &run : runs)
            if (!decisions.isLess(run.begin, run.end))
              fail("nothing shows whether a run of places is empty");
          normalise(runs);
        });
      },
      state);
  std::erase_if(state.signals, [](const auto &entry) { return entry.second->empty(); });
  std::erase_if(state.uncovered, [](const auto &entry) { return entry.second->empty(); });
  return !hasFailed();
}

/// Whether a period of iterations takes the state before iteration s to that before s + period, for all s of the
/// region.
bool SizeRun::isInduction(scf::ForOp loop, const Mask &mask, const General &general) {
  state = general.state;
  bool areRuns = true;
  size_t number = 0;
  eachPart(
      [&](auto &part) {
        if (general.isGrowing[number++])
          eachRuns(part.change(), [&](auto &runs) {
            for (const auto &run : runs)
              areRuns &= decisions.region.isAtLeast(run.end - run.begin, 1);
          });
      },
      state);
  if (!areRuns)
    return fail("a run of places is empty in some iteration");
  if (!runIterations(loop, mask, Affine::s(), setting.period))
    return false;
  const Affine next = Affine::s() + setting.period;
  State wanted = general.state;
  bool isReached = state.now == wanted.now.inRound(next);
  number = 0;
  isReached &= eachPart(
      [&](auto &part, const auto &reached) {
        bool isGrowing = general.isGrowing[number++];
        if (!isReached || (!isGrowing && part.isSame(reached)))
          return;
        if (isGrowing)
          changeNumbers(part.change(), [&](const Affine &each) { return each.inRound(next); });
        isReached = flatten(*part) == flatten(*reached);
      },
      wanted, state);
  return isReached || fail("the iterations of a loop do not repeat");
}

/// From `first` to n + `last`. The first few iterations show what the general ones do; they are proved by induction.
bool SizeRun::runGrowingLoop(scf::ForOp loop, const Mask &mask, int64_t first, int64_t last) {
  const int64_t period = setting.period;
  const size_t depth = iterations.size();
  std::vector<State> states = {state};
  std::optional<std::string> reason;
  bool wasLocated = false;
  for (int64_t numFirst = 1; numFirst <= mostFirst * period; ++numFirst) {
    state = states.back();
    if (!runIteration(loop, mask, first + numFirst - 1))
      return false;
    states.push_back(state);
    if (numFirst < fewestFirst * period)
      continue;
    const int64_t at = first + numFirst;
    State *latest = &states.back();
    std::optional<General> general = generalise(latest[-2 * period], latest[-period], latest[0], at);
    for (int64_t numLast = 0; general && numLast <= mostLast * period; ++numLast) {
      const int64_t end = last - numLast + 1; // n + end is the first iteration after the general ones
      if ((setting.rest + end - at) % period != 0)
        continue;
      decisions.region.firstRound = at;
      decisions.region.lastRound = end - period;
      decisions.residues.round = at;
      auto families = familyOf;
      bool isProved = !decisions.region.isEmpty() && isInduction(loop, mask, *general);
      decisions.region.firstRound.reset();
      if (isProved)
        return enterRound(std::move(*general), Affine::n() + end) &&
               runIterations(loop, mask, Affine::n() + end, numLast);
      reason = std::exchange(decisions.reason, std::nullopt);
      wasLocated = std::exchange(isLocated, false);
      iterations.resize(depth);
      familyOf = std::move(families);
    }
  }
  fail(reason ? *reason : "the state of a loop does not grow evenly from iteration to iteration");
  isLocated = wasLocated;
  return false;
}

} // namespace kolo::sizes
