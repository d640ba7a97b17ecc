// The scheduler: which lane, application or pending transfer makes the next step, at random.
#include "ir/reference/ChannelInterpreter.h"
#include "ir/reference/Conversion.h"

using namespace mlir;

namespace kolo::reference {

ChannelInterpreter::ChannelInterpreter(ProgramOp program, SimulatedCall &simulated, uint64_t seed,
                                       const ChannelOptions &options)
    : program(program), simulated(simulated), options(options), memory(simulated, program), random(seed),
      numRanks(reference::numRanks(simulated)), ranks(numRanks),
      semaphores(program.getSemaphores() * numRanks * numRanks * simulated.numLanes),
      queues(numRanks * simulated.numLanes * numRanks), finalOutputs(numRanks) {
  for (int64_t rank = 0; rank < numRanks; ++rank)
    for (int64_t number = 0; number < simulated.numLanes; ++number) {
      lanes.push_back(std::make_unique<Lane>());
      lanes.back()->rank = rank;
      lanes.back()->number = number;
    }
  speeds.resize(lanes.size() + numRanks);
  redrawSpeeds();
}

/// From 0 up to, not including, 1. std::generate_canonical computes logarithms at every call, a fifth of a run's time.
static double drawFraction(std::mt19937_64 &random) { return double(random() >> 11) * 0x1p-53; }

/// Very unequal speeds make one rank run far ahead of another, and pending transfers arrive very late or at once: that
/// is where missing synchronisation shows.
void ChannelInterpreter::redrawSpeeds() {
  static constexpr double choices[] = {1, 1, 30, 1000};
  static constexpr double shares[] = {0.01, 0.1, 0.5, 0.95};
  for (double &speed : speeds)
    speed = choices[random() % std::size(choices)];
  deliveryShare = shares[random() % std::size(shares)];
}

/// Runners are numbered: every lane, then, past them, every rank's application, which starts invocations.
bool ChannelInterpreter::canRun(int64_t runner) const {
  if (runner < int64_t(lanes.size()))
    return lanes[runner]->walker && !isBlocked(*lanes[runner]);
  const RankState &rank = ranks[runner - lanes.size()];
  return rank.numLanesRunning == 0 && rank.numStarted < options.numInvocations;
}

std::optional<int64_t> ChannelInterpreter::pickRunner() {
  double total = 0;
  std::vector<std::pair<double, int64_t>> candidates;
  for (int64_t runner = 0; runner < int64_t(speeds.size()); ++runner)
    if (canRun(runner))
      candidates.emplace_back(total += speeds[runner], runner);
  if (candidates.empty())
    return std::nullopt;
  double point = drawFraction(random) * total;
  for (auto [bound, runner] : candidates)
    if (point < bound)
      return runner;
  return candidates.back().second;
}

void ChannelInterpreter::startInvocation(int64_t rank) {
  RankState &state = ranks[rank];
  if (state.numStarted > 0 && options.beforeNext)
    options.beforeNext(rank, state.numStarted, simulated.inputs[rank], simulated.outputs[rank]);
  ++state.numStarted;
  state.numLanesRunning = simulated.numLanes;
  for (int64_t number = 0; number < simulated.numLanes; ++number) {
    Lane &lane = *lanes[rank * simulated.numLanes + number];
    lane.scope.emplace(simulated, rank, number, state.numStarted - 1);
    lane.walker.emplace(program.getBody().front(), *lane.scope);
  }
}

/// Puts that are still pending stay so: ending is no flush.
void ChannelInterpreter::endLane(Lane &lane) {
  lane.walker.reset();
  RankState &rank = ranks[lane.rank];
  if (--rank.numLanesRunning > 0)
    return;
  if (options.atEnd)
    options.atEnd(lane.rank, rank.numStarted - 1, simulated.outputs[lane.rank]);
  if (rank.numStarted == options.numInvocations)
    finalOutputs[lane.rank] = simulated.outputs[lane.rank];
}

llvm::Error ChannelInterpreter::stepRunner(int64_t runner) {
  if (runner < int64_t(lanes.size()))
    return stepLane(*lanes[runner]);
  startInvocation(runner - lanes.size());
  return llvm::Error::success();
}

/// Puts of a queue may arrive in any order; a signal arrives after all that precedes it in its queue.
llvm::Error ChannelInterpreter::deliverAny() {
  size_t busy = random() % busyQueues.size(), index = busyQueues[busy];
  std::vector<Pending> &pending = queues[index];
  std::vector<size_t> eligible;
  for (size_t i = 0; i < pending.size(); ++i)
    if (i == 0 || !pending[i].isSignal)
      eligible.push_back(i);
  size_t chosen = eligible[random() % eligible.size()];
  Pending item = pending[chosen];
  pending.erase(pending.begin() + chosen);
  if (pending.empty()) {
    busyQueues[busy] = busyQueues.back();
    busyQueues.pop_back();
  }
  return deliver(*lanes[index / numRanks], int64_t(index % numRanks), item);
}

llvm::Error ChannelInterpreter::stepAny(bool &didStep) {
  didStep = true;
  if (random() % 64 == 0)
    redrawSpeeds();
  bool wantsDelivery = drawFraction(random) < deliveryShare;
  if (!busyQueues.empty() && wantsDelivery)
    return deliverAny();
  if (std::optional<int64_t> runner = pickRunner())
    return stepRunner(*runner);
  if (!busyQueues.empty())
    return deliverAny();
  didStep = false;
  return llvm::Error::success();
}

llvm::Error ChannelInterpreter::reportDeadlock() const {
  llvm::Error error = llvm::createStringError("deadlock: nobody can go on");
  int64_t numListed = 0;
  for (const std::unique_ptr<Lane> &lane : lanes) {
    if (!lane->walker || ++numListed > 8)
      continue;
    if (isa<EnterOp>(lane->current)) {
      error = llvm::joinErrors(std::move(error), lane->scope->fail(lane->current, "waits for all ranks to enter"));
      continue;
    }
    if (awaitedPackets(*lane)) {
      error = llvm::joinErrors(std::move(error), lane->scope->fail(lane->current, "waits for packets of invocation " +
                                                                                      Twine(lane->scope->invocation)));
      continue;
    }
    auto wait = cast<WaitOp>(lane->current); // a flush ends at the latest when nothing is pending
    const Semaphore &counter = semaphoreOfWait(*lane, wait);
    error = llvm::joinErrors(std::move(error),
                             lane->scope->fail(wait, "waits for signal number " + Twine(counter.numWaited + 1) +
                                                         " of semaphore " + Twine(wait.getSemaphore()) + " from rank " +
                                                         Twine((*lane->scope)[wait.getRank()]) + ", which sent " +
                                                         Twine(counter.numArrived)));
  }
  return error;
}

llvm::Error ChannelInterpreter::reportImbalance() const {
  for (auto [index, counter] : llvm::enumerate(semaphores)) {
    int64_t lane = index % simulated.numLanes, pair = index / simulated.numLanes;
    if (counter.numArrived != counter.numWaited)
      return errorAt(program, "unbalanced: rank " + Twine(pair / numRanks % numRanks) + " lane " + Twine(lane) +
                                  " signalled semaphore " + Twine(pair / numRanks / numRanks) + " of rank " +
                                  Twine(pair % numRanks) + " " + Twine(counter.numArrived) + " times, which waited " +
                                  Twine(counter.numWaited) + " times");
  }
  return llvm::Error::success();
}

llvm::Error ChannelInterpreter::run() {
  for (bool didStep = true; didStep;)
    if (llvm::Error error = stepAny(didStep))
      return error;
  if (llvm::any_of(lanes, [](const std::unique_ptr<Lane> &lane) { return lane->walker.has_value(); }))
    return reportDeadlock();
  simulated.outputs = finalOutputs;
  return options.requireBalance ? reportImbalance() : llvm::Error::success();
}

llvm::Error interpretChannel(ProgramOp program, SimulatedCall &simulated, uint64_t seed,
                             const ChannelOptions &options) {
  if (llvm::Error error = validate(simulated, enclosingProgram(program)))
    return error;
  if (llvm::Error error = validateCodecs(simulated, program))
    return error;
  return ChannelInterpreter(program, simulated, seed, options).run();
}

} // namespace kolo::reference
