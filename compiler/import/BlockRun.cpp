// The order of a run: what a thread waits for, and what it then knows to be over.
#include "compiler/import/BlockRun.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace kolo::foreign {

const char *shortName(Property property) {
  static constexpr const char *names[] = {"V6", "V4", "V2", "V1", "V5", "V7"};
  return names[size_t(property)];
}

const char *title(Property property) {
  static constexpr const char *names[] = {
      "in bounds", "no deadlock", "no data race", "right result", "signals and waits balance", "safe back to back"};
  return names[size_t(property)];
}

void join(BlockClock &clock, const BlockClock &other) {
  std::ranges::transform(clock, other, clock.begin(), [](uint32_t a, uint32_t b) { return std::max(a, b); });
}

void join(BlockClock &clock, const SharedClock &other) {
  if (other)
    join(clock, *other);
}

double BlockRun::bytesNeeded(const ForeignSchedule &schedule) {
  double numClocks = double(schedule.threads.size()) + schedule.numRanks;
  double numKept = numClocks;
  for (const Thread &thread : schedule.threads)
    for (const Action &action : thread.actions)
      numKept += double(!action.raises.empty() || !action.signals.empty() || action.sends >= 0) + 0.01;
  return numClocks * numKept * sizeof(uint32_t);
}

BlockRun::BlockRun(const ForeignSchedule &schedule, bool isInPlace)
    : schedule(schedule), isInPlace(isInPlace), calls(schedule.hasTwoPacketBuffers ? 3 : 2),
      queues(schedule.connections.size()),
      events{std::vector<SharedClock>(size_t(schedule.numEvents) * size_t(calls)), size_t(calls)},
      counters(schedule.semaphores.size()) {
  size_t numClocks = schedule.threads.size() + size_t(schedule.numRanks);
  progress.assign(numClocks, {0, Clock(numClocks), 0});
  ranks.resize(size_t(schedule.numRanks));
  threadsOf.resize(size_t(schedule.numRanks));
  for (size_t thread = 0; thread < schedule.threads.size(); ++thread) {
    const Thread &text = schedule.threads[thread];
    if (text.isProxy)
      continue;
    threadsOf[size_t(text.rank)].push_back(int32_t(thread));
    ++ranks[size_t(text.rank)].numThreads;
  }
  cells.resize(size_t(schedule.numRanks));
  for (int32_t rank = 0; rank < schedule.numRanks; ++rank)
    cells[size_t(rank)].resize(
        size_t(schedule.numChunks(rank, Memory::Input)) + size_t(schedule.numChunks(rank, Memory::Output)) +
        size_t(schedule.hasTwoPacketBuffers ? 2 : 1) * size_t(schedule.numChunks(rank, Memory::Scratch)));
  countSignallers();
}

void BlockRun::countSignallers() {
  std::vector<int32_t> signallers(counters.size(), -1);
  for (size_t semaphore = 0; semaphore < counters.size(); ++semaphore)
    counters[semaphore].signals.resize(size_t(schedule.semaphores[semaphore].initial)); // they tell nothing
  for (size_t thread = 0; thread < schedule.threads.size(); ++thread)
    for (const Action &action : schedule.threads[thread].actions)
      for (int32_t semaphore : action.signals) {
        BlockCounter &counter = counters[size_t(semaphore)];
        int32_t &signaller = signallers[size_t(semaphore)];
        counter.hasOneSignaller &= signaller < 0 || signaller == int32_t(thread);
        signaller = int32_t(thread);
        ++counter.numPerCall;
      }
}

void BlockRun::run() {
  for (int32_t rank = 0; rank < schedule.numRanks; ++rank)
    startCall(rank);
  for (bool didAdvance = true; didAdvance;) {
    didAdvance = false;
    for (int32_t thread = 0; thread < int32_t(schedule.threads.size()); ++thread)
      didAdvance |= advance(thread);
    for (int32_t rank = 0; rank < schedule.numRanks; ++rank) {
      RankProgress &own = ranks[size_t(rank)];
      if (own.call == calls || own.numEnded < own.numThreads)
        continue;
      endCall(rank);
      didAdvance = true;
    }
  }
  findBlocked();
}

