// The order of a run's events: program order, signals before their waits, and the events that complete puts.
#include "tests/mutation/oracle/DenseRun.h"

using namespace mlir;

namespace kolo::oracle {

struct DenseRun::SharedClock {
  SharedClock(const Clock &now, int64_t &total) : clock(now), totalBytes(total) { total += size(); }
  ~SharedClock() { totalBytes -= size(); }
  int64_t size() const { return int64_t(clock.size() * sizeof(uint32_t)); }
  Clock clock;
  int64_t &totalBytes;
};

static uint64_t channelKey(int32_t semaphore, int64_t peer) {
  return uint64_t(uint32_t(semaphore)) << 32 | uint64_t(peer);
}

/// How many of a buffer there are, for calls to use in turn.
static int64_t numTurns(const BufferInfo &buffer) {
  return buffer.role == BufferRole::Published || buffer.role == BufferRole::Packets ? 2 : 1;
}

static int64_t numPlacesOf(const BufferInfo &buffer, const Grid &grid) {
  return grid.numChunks * std::max(grid.numParts, 1) * numTurns(buffer);
}

DenseRun::DenseRun(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options)
    : tracer(tracer), traced(traced), group(traced.group), options(options), calls(numCalls(tracer)),
      contents(group, tracer.bufferOf(BufferRole::Input).value_or(0), tracksOrder(), options.maxChunkBytes()),
      states(traced.traces.size()) {
  for (RankState &state : states) {
    state.clock.assign(size_t(tracer.numRanks()), 0);
    for (auto [buffer, grid] : llvm::zip_equal(tracer.program().buffers, tracer.grids())) {
      auto numPlaces = size_t(numPlacesOf(buffer, grid));
      state.cells.emplace_back(numPlaces);
      state.packets.emplace_back(buffer.role == BufferRole::Packets ? numPlaces : 0);
    }
  }
}

DenseRun::~DenseRun() {
  states.clear(); // shared clocks count themselves in a member
}

VectorClockResult DenseRun::run() {
  for (bool didAdvance = true; didAdvance && !result.ended;) {
    didAdvance = false;
    for (size_t orbit = 0; orbit < states.size() && !result.ended; ++orbit)
      didAdvance |= advance(orbit);
  }
  for (size_t orbit = 0; orbit < states.size(); ++orbit) {
    if (result.ended || states[orbit].time == calls * stepsPerCall(orbit))
      continue;
    const Event &event = traced.traces[orbit].events[states[orbit].time % stepsPerCall(orbit) - 1];
    if (event.kind == EventKind::Enter) // its peers never come here: they wait for ever
      continue;
    int32_t rank = group.representatives()[orbit];
    if (event.kind != EventKind::Wait) {
      result.blocked.push_back({{rank, states[orbit].time}, std::nullopt});
      continue;
    }
    uint64_t key = channelKey(event.semaphore, group.moveBack(event.peer, rank));
    result.blocked.push_back(
        {{rank, states[orbit].time}, int64_t(states[group.orbitOf(event.peer)].signals[key].size())});
  }
  if (hasLostPackets) // the lost packets' conflict explains the wait
    result.blocked.clear();
  if (tracksOrder() && result.blocked.empty() && result.conflicts.empty() && !result.ended && !result.wrongOutput)
    result.ranksAgreeBitwise = agreeBitwise();
  return std::move(result);
}

/// Runs a rank, and with it its orbit, until it has to wait. Whether it took a step.
bool DenseRun::advance(size_t orbit) {
  bool didStep = false;
  while (states[orbit].time < calls * stepsPerCall(orbit) && step(orbit)) {
    didStep = true;
    if (clockBytes > options.maxBytes || contents.isFull()) {
      result.ended.emplace();
      break;
    }
  }
  return didStep;
}

bool DenseRun::step(size_t orbit) {
  RankState &state = states[orbit];
  uint32_t steps = stepsPerCall(orbit), position = state.time % steps;
  int64_t call = currentCall = state.time / steps;
  state.clock[size_t(group.representatives()[orbit])] = state.time;
  if (position == 0) {
    startCall(orbit, call);
  } else if (position == steps - 1) {
    endCall(orbit, call);
  } else {
    const Event &event = traced.traces[orbit].events[position - 1];
    switch (event.kind) {
    case EventKind::Wait:
      if (!wait(orbit, event))
        return false;
      break;
    case EventKind::Signal:
      signal(orbit, event);
      break;
    case EventKind::Flush:
      flush(orbit);
      break;
    case EventKind::Enter:
      if (!enter(orbit))
        return false;
      break;
    case EventKind::Divide:
      divide(orbit, event);
      break;
    case EventKind::Copy:
    case EventKind::Reduce:
    case EventKind::Put:
      if (isPackets(event.source.buffer) && !receivePackets(orbit, event))
        return false;
      move(orbit, event);
    }
  }
  ++state.time;
  return true;
}

std::shared_ptr<const DenseRun::SharedClock> DenseRun::shareClock(RankState &state) {
  if (!state.shared)
    state.shared = std::make_shared<const SharedClock>(state.clock, clockBytes);
  return state.shared;
}

void DenseRun::signal(size_t orbit, const Event &event) {
  RankState &state = states[orbit];
  auto queue = state.putQueues.find(event.peer);
  auto numPuts = queue == state.putQueues.end() ? 0u : uint32_t(queue->second.times.size());
  state.signals[channelKey(event.semaphore, event.peer)].push_back({shareClock(state), state.time, numPuts});
}

bool DenseRun::wait(size_t orbit, const Event &event) {
  RankState &state = states[orbit];
  int32_t rank = group.representatives()[orbit];
  size_t sender = group.orbitOf(event.peer);
  // In the eyes of the sender's representative, who is moved to the sender, this rank lies elsewhere.
  int64_t target = group.moveBack(event.peer, rank);
  auto found = states[sender].signals.find(channelKey(event.semaphore, target));
  uint32_t &numWaited = state.numWaited[channelKey(event.semaphore, event.peer)];
  if (found == states[sender].signals.end() || numWaited >= found->second.size())
    return false;
  Signal &signal = found->second[numWaited++];
  join(state.clock, signal, event.peer);
  state.shared.reset();
  signal.clock.reset(); // each signal is waited for once
  arrive(sender, target, signal.numPuts, state.time);
  return true;
}

/// From now on this rank knows what the rank that signalled knew.
void DenseRun::join(Clock &clock, const Signal &signal, int64_t sender) {
  const Clock &other = signal.clock->clock;
  if (group.isRepresentative(sender)) {
    for (size_t rank = 0; rank < clock.size(); ++rank)
      clock[rank] = std::max(clock[rank], other[rank]);
  } else {
    for (size_t rank = 0; rank < clock.size(); ++rank) {
      uint32_t &mine = clock[size_t(group.move(sender, int64_t(rank)))];
      mine = std::max(mine, other[rank]);
    }
  }
  clock[size_t(sender)] = std::max(clock[size_t(sender)], signal.time + 1);
}

/// The puts that were issued before a signal to the same peer are over when that peer has waited for it.
void DenseRun::arrive(size_t senderOrbit, int64_t target, uint32_t numPuts, uint32_t time) {
  RankState &sender = states[senderOrbit];
  auto queue = sender.putQueues.find(int32_t(target));
  if (queue == sender.putQueues.end())
    return;
  bool isOrdered =
      options.transport.arrivalBetween(tracer.mesh(), group.representatives()[senderOrbit], target).isBeforeSignals;
  for (; queue->second.numArrived < numPuts; ++queue->second.numArrived) {
    PutState &put = sender.puts[queue->second.times[queue->second.numArrived]];
    (isOrdered ? put.waitTime : put.hiddenWaitTime) = time;
  }
}

void DenseRun::flush(size_t orbit) {
  RankState &state = states[orbit];
  for (; state.numFlushed < state.putTimes.size(); ++state.numFlushed)
    state.puts[state.putTimes[state.numFlushed]].flushTime = state.time;
}

/// A rank that has passed `enter` knows all that every rank did before it came here.
bool DenseRun::enter(size_t orbit) {
  RankState &state = states[orbit];
  auto call = size_t(currentCall);
  if (state.enterTimes.size() == call)
    state.enterTimes.push_back(state.time);
  if (llvm::any_of(states, [&](const RankState &other) { return other.enterTimes.size() <= call; }))
    return false;
  for (size_t rank = 0; rank < state.clock.size(); ++rank)
    state.clock[rank] = std::max(state.clock[rank], states[group.orbitOf(int64_t(rank))].enterTimes[call]);
  state.shared.reset();
  return true;
}

/// A packet may replace neither a packet of the same call, nor one that its owner has not read.
void DenseRun::sendPacket(const Event &event, size_t orbit, int32_t chunk) {
  RankState &state = states[orbit];
  Packet &packet = packetOf(event.peer, event.destination.buffer, chunk, event.part);
  auto rank = int32_t(group.moveBack(event.peer, group.representatives()[orbit]));
  if (packet.call == currentCall || (packet.call >= 0 && !packet.isRead)) {
    Entry earlier;
    earlier.rank = packet.rank;
    earlier.time = packet.time;
    report(earlier, {orbit, event.peer, event.destination.buffer, true, true}, chunk, true, Order::None);
    hasLostPackets = true;
  }
  packet = {shareClock(state), rank, state.time, currentCall, false};
  ++state.puts[state.time].numUnread;
}

/// Reads once all packets of a chunk were put in this call; until then the rank waits. Everything that their senders
/// did before is then over.
bool DenseRun::receivePackets(size_t orbit, const Event &event) {
  RankState &state = states[orbit];
  int64_t rank = group.representatives()[orbit];
  expandBox(traced.traces[orbit], event.source, tracer.grids()[event.source.buffer], sourceChunks);
  for (int32_t chunk : sourceChunks)
    if (packetOf(rank, event.source.buffer, chunk, event.part).call != currentCall)
      return false;
  for (int32_t chunk : sourceChunks) {
    Packet &packet = packetOf(rank, event.source.buffer, chunk, event.part);
    if (packet.isRead)
      continue;
    packet.isRead = true;
    join(state.clock, {packet.clock, packet.time, 0}, packet.rank);
    packet.clock.reset();
    PutState &put = states[group.orbitOf(packet.rank)].puts.find(packet.time)->second;
    if (--put.numUnread == 0)
      put.waitTime = state.time;
  }
  state.shared.reset();
  return true;
}

size_t DenseRun::packetNumber(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) const {
  const Grid &grid = tracer.grids()[buffer];
  int64_t turn = currentCall % numTurns(tracer.program().buffers[buffer]);
  int64_t place = turn * grid.numChunks + group.moveChunkBack(owner, buffer, chunk);
  return size_t(place * std::max(grid.numParts, 1) + part);
}

/// Whether the accessor, a representative, knows that an access to a chunk of `owner` is over. The entry's rank is as
/// seen by the owner's representative.
DenseRun::Order DenseRun::orderOf(const Entry &entry, bool isWrite, size_t orbit, int64_t owner) const {
  const RankState &state = states[orbit];
  int64_t rank = group.move(owner, entry.rank);
  if (!entry.isPut) {
    bool isOver = rank == group.representatives()[orbit] || state.clock[size_t(rank)] > entry.time;
    return isOver ? Order::Settled : Order::None;
  }
  const PutState &put = states[group.orbitOf(entry.rank)].puts.find(entry.time)->second;
  int64_t target = group.move(owner, group.move(entry.rank, put.target));
  bool isFlushed = put.flushTime != UINT32_MAX && state.clock[size_t(rank)] > put.flushTime;
  if (isFlushed && (!isWrite || options.transport.arrivalBetween(tracer.mesh(), rank, target).isBeforeFlush))
    return Order::Settled;
  if (put.waitTime != UINT32_MAX && state.clock[size_t(target)] > put.waitTime)
    return Order::Settled;
  bool isHidden = put.hiddenWaitTime != UINT32_MAX && state.clock[size_t(target)] > put.hiddenWaitTime;
  if (isHidden && isFlushed)
    return Order::Settled;
  return isHidden || isFlushed ? Order::HiddenByTransport : Order::None;
}

void DenseRun::access(const Access &access, int64_t chunk, Cell &cell) {
  const RankState &state = states[access.orbit];
  Entry entry;
  entry.rank = int32_t(group.moveBack(access.owner, group.representatives()[access.orbit]));
  entry.time = state.time;
  entry.isPut = access.isPut;
  auto isSameStep = [&](const Entry &other) { return other.rank == entry.rank && other.time == entry.time; };
  auto check = [&](const Entry &other, bool isWrite) {
    if (other.rank < 0 || isSameStep(other)) // see checkOverlap for what one step does to itself
      return;
    if (Order order = orderOf(other, isWrite, access.orbit, access.owner); order != Order::Settled)
      report(other, access, chunk, isWrite, order);
  };
  if (access.isWrite || !isPackets(access.buffer)) // packets were waited for: see receivePackets
    check(cell.lastWrite, true);
  if (!access.isWrite) {
    for (Entry &read : cell.reads)
      if (read.rank == entry.rank && !read.isPut && !entry.isPut) {
        read = entry; // a later read of the same rank comes after the earlier one
        return;
      }
    cell.reads.push_back(entry);
    return;
  }
  for (const Entry &read : cell.reads)
    check(read, false);
  cell.reads.clear();
  cell.lastWrite = entry;
}

void DenseRun::report(const Entry &entry, const Access &access, int64_t chunk, bool isEntryWrite, Order order) {
  Moment earlier{int32_t(group.move(access.owner, entry.rank)), entry.time};
  Moment later{group.representatives()[access.orbit], states[access.orbit].time};
  // One conflict per pair of steps in the text, and per pair of calls.
  auto stepOf = [&](const Moment &moment) {
    size_t orbit = group.orbitOf(moment.rank);
    uint32_t position = moment.time % stepsPerCall(orbit), call = moment.time / stepsPerCall(orbit);
    bool isStep = position != 0 && position != stepsPerCall(orbit) - 1;
    uint64_t op = isStep ? traced.traces[orbit].events[position - 1].op : uint64_t(1) << 40 | uint64_t(position != 0);
    return op << 2 | call;
  };
  auto [place, isNew] = conflictOf.try_emplace({stepOf(earlier), stepOf(later)}, result.conflicts.size());
  if (isNew)
    result.conflicts.push_back({earlier, later, isEntryWrite, access.isWrite, order == Order::HiddenByTransport,
                                access.owner, access.buffer, chunk});
}

} // namespace kolo::oracle
