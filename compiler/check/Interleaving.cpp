// The past of two moments: program order, and for every wait the signal that it waited for.
#include "compiler/check/Interleaving.h"

using namespace mlir;

namespace kolo {

const Event *Interleaving::eventAt(const Moment &moment) const {
  uint32_t position = moment.time % stepsPerCall(moment.rank);
  if (position == 0 || position == stepsPerCall(moment.rank) - 1)
    return nullptr;
  return &traced.traces[traced.group.orbitOf(moment.rank)].events[position - 1];
}

Operation *Interleaving::opAt(const Moment &moment) const {
  const Event *event = eventAt(moment);
  return event ? tracer.program().ops[event->op].op : nullptr;
}

void Interleaving::need(int64_t rank, uint32_t numSteps) {
  if (needed[size_t(rank)] >= numSteps)
    return;
  needed[size_t(rank)] = numSteps;
  pending.push_back(rank);
}

uint32_t Interleaving::timeOfSignal(int64_t sender, int64_t receiver, int32_t semaphore, uint64_t number) {
  if (signals.empty())
    for (auto [orbit, trace] : llvm::enumerate(traced.traces))
      for (auto [i, event] : llvm::enumerate(trace.events))
        if (event.kind == EventKind::Signal)
          signals[{int64_t(orbit), event.semaphore, event.peer}].push_back(uint32_t(i) + 1);
  const std::vector<uint32_t> &positions =
      signals[{int64_t(traced.group.orbitOf(sender)), semaphore, traced.group.moveBack(sender, receiver)}];
  return uint32_t(number / positions.size()) * stepsPerCall(sender) + positions[number % positions.size()];
}

/// When a rank comes to its `enter`, in a program that has one.
uint32_t Interleaving::timeOfEnter(int64_t rank, int64_t call) const {
  const std::vector<Event> &events = traced.traces[traced.group.orbitOf(rank)].events;
  auto enter = llvm::find_if(events, [](const Event &event) { return event.kind == EventKind::Enter; });
  return uint32_t(call) * stepsPerCall(rank) + uint32_t(enter - events.begin()) + 1;
}

bool Interleaving::readsPackets(const Event *event) const {
  return event && tracer.program().ops[event->op].isMove() &&
         tracer.program().buffers[event->source.buffer].role == BufferRole::Packets;
}

void Interleaving::findPuts() {
  std::vector<int32_t> chunks;
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
    const Trace &trace = traced.traces[traced.group.orbitOf(rank)];
    for (auto [i, event] : llvm::enumerate(trace.events)) {
      uint32_t buffer = event.destination.buffer;
      if (event.kind != EventKind::Put || tracer.program().buffers[buffer].role != BufferRole::Packets)
        continue;
      expandBox(trace, event.destination, tracer.grids()[buffer], chunks);
      for (int32_t chunk : chunks)
        puts[{traced.group.move(rank, event.peer), buffer, traced.group.moveChunk(rank, buffer, chunk), event.part}] =
            Moment{int32_t(rank), uint32_t(i) + 1};
    }
  }
}

std::vector<Moment> Interleaving::putsFor(const Moment &moment) {
  const Event *event = eventAt(moment);
  if (!readsPackets(event))
    return {};
  if (puts.empty())
    findPuts();
  std::vector<int32_t> chunks;
  uint32_t buffer = event->source.buffer;
  expandBox(traced.traces[traced.group.orbitOf(moment.rank)], event->source, tracer.grids()[buffer], chunks);
  std::vector<Moment> result;
  for (int32_t chunk : chunks) {
    auto put = puts.find({moment.rank, buffer, traced.group.moveChunk(moment.rank, buffer, chunk), event->part});
    if (put != puts.end())
      result.push_back(
          {put->second.rank, put->second.time + uint32_t(callOf(moment)) * stepsPerCall(put->second.rank)});
  }
  return result;
}

/// All ranks come to the `enter` of a call before one passes it.
void Interleaving::needEnter(int64_t call) {
  neededEnters.resize(std::max(neededEnters.size(), size_t(call) + 1));
  if (neededEnters[size_t(call)])
    return;
  neededEnters[size_t(call)] = true;
  for (size_t rank = 0; rank < needed.size(); ++rank)
    need(int64_t(rank), timeOfEnter(int64_t(rank), call));
}

/// False if it is too long.
bool Interleaving::computePast(const Moment &a, const Moment &b) {
  uint64_t numLooked = 0;
  neededEnters.clear();
  pending.clear();
  needed.assign(size_t(tracer.numRanks()), 0);
  looked.assign(needed.size(), 0);
  numWaited.clear();
  numWaited.resize(needed.size());
  need(a.rank, a.time);
  need(b.rank, b.time);
  while (!pending.empty()) {
    int64_t rank = pending.back();
    pending.pop_back();
    for (uint32_t &time = looked[size_t(rank)]; time < needed[size_t(rank)]; ++time) {
      if (++numLooked > mostSteps)
        return false;
      const Event *event = eventAt({int32_t(rank), time});
      if (event && event->kind == EventKind::Enter)
        needEnter(callOf({int32_t(rank), time}));
      for (const Moment &put : putsFor({int32_t(rank), time}))
        need(put.rank, put.time + 1);
      if (!event || event->kind != EventKind::Wait)
        continue;
      int64_t sender = traced.group.move(rank, event->peer);
      uint64_t key = uint64_t(event->semaphore) << 32 | uint64_t(sender);
      need(sender, timeOfSignal(sender, rank, event->semaphore, numWaited[size_t(rank)][key]++) + 1);
    }
  }
  return true;
}