/// Of its call. A proxy goes on with the next one, whose first action waits until it is told.
bool BlockRun::endThread(int32_t thread) {
  const Thread &text = schedule.threads[size_t(thread)];
  BlockProgress &own = progress[size_t(thread)];
  if (text.isProxy) {
    if (own.call + 1 == calls)
      return false;
    ++own.call;
    own.next = 0;
    return true;
  }
  if (own.next > text.actions.size())
    return false;
  ++ranks[size_t(text.rank)].numEnded;
  ++own.next;
  return true;
}

/// One action, so that the order of the first call is about that of threads that run side by side.
bool BlockRun::advance(int32_t thread) {
  const Thread &text = schedule.threads[size_t(thread)];
  BlockProgress &own = progress[size_t(thread)];
  if (own.next >= text.actions.size())
    return endThread(thread);
  const Action &action = text.actions[own.next];
  if (!isReady(thread, action))
    return false;
  take(thread, action);
  if (own.call == 0)
    takenOrder.push_back({thread, int32_t(own.next)});
  ++own.next;
  return true;
}

bool BlockRun::hasPackets(const ChunkPlace &place, int32_t count, int32_t call) const {
  for (int32_t chunk = 0; chunk < count; ++chunk)
    if (cells[size_t(place.rank)][cellIndex({place.rank, place.memory, place.chunk + chunk, true}, call)].packetCall !=
        call)
      return false;
  return true;
}

bool BlockRun::isReady(int32_t thread, const Action &action) const {
  int32_t call = progress[size_t(thread)].call;
  for (int32_t event : action.waits)
    if (!events.at(event, call))
      return false;
  for (const ProxyProgress &wanted : action.flushes)
    if (!progress[size_t(wanted.thread)].hasDone(wanted.numActions, call))
      return false;
  for (int32_t semaphore : action.acquires)
    if (size_t(counters[size_t(semaphore)].numTaken) >= counters[size_t(semaphore)].signals.size())
      return false;
  for (const ChunkPlace &place : action.sources)
    if (place.isPackets && !hasPackets(place, action.count, call))
      return false;
  return action.receives < 0 || !queues[size_t(action.receives)].empty();
}

/// Who takes a signal knows which one only if one thread signals, or if these were all signals of the call.
void BlockRun::joinSemaphore(Clock &clock, int32_t semaphore, int32_t call, bool isRelaxed) {
  auto learn = [&](Told &told) {
    join(clock, isRelaxed ? told.start : told.all);
    told = {};
  };
  BlockCounter &counter = counters[size_t(semaphore)];
  auto number = size_t(counter.numTaken++);
  if (counter.hasOneSignaller) {
    learn(counter.signals[number]);
  } else if (counter.numTaken == schedule.semaphores[size_t(semaphore)].initial + counter.numPerCall * (call + 1)) {
    std::ranges::for_each(counter.signals, learn);
  }
}

static Content combine(const Content &a, const Content &b) {
  if (!a || !b)
    return nullptr;
  Contributions sum;
  auto key = [](const BlockContribution &each) { return std::tuple(each.call, each.rank, each.chunk); };
  size_t i = 0, j = 0;
  while (i < a->size() || j < b->size()) {
    bool takesA = j == b->size() || (i < a->size() && key((*a)[i]) <= key((*b)[j]));
    const BlockContribution &next = takesA ? (*a)[i++] : (*b)[j++];
    if (!sum.empty() && key(sum.back()) == key(next))
      sum.back().times += next.times;
    else
      sum.push_back(next);
  }
  return std::make_shared<const Contributions>(std::move(sum));
}

