#include "compiler/check/EventOrder.h"

using namespace mlir;

namespace kolo {

struct EventOrder::SharedClock {
  SharedClock(const Clock &now, int64_t &total) : clock(now), totalBytes(total) { total += size(); }
  ~SharedClock() { totalBytes -= size(); }
  int64_t size() const { return int64_t(sizeof(SharedClock)) + clock.numBytes(); }
  const Clock clock;
  int64_t &totalBytes;
};

static uint64_t channelKey(int32_t semaphore, int64_t peer) {
  return uint64_t(uint32_t(semaphore)) << 32 | uint64_t(peer);
}

EventOrder::EventOrder(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options, GroupMoves &moves,
                       int64_t numCalls)
    : tracer(tracer), traced(traced), group(traced.group), options(options), moves(moves),
      numEntered(size_t(numCalls)) {
  uint64_t mostTicks = 0, mostSteps = 0;
  for (const Trace &trace : traced.traces) {
    mostTicks = std::max(mostTicks, trace.numTicks + 2);
    mostSteps = std::max<uint64_t>(mostSteps, trace.events.size() + 2);
  }
  usesTicks = mostTicks * uint64_t(numCalls) <= INT32_MAX;
  ticksPerCall = uint32_t(usesTicks ? mostTicks : mostSteps);
  ranks.reserve(traced.traces.size());
  for (size_t orbit = 0; orbit < traced.traces.size(); ++orbit)
    ranks.emplace_back(moves.rows);
}

EventOrder::~EventOrder() {
  ranks.clear(); // shared clocks count themselves in a member
}

EventOrder::ClockPointer EventOrder::shareClock(RankOrder &rank) {
  if (!rank.shared)
    rank.shared = std::make_shared<const SharedClock>(rank.clock, sharedBytes);
  return rank.shared;
}

void EventOrder::signal(size_t orbit, const Event &event) {
  RankOrder &state = ranks[orbit];
  auto queue = state.putQueues.find(event.peer);
  auto numPuts = queue == state.putQueues.end() ? 0u : uint32_t(queue->second.numbers.size());
  state.signals[channelKey(event.semaphore, event.peer)].push_back({shareClock(state), state.time, numPuts});
}

bool EventOrder::wait(size_t orbit, const Event &event) {
  RankOrder &state = ranks[orbit];
  int32_t rank = group.representatives()[orbit];
  size_t sender = group.orbitOf(event.peer);
  // In the eyes of the sender's representative, who is moved to the sender, this rank lies elsewhere.
  int64_t target = group.moveBack(event.peer, rank);
  auto found = ranks[sender].signals.find(channelKey(event.semaphore, target));
  uint32_t &numWaited = state.numWaited[channelKey(event.semaphore, event.peer)];
  if (found == ranks[sender].signals.end() || numWaited >= found->second.size())
    return false;
  Signal &signal = found->second[numWaited++];
  join(state, *signal.clock, event.peer, signal.time);
  signal.clock.reset(); // each signal is waited for once
  arrive(sender, target, signal.numPuts, state.time);
  return true;
}

int64_t EventOrder::numSignals(size_t orbit, int32_t semaphore, int64_t target) const {
  auto found = ranks[orbit].signals.find(channelKey(semaphore, target));
  return found == ranks[orbit].signals.end() ? 0 : int64_t(found->second.size());
}

/// From now on this rank knows what the sender knew at that time.
void EventOrder::join(RankOrder &rank, const SharedClock &clock, int64_t sender, uint32_t time) {
  static const RowMove stay;
  rank.clock.join(clock.clock, group.isRepresentative(sender) ? stay : moves.move(sender, false));
  rank.clock.raise(sender, tickOf(group.orbitOf(sender), time) + 1);
  rank.shared.reset();
  numPieces += clock.clock.numPieces();
}

/// Whether a rank, a representative, knows that another rank has taken the step with this number.
bool EventOrder::isOver(size_t orbit, int64_t rank, uint32_t time) const {
  const RankOrder &state = ranks[orbit];
  if (rank == group.representatives()[orbit])
    return state.time > time;
  return state.clock.at(rank) > tickOf(group.orbitOf(rank), time);
}

/// The puts that were issued before a signal to the same peer are over when that peer has waited for it.
void EventOrder::arrive(size_t senderOrbit, int64_t target, uint32_t numPuts, uint32_t time) {
  RankOrder &sender = ranks[senderOrbit];
  auto queue = sender.putQueues.find(int32_t(target));
  if (queue == sender.putQueues.end())
    return;
  bool isOrdered =
      options.transport.arrivalBetween(tracer.mesh(), group.representatives()[senderOrbit], target).isBeforeSignals;
  for (; queue->second.numArrived < numPuts; ++queue->second.numArrived) {
    PutState &put = sender.puts[queue->second.numbers[queue->second.numArrived]];
    (isOrdered ? put.waitTime : put.hiddenWaitTime) = time;
  }
}

void EventOrder::flush(size_t orbit) {
  RankOrder &state = ranks[orbit];
  for (; state.numFlushed < state.putTimes.size(); ++state.numFlushed)
    state.puts[state.numFlushed].flushTime = state.time;
}

/// A rank that has passed `enter` knows all that every rank did before it came here.
bool EventOrder::enter(size_t orbit, int64_t call) {
  RankOrder &state = ranks[orbit];
  auto number = size_t(call);
  if (state.enterTimes.size() == number) {
    state.enterTimes.push_back(state.time);
    ++numEntered[number];
  }
  if (numEntered[number] < ranks.size())
    return false;
  state.clock.join(clockOfEnter(number), {});
  state.shared.reset();
  return true;
}

/// What all ranks know that have passed the `enter` of this call.
const Clock &EventOrder::clockOfEnter(size_t call) {
  if (enterClocks.size() == call) {
    std::vector<uint32_t> times(size_t(tracer.numRanks()));
    for (size_t rank = 0; rank < times.size(); ++rank) {
      size_t orbit = group.orbitOf(int64_t(rank));
      times[rank] = tickOf(orbit, ranks[orbit].enterTimes[call]);
    }
    enterClocks.emplace_back(moves.rows, times);
    numPieces += tracer.numRanks();
  }
  return enterClocks[call];
}

void EventOrder::beginPut(size_t orbit, int32_t target) {
  RankOrder &state = ranks[orbit];
  state.putQueues[target].numbers.push_back(uint32_t(state.puts.size()));
  state.puts.push_back({target});
  state.putTimes.push_back(state.time);
}

EventOrder::ClockPointer EventOrder::sendPacket(size_t orbit) {
  ++ranks[orbit].puts.back().numUnread; // of this step
  return shareClock(ranks[orbit]);
}

/// Everything that the sender did before is then over.
void EventOrder::receivePacket(size_t orbit, ClockPointer clock, int64_t sender, uint32_t time) {
  join(ranks[orbit], *clock, sender, time);
  RankOrder &from = ranks[group.orbitOf(sender)];
  auto place = std::ranges::lower_bound(from.putTimes, time) - from.putTimes.begin();
  PutState &put = from.puts[size_t(place)];
  if (--put.numUnread == 0)
    put.waitTime = ranks[orbit].time;
}

AccessEntry EventOrder::entryOf(size_t orbit, int64_t owner, bool isPut) const {
  AccessEntry entry;
  entry.rank = int32_t(group.moveBack(owner, group.representatives()[orbit]));
  entry.time = isPut ? uint32_t(ranks[orbit].puts.size()) - 1 : ranks[orbit].time; // the put at hand
  entry.isPut = isPut;
  return entry;
}

EventOrder::Order EventOrder::orderOf(const AccessEntry &entry, bool isWrite, size_t orbit, int64_t owner) const {
  int64_t rank = group.move(owner, entry.rank);
  if (!entry.isPut)
    return rank == group.representatives()[orbit] || isOver(orbit, rank, entry.time) ? Order::Settled : Order::None;
  const PutState &put = ranks[group.orbitOf(entry.rank)].puts[entry.time];
  bool isFlushed = put.flushTime != UINT32_MAX && isOver(orbit, rank, put.flushTime);
  if (isFlushed && (!isWrite || options.transport.arrival.isBeforeFlush))
    return Order::Settled;
  int64_t target = group.move(owner, group.move(entry.rank, put.target));
  if (isFlushed && options.transport.arrivalBetween(tracer.mesh(), rank, target).isBeforeFlush)
    return Order::Settled;
  if (put.waitTime != UINT32_MAX && isOver(orbit, target, put.waitTime))
    return Order::Settled;
  bool isHidden = put.hiddenWaitTime != UINT32_MAX && isOver(orbit, target, put.hiddenWaitTime);
  if (isHidden && isFlushed) // they differ in several dimensions: on each transport, one of the two is enough
    return Order::Settled;
  return isHidden || isFlushed ? Order::HiddenByTransport : Order::None;
}

} // namespace kolo