std::optional<uint64_t> Interleaving::pastSize(const Moment &a, const Moment &b) {
  if (!computePast(a, b))
    return std::nullopt;
  uint64_t size = 0;
  for (uint32_t steps : needed)
    size += steps;
  return size;
}

std::optional<std::vector<Step>> Interleaving::past(const Moment &a, const Moment &b, size_t maxSteps) {
  if (!computePast(a, b))
    return std::nullopt;
  std::vector<Step> steps;
  std::vector<uint32_t> done(needed.size(), 0);
  std::map<int64_t, size_t> numAtEnter;                        // by call: ranks that came to their `enter`
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, int64_t> sent; // signals that nobody waited for yet
  auto channel = [](int32_t semaphore, int64_t from, int64_t to) {
    return std::pair(uint64_t(semaphore), uint64_t(from) << 32 | uint64_t(to));
  };
  auto takeStep = [&](int64_t rank) {
    Moment moment{int32_t(rank), done[size_t(rank)]};
    const Event *event = eventAt(moment);
    int64_t peer = event ? traced.group.move(rank, event->peer) : 0;
    if (event && event->kind == EventKind::Wait && sent[channel(event->semaphore, peer, rank)]-- <= 0) {
      ++sent[channel(event->semaphore, peer, rank)];
      return false;
    }
    if (event && event->kind == EventKind::Enter && numAtEnter[callOf(moment)] < done.size())
      return false;
    if (llvm::any_of(putsFor(moment), [&](const Moment &put) { return done[size_t(put.rank)] <= put.time; }))
      return false;
    if (event && event->kind == EventKind::Signal)
      ++sent[channel(event->semaphore, rank, peer)];
    bool isCall = !event && moment.time % stepsPerCall(rank) == 0 && moment.time != 0;
    bool isOrdering = event && (event->kind == EventKind::Wait || event->kind == EventKind::Signal ||
                                event->kind == EventKind::Enter || readsPackets(event));
    if (isCall || isOrdering) {
      Operation *op = opAt(moment);
      steps.push_back(
          {rank, callOf(moment), describe(moment), op ? op->getLoc() : Location(tracer.program().program.getLoc())});
    }
    Moment next{moment.rank, ++done[size_t(rank)]};
    if (const Event *after = eventAt(next); after && after->kind == EventKind::Enter)
      ++numAtEnter[callOf(next)];
    return true;
  };
  for (bool didStep = true; didStep;) {
    didStep = false;
    for (size_t rank = 0; rank < needed.size(); ++rank)
      while (done[rank] < needed[rank] && takeStep(int64_t(rank)))
        didStep = true;
  }
  if (steps.size() > maxSteps) {
    size_t numLeftOut = steps.size() - maxSteps + 1;
    Step first = steps[numLeftOut - 1];
    first.text = "(" + std::to_string(numLeftOut) + " steps up to here, this one by rank " +
                 std::to_string(first.rank) + ") " + first.text;
    steps.erase(steps.begin(), steps.begin() + ptrdiff_t(numLeftOut));
    steps.insert(steps.begin(), first);
  }
  return steps;
}

std::string Interleaving::describe(const Moment &moment) const {
  const Event *event = eventAt(moment);
  if (!event)
    return moment.time % stepsPerCall(moment.rank) != 0 ? "its application reads its output"
           : callOf(moment) == 0                        ? "its application writes its buffers, before the first call"
                                                        : "its application writes its buffers again, between two calls";
  std::string peer = "rank " + std::to_string(traced.group.move(moment.rank, event->peer));
  std::string packets = readsPackets(event) ? " packets" : "";
  std::string semaphore = "semaphore " + std::to_string(event->semaphore);
  switch (event->kind) {
  case EventKind::Signal:
    return "signals " + semaphore + " of " + peer;
  case EventKind::Wait:
    return "waited for " + semaphore + " from " + peer;
  case EventKind::Put:
    return "puts to " + peer;
  case EventKind::Copy:
    return event->peer == traced.group.moveBack(moment.rank, moment.rank) ? "copies" + packets : "gets from " + peer;
  case EventKind::Reduce:
    return event->peer == traced.group.moveBack(moment.rank, moment.rank) ? "reduces" + packets
                                                                          : "reduces from " + peer;
  case EventKind::Divide:
    return "divides";
  case EventKind::Flush:
    return "flushes";
  case EventKind::Enter:
    return "enters, as all ranks do";
  }
  llvm_unreachable("every kind is handled");
}

} // namespace kolo