std::vector<Content> BlockRun::readSources(int32_t thread, const Action &action, const BlockMessage *message) {
  int32_t call = progress[size_t(thread)].call;
  BlockAccess now{thread, int32_t(progress[size_t(thread)].next), call, clockOf(thread)[size_t(thread)] + 1};
  std::vector<Content> values(size_t(action.count));
  for (int32_t chunk = 0; chunk < action.count; ++chunk) {
    Content &value = values[size_t(chunk)];
    bool isFirst = true;
    if (message) {
      value = chunk < message->count ? message->values[size_t(chunk)] : nullptr;
      isFirst = false;
    }
    for (ChunkPlace place : action.sources) {
      place.chunk += chunk;
      read(place, thread, now);
      const Content &other = cell(place, call).value;
      value = isFirst ? other : combine(value, other);
      isFirst = false;
    }
  }
  return values;
}

void BlockRun::take(int32_t thread, const Action &action) {
  int32_t call = progress[size_t(thread)].call;
  Clock &clock = clockOf(thread);
  for (int32_t event : action.waits)
    join(clock, events.at(event, call));
  for (const ProxyProgress &done : action.flushes)
    join(clock, clockOf(done.thread));
  for (int32_t semaphore : action.acquires)
    joinSemaphore(clock, semaphore, call, action.isRelaxed);
  for (ChunkPlace place : action.sources)
    for (int32_t chunk = 0; place.isPackets && chunk < action.count; ++chunk, ++place.chunk)
      join(clock, cell(place, call).packetClock);
  std::optional<BlockMessage> message;
  if (action.receives >= 0) {
    message = std::move(queues[size_t(action.receives)].front());
    queues[size_t(action.receives)].pop_front();
    join(clock, message->clock);
    if (message->count != action.count)
      reportLength(thread, action, *message);
  }
  std::vector<Content> values = readSources(thread, action, message ? &*message : nullptr);
  BlockAccess now{thread, int32_t(progress[size_t(thread)].next), call, clock[size_t(thread)] + 1};
  Clock after = clock;
  after[size_t(thread)] = now.time;
  SharedClock known;
  for (ChunkPlace place : action.destinations)
    for (int32_t chunk = 0; chunk < action.count; ++chunk, ++place.chunk) {
      write(place, thread, now, values[size_t(chunk)]);
      if (!place.isPackets)
        continue;
      known = known ? known : std::make_shared<const Clock>(after);
      int32_t written = call;
      if (ChunkPlace source = action.copiesPackets ? action.sources[0] : place; action.copiesPackets) {
        source.chunk += chunk;
        written = cell(source, call).packetCall;
      }
      // Who reads packets that were written twice may have read the first ones.
      BlockCell &packets = cell(place, call);
      if (packets.packetCall == written && written == call)
        continue;
      packets.packetCall = written;
      packets.packetClock = known;
    }
  if (!known && (action.sends >= 0 || !action.signals.empty() || (!action.raises.empty() && !action.mayStillRead)))
    known = std::make_shared<const Clock>(after);
  if (action.sends >= 0)
    queues[size_t(action.sends)].push_back({action.count, action.line, call, std::move(values), known});
  for (int32_t semaphore : action.signals) {
    const SharedClock &start = ranks[size_t(schedule.threads[size_t(thread)].rank)].starts[size_t(call)];
    counters[size_t(semaphore)].signals.push_back({action.isRelaxed ? start : known, start});
  }
  for (int32_t event : action.raises)
    events.at(event, call) = action.mayStillRead ? std::make_shared<const Clock>(clock) : known;
  clock[size_t(thread)] = now.time;
}

void BlockRun::reportLength(int32_t thread, const Action &action, const BlockMessage &message) {
  std::string text = fmt::format("receives {} chunks of a message that has {}", action.count, message.count);
  Finding finding{Property::Bounds, text, action.line, message.line, "the message"};
  int32_t rank = schedule.threads[size_t(thread)].rank, sender = schedule.connections[size_t(action.receives)].sender;
  finding.steps = {{sender, message.call, message.line, fmt::format("sends {} chunks", message.count)},
                   {rank, ranks[size_t(rank)].call, action.line, text}};
  report(std::move(finding));
}

