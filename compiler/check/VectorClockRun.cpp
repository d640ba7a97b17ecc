// The order of a run's events: program order, signals before their waits, and the events that complete puts.
#include "compiler/check/VectorClockRun.h"

using namespace mlir;

namespace kolo {

struct VectorClockRun::SharedClock {
  SharedClock(const Clock &now, int64_t &total) : clock(now), totalBytes(total) { total += size(); }
  ~SharedClock() { totalBytes -= size(); }
  int64_t size() const { return int64_t(sizeof(SharedClock)) + clock.numBytes(); }
  const Clock clock;
  int64_t &totalBytes;
};

/// Reads of a chunk that are looked up by rank.
static constexpr size_t manyReads = 16;

static uint64_t channelKey(int32_t semaphore, int64_t peer) {
  return uint64_t(uint32_t(semaphore)) << 32 | uint64_t(peer);
}

/// How many of a buffer there are, for calls to use in turn.
static int64_t numTurns(const BufferInfo &buffer) {
  return buffer.role == BufferRole::Published || buffer.role == BufferRole::Packets ? 2 : 1;
}

static int64_t numPlacesOf(const BufferInfo &buffer, const Grid &grid, int64_t numChunks) {
  return numChunks * std::max(grid.numParts, 1) * numTurns(buffer);
}

bool VectorClockRun::isTooLarge(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options) {
  auto numOrbits = double(traced.traces.size()), numRanks = double(tracer.numRanks());
  double numPlaces = 0, numWaits = 0;
  for (auto [buffer, grid] : llvm::zip_equal(tracer.program().buffers, tracer.grids()))
    numPlaces += double(numPlacesOf(buffer, grid, grid.numChunks));
  for (const Trace &trace : traced.traces)
    numWaits += double(llvm::count_if(trace.events, [](const Event &event) {
      return event.kind == EventKind::Wait || event.kind == EventKind::Enter;
    }));
  return numOrbits * numRanks * sizeof(uint32_t) > double(options.maxBytes) ||
         numOrbits * numPlaces * sizeof(Cell) > double(options.maxChunkBytes()) ||
         numWaits * numRanks * double(numCalls(tracer)) > double(options.maxWork);
}

VectorClockRun::VectorClockRun(const Tracer &tracer, const TracedGroup &traced, const CheckOptions &options,
                               int64_t mostRanksInFull)
    : tracer(tracer), traced(traced), group(traced.group), options(options), calls(numCalls(tracer)),
      moves(group, tracer.mesh()), codecs(tracer.program(), options.followsCodecs),
      detail(detailOfTerms(mostRanksInFull)), chunkRuns(tracer, traced, codecs),
      contents(group, moves, tracer.bufferOf(BufferRole::Input).value_or(0), codecs, detail, options.maxChunkBytes()) {
  uint64_t mostTicks = 0, mostSteps = 0;
  for (const Trace &trace : traced.traces) {
    mostTicks = std::max(mostTicks, trace.numTicks + 2);
    mostSteps = std::max<uint64_t>(mostSteps, trace.events.size() + 2);
  }
  usesTicks = mostTicks * uint64_t(calls) <= INT32_MAX;
  ticksPerCall = uint32_t(usesTicks ? mostTicks : mostSteps);
  states.reserve(traced.traces.size());
  for (size_t orbit = 0; orbit < traced.traces.size(); ++orbit) {
    states.emplace_back(moves.rows);
    states.back().cells.resize(tracer.grids().size());
    states.back().packets.resize(tracer.grids().size());
  }
}

VectorClockRun::~VectorClockRun() {
  states.clear(); // shared clocks count themselves in a member
}

VectorClockResult VectorClockRun::run() {
  if (int64_t least = workOfApplications(); least > options.maxWork && !options.prefersSmallMeshes) {
    work = least + workOfSteps();
    endEarly(0);
  }
  for (bool didAdvance = true; didAdvance && !result.ended && !isRefuted();) {
    didAdvance = false;
    for (size_t orbit = 0; orbit < states.size() && !result.ended && !isRefuted(); ++orbit)
      didAdvance |= advance(orbit);
  }
  if (!result.ended && !isRefuted())
    findBlocked();
  if (hasLostPackets) // the lost packets' conflict explains the wait
    result.blocked.clear();
  if (result.blocked.empty() && result.conflicts.empty() && !result.ended && !result.wrongOutput) {
    decideBits();
    findLosses();
  }
  result.share = shareOfLimits();
  return std::move(result);
}

void VectorClockRun::findBlocked() {
  for (size_t orbit = 0; orbit < states.size(); ++orbit) {
    if (states[orbit].time == calls * stepsPerCall(orbit))
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
}

/// Runs a rank, and with it its orbit, until it has to wait or has taken its turn: what it signals keeps clocks until
/// others wait for it. Whether it took a step.
bool VectorClockRun::advance(size_t orbit) {
  constexpr uint32_t stepsPerTurn = 1 << 12;
  bool didStep = false;
  uint32_t end = std::min(uint32_t(calls) * stepsPerCall(orbit), states[orbit].time + stepsPerTurn);
  while (states[orbit].time < end) {
    if (isBeyondLimits()) {
      endEarly(orbit);
      break;
    }
    if (isRefuted() || !step(orbit))
      break;
    didStep = true;
    ++numSteps;
    work += workOfStep;
  }
  return didStep;
}

bool VectorClockRun::isBeyondLimits() {
  int64_t allClockBytes = clockBytes + moves.rows.clockBytes;
  mostClockBytes = std::max(mostClockBytes, allClockBytes);
  return (work > options.maxWork && !options.prefersSmallMeshes) || allClockBytes > options.maxBytes ||
         cellBytes > options.maxChunkBytes() || contents.isFull();
}

void VectorClockRun::endEarly(size_t orbit) {
  int64_t numInAll = 0;
  for (size_t each = 0; each < states.size(); ++each)
    numInAll += calls * stepsPerCall(each);
  double share = shareOfLimits();
  if (numSteps > 0)
    share *= double(numInAll) / double(numSteps);
  result.ended = EndedEarly{{group.representatives()[orbit], states[orbit].time}, numSteps, numInAll, share};
}

double VectorClockRun::shareOfLimits() const {
  return std::max({double(work) / double(options.maxWork), double(mostClockBytes) / double(options.maxBytes),
                   double(cellBytes) / double(options.maxChunkBytes()),
                   double(contents.bytes()) / double(options.maxChunkBytes())});
}

bool VectorClockRun::step(size_t orbit) {
  RankState &state = states[orbit];
  uint32_t steps = stepsPerCall(orbit), position = state.time % steps;
  int64_t call = currentCall = state.time / steps;
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

std::shared_ptr<const VectorClockRun::SharedClock> VectorClockRun::shareClock(RankState &state) {
  if (!state.shared)
    state.shared = std::make_shared<const SharedClock>(state.clock, clockBytes);
  return state.shared;
}

void VectorClockRun::signal(size_t orbit, const Event &event) {
  RankState &state = states[orbit];
  auto queue = state.putQueues.find(event.peer);
  auto numPuts = queue == state.putQueues.end() ? 0u : uint32_t(queue->second.numbers.size());
  state.signals[channelKey(event.semaphore, event.peer)].push_back({shareClock(state), state.time, numPuts});
}

bool VectorClockRun::wait(size_t orbit, const Event &event) {
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
  join(state, signal, event.peer);
  signal.clock.reset(); // each signal is waited for once
  arrive(sender, target, signal.numPuts, state.time);
  return true;
}

/// From now on this rank knows what the rank that signalled knew.
void VectorClockRun::join(RankState &state, const Signal &signal, int64_t sender) {
  static const RowMove stay;
  const Clock &other = signal.clock->clock;
  state.clock.join(other, group.isRepresentative(sender) ? stay : moves.move(sender, false));
  state.clock.raise(sender, tickOf(group.orbitOf(sender), signal.time) + 1);
  state.shared.reset();
  work += other.numPieces();
}

/// Whether a rank, a representative, knows that another rank has taken the step with this number.
bool VectorClockRun::isOver(size_t orbit, int64_t rank, uint32_t time) const {
  const RankState &state = states[orbit];
  if (rank == group.representatives()[orbit])
    return state.time > time;
  return state.clock.at(rank) > tickOf(group.orbitOf(rank), time);
}

/// The puts that were issued before a signal to the same peer are over when that peer has waited for it.
void VectorClockRun::arrive(size_t senderOrbit, int64_t target, uint32_t numPuts, uint32_t time) {
  RankState &sender = states[senderOrbit];
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

void VectorClockRun::flush(size_t orbit) {
  RankState &state = states[orbit];
  for (; state.numFlushed < state.putTimes.size(); ++state.numFlushed)
    state.puts[state.numFlushed].flushTime = state.time;
}

/// A rank that has passed `enter` knows all that every rank did before it came here.
bool VectorClockRun::enter(size_t orbit) {
  RankState &state = states[orbit];
  auto call = size_t(currentCall);
  numEntered.resize(size_t(calls));
  if (state.enterTimes.size() == call) {
    state.enterTimes.push_back(state.time);
    ++numEntered[call];
  }
  if (numEntered[call] < states.size())
    return false;
  state.clock.join(clockOfEnter(), {});
  state.shared.reset();
  return true;
}

/// What all ranks know that have passed the `enter` of this call.
const Clock &VectorClockRun::clockOfEnter() {
  auto call = size_t(currentCall);
  if (enterClocks.size() == call) {
    std::vector<uint32_t> times(size_t(tracer.numRanks()));
    for (size_t rank = 0; rank < times.size(); ++rank) {
      size_t orbit = group.orbitOf(int64_t(rank));
      times[rank] = tickOf(orbit, states[orbit].enterTimes[call]);
    }
    enterClocks.emplace_back(moves.rows, times);
    work += tracer.numRanks();
  }
  return enterClocks[call];
}

/// A packet may replace neither a packet of the same call, nor one that its owner has not read.
void VectorClockRun::sendPacket(const Event &event, size_t orbit, int32_t chunk) {
  RankState &state = states[orbit];
  Packet &packet = packetOf(event.peer, event.destination.buffer, chunk, event.part);
  auto rank = int32_t(group.moveBack(event.peer, group.representatives()[orbit]));
  if (packet.call == currentCall || (packet.call >= 0 && !packet.isRead)) {
    Entry earlier;
    earlier.rank = packet.rank;
    earlier.time = packet.time;
    report(earlier, accessOf(orbit, event.peer, event.destination.buffer, true, true), chunk, true, Order::None);
    hasLostPackets = true;
  }
  packet = {shareClock(state), rank, state.time, currentCall, false};
  ++state.puts.back().numUnread; // of this step
}

/// Reads once all packets of a chunk were put in this call; until then the rank waits. Everything that their senders
/// did before is then over.
bool VectorClockRun::receivePackets(size_t orbit, const Event &event) {
  RankState &state = states[orbit];
  int64_t rank = group.representatives()[orbit];
  chunkRuns.expand(traced.traces[orbit], event.source, sourceChunks);
  for (int32_t chunk : sourceChunks)
    if (packetOf(rank, event.source.buffer, chunk, event.part).call != currentCall)
      return false;
  for (int32_t chunk : sourceChunks) {
    Packet &packet = packetOf(rank, event.source.buffer, chunk, event.part);
    if (packet.isRead)
      continue;
    packet.isRead = true;
    join(state, {packet.clock, packet.time, 0}, packet.rank);
    packet.clock.reset();
    PutState &put = putAt(states[group.orbitOf(packet.rank)], packet.time);
    if (--put.numUnread == 0)
      put.waitTime = state.time;
  }
  return true;
}

template <typename Place> Place &VectorClockRun::placeOf(std::vector<Place> &places, uint32_t buffer, size_t number) {
  if (places.empty()) {
    places.resize(
        size_t(numPlacesOf(tracer.program().buffers[buffer], tracer.grids()[buffer], chunkRuns.count(buffer))));
    cellBytes += int64_t(places.size() * sizeof(Place));
  }
  return places[number];
}

VectorClockRun::Cell &VectorClockRun::cellOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) {
  return placeOf(states[group.orbitOf(owner)].cells[buffer], buffer, packetNumber(owner, buffer, chunk, part));
}

VectorClockRun::Cells VectorClockRun::findChunks(const Trace &trace, const Box &box, int64_t owner, int32_t part,
                                                 std::vector<int32_t> &chunks, std::vector<int32_t> &places) {
  const Grid &grid = tracer.grids()[box.buffer];
  chunkRuns.expand(trace, box, chunks);
  places.clear();
  if (chunks.empty())
    return {nullptr, 0};
  SmallVector<int32_t, 8> numbers(trace.numbersOf(box, grid.extents.size()));
  if (chunkRuns.hasLongRuns(box.buffer) || !group.moveBoxBack(owner, box.buffer, numbers))
    for (int32_t chunk : chunks)
      places.push_back(int32_t(chunkRuns.numberOf(box.buffer, group.moveChunkBack(owner, box.buffer, chunk))));
  else if (group.isRepresentative(owner))
    places = chunks;
  else
    expandNumbers(numbers, grid, places);
  Cell &first = placeOf(states[group.orbitOf(owner)].cells[box.buffer], box.buffer, firstOfTurn(box.buffer, part));
  return {&first, size_t(std::max(grid.numParts, 1))};
}

VectorClockRun::Packet &VectorClockRun::packetOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) {
  return placeOf(states[group.orbitOf(owner)].packets[buffer], buffer, packetNumber(owner, buffer, chunk, part));
}

/// Of the part of a buffer that the call at hand uses.
size_t VectorClockRun::firstOfTurn(uint32_t buffer, int32_t part) const {
  int64_t turn = currentCall % numTurns(tracer.program().buffers[buffer]);
  return size_t(turn * chunkRuns.count(buffer) * std::max(tracer.grids()[buffer].numParts, 1) + part);
}

size_t VectorClockRun::packetNumber(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) const {
  int64_t place = chunkRuns.numberOf(buffer, group.moveChunkBack(owner, buffer, chunk));
  return firstOfTurn(buffer, part) + size_t(place * std::max(tracer.grids()[buffer].numParts, 1));
}

/// Whether the accessor, a representative, knows that an access to a chunk of `owner` is over. The entry's rank is as
/// seen by the owner's representative.
VectorClockRun::Order VectorClockRun::orderOf(const Entry &entry, bool isWrite, size_t orbit, int64_t owner) const {
  int64_t rank = group.move(owner, entry.rank);
  if (!entry.isPut)
    return rank == group.representatives()[orbit] || isOver(orbit, rank, entry.time) ? Order::Settled : Order::None;
  const PutState &put = states[group.orbitOf(entry.rank)].puts[entry.time];
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

VectorClockRun::Access VectorClockRun::accessOf(size_t orbit, int64_t owner, uint32_t buffer, bool isWrite,
                                                bool isPut) const {
  Access access{orbit, owner, buffer, isWrite, isPut, {}};
  access.entry.rank = int32_t(group.moveBack(owner, group.representatives()[orbit]));
  access.entry.time = isPut ? uint32_t(states[orbit].puts.size()) - 1 : states[orbit].time; // the put at hand
  access.entry.isPut = isPut;
  return access;
}

void VectorClockRun::access(Access &access, int64_t chunk, Cell &cell) {
  const Entry &entry = access.entry;
  auto isSameStep = [](const Entry &a, const Entry &b) {
    return a.rank == b.rank && a.time == b.time && a.isPut == b.isPut;
  };
  auto check = [&](const Entry &other, bool isWrite) {
    Entry &settled = access.settled[isWrite];
    // See checkOverlap for what one step does to itself.
    if (other.rank < 0 || isSameStep(other, entry) || isSameStep(other, settled))
      return;
    if (Order order = orderOf(other, isWrite, access.orbit, access.owner); order != Order::Settled)
      report(other, access, chunk, isWrite, order);
    else
      settled = other;
  };
  if (access.isWrite || !isPackets(access.buffer)) // packets were waited for: see receivePackets
    check(cell.lastWrite, true);
  if (!access.isWrite) {
    addRead(cell, entry);
    return;
  }
  for (const Entry &read : cell.reads)
    check(read, false);
  work += int64_t(cell.reads.size());
  if (cell.reads.size() >= manyReads)
    readPlaces.erase(&cell);
  cell.reads.clear();
  cell.hasOrderedReads = true;
  cell.lastWrite = entry;
}

/// A rank's read since the last write, other than by a put.
VectorClockRun::Entry *VectorClockRun::readOf(Cell &cell, int32_t rank) {
  if (cell.hasOrderedReads) {
    Entry *found = llvm::lower_bound(cell.reads, rank, [](const Entry &read, int32_t r) { return read.rank < r; });
    return found != cell.reads.end() && found->rank == rank ? found : nullptr;
  }
  if (cell.reads.size() < manyReads) {
    Entry *found = llvm::find_if(cell.reads, [&](const Entry &read) { return read.rank == rank && !read.isPut; });
    return found == cell.reads.end() ? nullptr : found;
  }
  auto &places = readPlaces[&cell];
  if (places.empty())
    for (auto [place, read] : llvm::enumerate(cell.reads))
      if (!read.isPut)
        places.try_emplace(read.rank, uint32_t(place));
  auto found = places.find(rank);
  return found == places.end() ? nullptr : &cell.reads[found->second];
}

/// A later read of the same rank comes after the earlier one, and takes its place.
void VectorClockRun::addRead(Cell &cell, const Entry &read) {
  if (Entry *earlier = read.isPut ? nullptr : readOf(cell, read.rank)) {
    *earlier = read;
    return;
  }
  bool hadOrderedReads = cell.hasOrderedReads; // then there are no `readPlaces` yet
  cell.hasOrderedReads &= !read.isPut && (cell.reads.empty() || cell.reads.back().rank < read.rank);
  if (!read.isPut && !hadOrderedReads && cell.reads.size() >= manyReads)
    readPlaces[&cell][read.rank] = uint32_t(cell.reads.size());
  cell.reads.push_back(read);
}

void VectorClockRun::report(const Entry &entry, const Access &access, int64_t chunk, bool isEntryWrite, Order order) {
  Moment earlier{int32_t(group.move(access.owner, entry.rank)), timeOf(entry)};
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

} // namespace kolo
