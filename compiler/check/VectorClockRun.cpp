#include "compiler/check/VectorClockRun.h"

#include "compiler/check/OutputBits.h"
#include "compiler/check/OutputOrder.h"

using namespace mlir;

namespace kolo {

bool VectorClockRun::isTooLarge(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options) {
  auto numOrbits = double(traced.traces.size()), numRanks = double(tracer.numRanks());
  double numWaits = 0;
  for (const Trace &trace : traced.traces)
    numWaits += double(llvm::count_if(trace.events, [](const Event &event) {
      return event.kind == EventKind::Wait || event.kind == EventKind::Enter;
    }));
  return numOrbits * numRanks * sizeof(uint32_t) > double(options.maxBytes) ||
         ChunkCells::leastBytes(tracer, traced.traces.size()) > double(options.maxChunkBytes()) ||
         numWaits * numRanks * double(numCalls(tracer)) > double(options.maxWork);
}

VectorClockRun::VectorClockRun(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options,
                               int64_t mostRanksInFull)
    : tracer(tracer), traced(traced), options(options), calls(numCalls(tracer)), moves(traced.group, tracer.mesh()),
      codecs(tracer.program(), options.followsCodecs), detail(detailOfTerms(tracer, options, codecs, mostRanksInFull)),
      chunkRuns(tracer, traced, codecs), contents(traced.group, moves, tracer.bufferOf(BufferRole::Input).value_or(0),
                                                  codecs, detail, options.maxChunkBytes()),
      order(tracer, traced, options, moves, calls),
      accesses(tracer, traced, chunkRuns, order, contents, codecs, options.followsCodecs, result) {}

VectorClockResult VectorClockRun::run() {
  if (int64_t least = workOfApplications(); least > options.maxWork && !options.prefersSmallMeshes) {
    predictedWork = least + workOfSteps();
    endEarly(0);
  }
  for (bool didAdvance = true; didAdvance && !result.ended && !isRefuted();) {
    didAdvance = false;
    for (size_t orbit = 0; orbit < traced.traces.size() && !result.ended && !isRefuted(); ++orbit)
      didAdvance |= advance(orbit);
  }
  if (!result.ended && !isRefuted())
    findBlocked();
  if (accesses.hasLostPackets()) // the lost packets' conflict explains the wait
    result.blocked.clear();
  if (result.blocked.empty() && result.conflicts.empty() && !result.ended && !result.wrongOutput) {
    OutputBits bits(tracer, traced.group, chunkRuns, codecs, contents, accesses);
    bits.decide(detail, result);
    OutputOrder(tracer, traced.group, chunkRuns, codecs, detail, contents, accesses).decide(result);
    result.needsFullTerms |= options.needsOneOrder && !result.order.isFixed;
    bits.findLosses(result);
  }
  result.share = shareOfLimits();
  return std::move(result);
}

void VectorClockRun::findBlocked() {
  const RankGroup &group = traced.group;
  for (size_t orbit = 0; orbit < traced.traces.size(); ++orbit) {
    const Moment moment = {group.representatives()[orbit], order.time(orbit)};
    if (moment.time == calls * order.stepsPerCall(orbit))
      continue;
    const Event &event = traced.traces[orbit].events[moment.time % order.stepsPerCall(orbit) - 1];
    if (event.kind == EventKind::Enter) // its peers never come here: they wait for ever
      continue;
    std::optional<int64_t> numSignals;
    if (event.kind == EventKind::Wait)
      numSignals =
          order.numSignals(group.orbitOf(event.peer), event.semaphore, group.moveBack(event.peer, moment.rank));
    result.blocked.push_back({moment, numSignals});
  }
}

/// Runs a rank, and with it its orbit, until it has to wait or has taken its turn: what it signals keeps clocks until
/// others wait for it. Whether it took a step.
bool VectorClockRun::advance(size_t orbit) {
  constexpr uint32_t stepsPerTurn = 1 << 12;
  bool didStep = false;
  uint32_t end = std::min(uint32_t(calls) * order.stepsPerCall(orbit), order.time(orbit) + stepsPerTurn);
  while (order.time(orbit) < end) {
    if (isBeyondLimits()) {
      endEarly(orbit);
      break;
    }
    if (isRefuted() || !step(orbit))
      break;
    didStep = true;
    ++numSteps;
  }
  return didStep;
}

bool VectorClockRun::isBeyondLimits() {
  int64_t clockBytes = order.clockBytes();
  mostClockBytes = std::max(mostClockBytes, clockBytes);
  return (work() > options.maxWork && !options.prefersSmallMeshes) || clockBytes > options.maxBytes ||
         accesses.bytes() > options.maxChunkBytes() || contents.isFull();
}

void VectorClockRun::endEarly(size_t orbit) {
  int64_t numInAll = 0;
  for (size_t each = 0; each < traced.traces.size(); ++each)
    numInAll += calls * order.stepsPerCall(each);
  double share = shareOfLimits();
  if (numSteps > 0)
    share *= double(numInAll) / double(numSteps);
  result.ended = EndedEarly{{traced.group.representatives()[orbit], order.time(orbit)}, numSteps, numInAll, share};
}

double VectorClockRun::shareOfLimits() const {
  return std::max({double(work()) / double(options.maxWork), double(mostClockBytes) / double(options.maxBytes),
                   double(accesses.bytes()) / double(options.maxChunkBytes()),
                   double(contents.bytes()) / double(options.maxChunkBytes())});
}

bool VectorClockRun::step(size_t orbit) {
  uint32_t steps = order.stepsPerCall(orbit), position = order.time(orbit) % steps;
  int64_t call = order.time(orbit) / steps;
  accesses.setCall(call);
  if (position == 0)
    accesses.startCall(orbit);
  else if (position == steps - 1)
    accesses.endCall(orbit, moves.rows);
  else if (!takeEvent(orbit, traced.traces[orbit].events[position - 1], call))
    return false;
  order.endStep(orbit);
  return true;
}

/// False: the rank has to wait.
bool VectorClockRun::takeEvent(size_t orbit, const Event &event, int64_t call) {
  switch (event.kind) {
  case EventKind::Wait:
    return order.wait(orbit, event);
  case EventKind::Signal:
    order.signal(orbit, event);
    return true;
  case EventKind::Flush:
    order.flush(orbit);
    return true;
  case EventKind::Enter:
    return order.enter(orbit, call);
  case EventKind::Divide:
    accesses.divide(orbit, event);
    return true;
  case EventKind::Copy:
  case EventKind::Reduce:
  case EventKind::Put:
    if (accesses.isPackets(event.source.buffer) && !accesses.receivePackets(orbit, event))
      return false;
    accesses.move(orbit, event);
    return true;
  }
  llvm_unreachable("all kinds are above");
}

/// The chunks that the application of every representative looks at in all calls.
int64_t VectorClockRun::workOfApplications() const {
  int64_t numChunks = 0;
  for (int64_t rank : traced.group.representatives())
    for (BufferRole role : {BufferRole::Output, BufferRole::Input})
      if (std::optional<uint32_t> buffer = tracer.bufferOf(role); buffer && tracer.exists(rank, role))
        numChunks += (role == BufferRole::Output ? 2 : 1) * chunkRuns.count(*buffer);
  return calls * numChunks;
}

/// The steps, and the chunks that they move, in all calls: without what clocks take.
int64_t VectorClockRun::workOfSteps() const {
  int64_t sum = 0;
  for (const Trace &trace : traced.traces)
    for (const Event &event : trace.events) {
      bool isMove = tracer.program().ops[event.op].isMove();
      int64_t numChunks = isMove ? 1 : 0;
      if (isMove)
        for (size_t i = 0; i < tracer.grids()[event.source.buffer].extents.size(); ++i)
          numChunks *= trace.numbers[event.source.first + 2 * i + 1];
      sum += workOfStep + (isMove ? std::min(numChunks, chunkRuns.count(event.source.buffer)) : 0);
    }
  return calls * sum;
}

} // namespace kolo