void BlockRun::startCall(int32_t rank) {
  RankProgress &own = ranks[size_t(rank)];
  int32_t application = this->application(rank);
  Clock &clock = clockOf(application);
  BlockAccess now{application, 0, own.call, ++clock[size_t(application)]};
  for (Memory memory : {Memory::Output, Memory::Input})
    for (int32_t chunk = 0; chunk < schedule.numChunks(rank, memory); ++chunk) {
      Content value;
      if (memory == Memory::Input)
        value = std::make_shared<const Contributions>(Contributions{{own.call, rank, chunk, 1}});
      write(resolve(schedule, isInPlace, {rank, memory, chunk}), application, now, value);
    }
  auto shared = std::make_shared<const Clock>(clock);
  for (int32_t thread : threadsOf[size_t(rank)]) {
    join(clockOf(thread), shared);
    progress[size_t(thread)].next = 0;
    progress[size_t(thread)].call = own.call;
  }
  own.starts.push_back(shared);
  own.numEnded = 0;
}

/// The application reads its output, and calls again.
void BlockRun::endCall(int32_t rank) {
  RankProgress &own = ranks[size_t(rank)];
  int32_t application = this->application(rank);
  Clock &clock = clockOf(application);
  for (int32_t thread : threadsOf[size_t(rank)])
    join(clock, clockOf(thread));
  BlockAccess now{application, 0, own.call, ++clock[size_t(application)]};
  for (int32_t chunk = 0; chunk < schedule.numChunks(rank, Memory::Output); ++chunk) {
    read(resolve(schedule, isInPlace, {rank, Memory::Output, chunk}), application, now);
    checkOutput(rank, chunk, own.call);
  }
  if (++own.call < calls)
    startCall(rank);
}

std::string BlockRun::describeBlocked(int32_t thread, const Action &action) const {
  const Thread &text = schedule.threads[size_t(thread)];
  std::string where = fmt::format("{} of rank {} waits at line {} ", text.name, text.rank, action.line);
  int32_t call = progress[size_t(thread)].call;
  for (int32_t event : action.waits)
    if (!events.at(event, call))
      return where + "for another one";
  for (int32_t semaphore : action.acquires)
    if (size_t(counters[size_t(semaphore)].numTaken) >= counters[size_t(semaphore)].signals.size())
      return where + "for " + schedule.semaphores[size_t(semaphore)].name;
  if (action.receives >= 0 && queues[size_t(action.receives)].empty())
    return where + fmt::format("for a message of rank {}", schedule.connections[size_t(action.receives)].sender);
  return where + "for packets";
}

void BlockRun::findBlocked() {
  Finding finding{Property::Deadlock};
  int32_t numBlocked = 0;
  for (int32_t thread = 0; thread < int32_t(schedule.threads.size()); ++thread) {
    const Thread &text = schedule.threads[size_t(thread)];
    bool hasEnded = text.isProxy || ranks[size_t(text.rank)].call == calls;
    if (hasEnded || progress[size_t(thread)].next >= text.actions.size())
      continue; // a proxy waits until it is told
    const Action &action = text.actions[progress[size_t(thread)].next];
    std::string where = describeBlocked(thread, action);
    if (++numBlocked <= 4)
      finding.message += (finding.message.empty() ? "" : "; ") + where;
    finding.line = finding.line == 0 ? action.line : finding.line;
    finding.steps.push_back({text.rank, ranks[size_t(text.rank)].call, action.line, where});
  }
  if (numBlocked > 4)
    finding.message += fmt::format("; and {} more", numBlocked - 4);
  if (numBlocked > 0)
    report(std::move(finding));
}

} // namespace kolo::foreign
