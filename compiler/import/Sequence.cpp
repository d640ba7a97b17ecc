#include "compiler/import/Sequence.h"
#include "compiler/import/BlockRun.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace kolo::foreign {

namespace {

/// What one rank tells another: a signal and its wait.
struct SentMessage {
  int32_t sender, receiver;
  size_t signalStep, waitStep = 0; // of the two ranks
  bool isAwaited = false;
  std::vector<SequenceSlice> slices = {}; // at the receiver, of a message with data
};

class Sequencer {
public:
  explicit Sequencer(const ForeignSchedule &schedule);
  Sequence run(std::span<const Taken> order);

private:
  void begin();
  void take(const Action &action, int32_t rank);
  void move(const Action &action);
  void end();
  std::vector<SequenceSlice> gather(const Action &action);
  void gatherInto(const ChunkPlace &destination, const Action &action);
  void store(const std::vector<SequenceSlice> &values, const ChunkPlace &destination);
  std::vector<SequenceSlice> receive(int32_t connection);
  void send(int32_t connection, const std::vector<SequenceSlice> &values);
  void signal(int32_t semaphore);

  // Memory. A place of several chunks is given chunk by chunk.
  ChunkPlace resolved(const ChunkPlace &place) const { return resolve(schedule, isInPlace, place); }
  std::vector<SequenceSlice> slicesOf(const ChunkPlace &place, int32_t count) const;
  std::vector<SequenceSlice> makeSlices(const ChunkPlace &place, const std::vector<SequenceSlice> &values);
  SequenceSlice callerSlice(const ChunkPlace &place) const;
  std::vector<SequenceSlice> makeRoom(int32_t rank, BufferName buffer, const std::vector<SequenceSlice> &values);

  // Steps.
  SequenceStep &add(StepKind kind) {
    std::vector<SequenceStep> &steps = sequence.ranks[size_t(own)];
    SequenceStep &added = steps.emplace_back();
    added.kind = kind;
    added.line = line;
    return added;
  }
  void addMoves(StepKind kind, const std::vector<SequenceSlice> &from, const std::vector<SequenceSlice> &to,
                int32_t peer);
  void flushBefore(const SequenceSlice &first, int32_t count);
  void flush();
  void touch(int32_t owner);
  size_t announce(int32_t receiver);
  void await(size_t message);
  void numberSemaphores();
  [[noreturn]] void refuse(const std::string &message) const { throw Refusal{line, message}; }

  const ForeignSchedule &schedule;
  const bool isInPlace;
  Sequence sequence;
  int32_t own = 0, line = 0;
  std::vector<SentMessage> messages;
  std::vector<std::deque<size_t>> queues;              // by connection
  std::vector<std::deque<std::optional<size_t>>> told; // by semaphore; nothing: a signal inside of a rank
  std::map<ChunkPlace, size_t> packets;
  std::map<ChunkPlace, SequenceSlice> scratch;                         // what holds the value that was written last
  std::map<std::pair<ChunkPlace, int32_t>, SequenceSlice> scratchRoom; // for a chunk of this number
  std::map<std::tuple<int32_t, BufferName, int32_t>, int32_t> numUsed; // blocks, by rank and number of the chunk
  std::vector<std::set<SequenceSlice>> putSources;                     // that may still be read, by rank
  std::vector<std::set<int32_t>> putPeers;                             // to whom puts may be on their way
  std::set<std::pair<int32_t, int32_t>> hasEntered;                    // (who waited, for whom)
  std::vector<std::vector<int32_t>> entriesOf;                         // ranks that wait for this one to enter
};

} // namespace

Sequencer::Sequencer(const ForeignSchedule &schedule)
    : schedule(schedule), isInPlace(!schedule.runsOutOfPlace), queues(schedule.connections.size()),
      told(schedule.semaphores.size()), putSources(size_t(schedule.numRanks)), putPeers(size_t(schedule.numRanks)),
      entriesOf(size_t(schedule.numRanks)) {
  sequence.ranks.resize(size_t(schedule.numRanks));
  sequence.numBlocks[size_t(BufferName::Input)] = schedule.numInputBlocks();
  sequence.numBlocks[size_t(BufferName::Output)] = schedule.numOutputBlocks();
  sequence.mayRunInPlace = schedule.runsInPlace;
  line = schedule.line;
}

SequenceSlice Sequencer::callerSlice(const ChunkPlace &place) const {
  BufferName buffer = place.memory == Memory::Output ? BufferName::Output
                      : isInPlace                    ? BufferName::Work
                                                     : BufferName::Input;
  return {buffer, place.chunk / schedule.chunksPerBlock, place.chunk % schedule.chunksPerBlock};
}

std::vector<SequenceSlice> Sequencer::slicesOf(const ChunkPlace &place, int32_t count) const {
  std::vector<SequenceSlice> slices;
  for (int32_t chunk = 0; chunk < count; ++chunk) {
    ChunkPlace each = resolved({place.rank, place.memory, place.chunk + chunk});
    if (each.memory != Memory::Scratch) {
      slices.push_back(callerSlice(each));
      continue;
    }
    auto found = scratch.find(each);
    if (found == scratch.end())
      refuse(fmt::format("moves {}, which nobody has written", describe(schedule, each)));
    slices.push_back(found->second);
  }
  return slices;
}

/// Chunks of a buffer of which Kolo decides what lies where. A run stays one where it can.
std::vector<SequenceSlice> Sequencer::makeRoom(int32_t rank, BufferName buffer,
                                               const std::vector<SequenceSlice> &values) {
  int32_t block = 0;
  for (const SequenceSlice &value : values)
    block = std::max(block, numUsed[{rank, buffer, value.chunk}]);
  std::vector<SequenceSlice> room;
  for (const SequenceSlice &value : values) {
    room.push_back({buffer, block, value.chunk});
    numUsed[{rank, buffer, value.chunk}] = block + 1;
  }
  int32_t &numBlocks = sequence.numBlocks[size_t(buffer)];
  numBlocks = std::max(numBlocks, block + 1);
  return room;
}

/// Where values go that are written to this place.
std::vector<SequenceSlice> Sequencer::makeSlices(const ChunkPlace &place, const std::vector<SequenceSlice> &values) {
  std::vector<SequenceSlice> slices;
  for (size_t chunk = 0; chunk < values.size(); ++chunk) {
    ChunkPlace each = resolved({place.rank, place.memory, place.chunk + int32_t(chunk)});
    if (each.memory != Memory::Scratch) {
      slices.push_back(callerSlice(each));
    } else {
      auto [room, isNew] = scratchRoom.try_emplace({each, values[chunk].chunk});
      if (isNew)
        room->second = makeRoom(place.rank, BufferName::Scratch, {values[chunk]})[0];
      scratch[each] = room->second;
      slices.push_back(room->second);
    }
    if (slices.back().chunk != values[chunk].chunk)
      refuse(fmt::format("moves chunk {} of a block to chunk {} of one, which may have another size",
                         values[chunk].chunk, slices.back().chunk));
  }
  return slices;
}

void Sequencer::flush() {
  if (putSources[size_t(own)].empty() && putPeers[size_t(own)].empty())
    return;
  add(StepKind::Flush);
  putSources[size_t(own)].clear();
  putPeers[size_t(own)].clear();
}

void Sequencer::flushBefore(const SequenceSlice &first, int32_t count) {
  for (int32_t chunk = 0; chunk < count; ++chunk)
    if (putSources[size_t(own)].contains({first.buffer, first.block, first.chunk + chunk}))
      return flush();
}

/// Before this rank accesses another one's memory for the first time, that one has entered the call.
void Sequencer::touch(int32_t owner) {
  if (!hasEntered.emplace(own, owner).second)
    return;
  SequenceStep &wait = add(StepKind::Wait);
  wait.peer = owner;
  wait.isEntry = true;
  entriesOf[size_t(owner)].push_back(own);
}

/// Runs of chunks that follow each other at both ends. With a peer, a put goes there, and other moves read from there.
void Sequencer::addMoves(StepKind kind, const std::vector<SequenceSlice> &from, const std::vector<SequenceSlice> &to,
                         int32_t peer) {
  if (peer >= 0)
    touch(peer);
  auto follows = [](const SequenceSlice &slice, const SequenceSlice &before) {
    return slice == SequenceSlice{before.buffer, before.block, before.chunk + 1};
  };
  for (size_t first = 0, next = 0; first < from.size(); first = next) {
    for (next = first + 1;
         next < from.size() && follows(from[next], from[next - 1]) && follows(to[next], to[next - 1]);)
      ++next;
    if (kind == StepKind::Copy && peer < 0 && from[first] == to[first])
      continue;
    if (kind != StepKind::Put)
      flushBefore(to[first], int32_t(next - first));
    SequenceStep &step = add(kind);
    step.source = from[first];
    step.destination = to[first];
    step.count = int32_t(next - first);
    step.peer = peer;
    if (kind == StepKind::Put) {
      putSources[size_t(own)].insert(from.begin() + ptrdiff_t(first), from.begin() + ptrdiff_t(next));
      putPeers[size_t(own)].insert(peer);
    }
  }
}

size_t Sequencer::announce(int32_t receiver) {
  messages.push_back({own, receiver, sequence.ranks[size_t(own)].size()});
  add(StepKind::Signal).peer = receiver;
  return messages.size() - 1;
}

void Sequencer::await(size_t number) {
  SentMessage &message = messages[number];
  if (std::exchange(message.isAwaited, true))
    return;
  message.waitStep = sequence.ranks[size_t(own)].size();
  add(StepKind::Wait).peer = message.sender;
}

std::vector<SequenceSlice> Sequencer::receive(int32_t connection) {
  size_t message = queues[size_t(connection)].front();
  queues[size_t(connection)].pop_front();
  await(message);
  return messages[message].slices;
}

void Sequencer::send(int32_t connection, const std::vector<SequenceSlice> &values) {
  int32_t receiver = schedule.connections[size_t(connection)].receiver;
  std::vector<SequenceSlice> arrived = makeRoom(receiver, BufferName::Arrived, values);
  addMoves(StepKind::Put, values, arrived, receiver);
  size_t message = announce(receiver);
  messages[message].slices = std::move(arrived);
  queues[size_t(connection)].push_back(message);
}

/// Combines all sources in one of them, which is the destination, too, or in the destination.
void Sequencer::gatherInto(const ChunkPlace &destination, const Action &action) {
  auto isDestination = [&](const ChunkPlace &source) { return resolved(source) == resolved(destination); };
  bool isOneOfThem = std::ranges::any_of(action.sources, isDestination);
  std::vector<SequenceSlice> values = slicesOf(action.sources[0], action.count);
  std::vector<SequenceSlice> gathered =
      makeSlices(destination, isOneOfThem ? slicesOf(destination, action.count) : values);
  bool isFirst = !isOneOfThem;
  for (const ChunkPlace &source : action.sources) {
    if (isOneOfThem && isDestination(source))
      continue;
    std::vector<SequenceSlice> from = slicesOf(source, action.count);
    for (size_t chunk = 0; chunk < from.size(); ++chunk)
      if (from[chunk].chunk != gathered[chunk].chunk)
        refuse(
            fmt::format("combines chunk {} of a block with chunk {} of one", from[chunk].chunk, gathered[chunk].chunk));
    addMoves(isFirst ? StepKind::Copy : StepKind::Reduce, from, gathered, source.rank == own ? -1 : source.rank);
    isFirst = false;
  }
}

std::vector<SequenceSlice> Sequencer::gather(const Action &action) {
  bool isLocal = action.sources.size() == 1 && action.sources[0].rank == own;
  if (isLocal)
    return slicesOf(action.sources[0], action.count);
  if (action.destinations.empty() || action.destinations[0].rank != own)
    refuse("combines values that no memory of this rank holds");
  gatherInto(action.destinations[0], action);
  return slicesOf(action.destinations[0], action.count);
}

void Sequencer::store(const std::vector<SequenceSlice> &values, const ChunkPlace &destination) {
  std::vector<SequenceSlice> slices = makeSlices(destination, values);
  if (destination.rank == own)
    return addMoves(StepKind::Copy, values, slices, -1);
  addMoves(StepKind::Put, values, slices, destination.rank);
}

void Sequencer::move(const Action &action) {
  std::vector<SequenceSlice> values;
  if (action.receives >= 0) {
    values = receive(action.receives);
    bool isCombinedThere = action.destinations.size() == 1 && action.sources.size() == 1 && action.sends < 0 &&
                           resolved(action.sources[0]) == resolved(action.destinations[0]);
    if (isCombinedThere)
      return addMoves(StepKind::Reduce, values, slicesOf(action.destinations[0], action.count), -1);
    for (const ChunkPlace &source : action.sources)
      addMoves(StepKind::Reduce, slicesOf(source, action.count), values, -1);
  } else {
    values = gather(action);
  }
  for (const ChunkPlace &destination : action.destinations)
    store(values, destination);
  if (action.sends >= 0)
    send(action.sends, values);
}

/// What was put to a third rank has arrived there, too, when this rank's signal arrives.
void Sequencer::signal(int32_t semaphore) {
  int32_t receiver = schedule.semaphores[size_t(semaphore)].rank;
  if (receiver == own) {
    told[size_t(semaphore)].push_back(std::nullopt);
    return;
  }
  if (std::ranges::any_of(putPeers[size_t(own)], [&](int32_t peer) { return peer != receiver; }))
    flush();
  told[size_t(semaphore)].push_back(announce(receiver));
}

void Sequencer::take(const Action &action, int32_t rank) {
  own = rank;
  line = action.line;
  for (int32_t semaphore : action.acquires) {
    std::optional<size_t> message = told[size_t(semaphore)].front();
    told[size_t(semaphore)].pop_front();
    if (message)
      await(*message);
  }
  for (ChunkPlace place : action.sources)
    for (int32_t chunk = 0; place.isPackets && chunk < action.count; ++chunk, ++place.chunk)
      if (auto found = packets.find(place); found != packets.end())
        await(found->second);
  if (action.isMove())
    move(action);
  std::map<int32_t, size_t> announced; // by receiver
  for (ChunkPlace place : action.destinations)
    for (int32_t chunk = 0; place.isPackets && place.rank != own && chunk < action.count; ++chunk, ++place.chunk) {
      if (!announced.contains(place.rank))
        announced[place.rank] = announce(place.rank);
      packets[place] = announced[place.rank];
    }
  for (int32_t semaphore : action.signals)
    signal(semaphore);
}

/// In a call in place, the input lies in the memory that the schedule changes. Any other call copies it there first.
void Sequencer::begin() {
  if (!isInPlace)
    return;
  bool usesWork = schedule.collective == Collective::ReduceScatter;
  if (usesWork)
    sequence.numBlocks[size_t(BufferName::Work)] = schedule.numInputBlocks();
  for (own = 0; own < schedule.numRanks; ++own)
    for (int32_t block = 0; block < schedule.numInputBlocks(); ++block) {
      SequenceStep &copy = add(StepKind::Copy);
      ChunkPlace there = resolved({own, Memory::Input, block * schedule.chunksPerBlock});
      copy.source = {BufferName::Input, block, 0};
      copy.destination = callerSlice(there);
      copy.count = schedule.chunksPerBlock;
    }
}

void Sequencer::end() {
  line = schedule.line;
  for (size_t message = 0; message < messages.size(); ++message) { // packets that nobody read
    own = messages[message].receiver;
    await(message);
  }
  bool usesWork = isInPlace && schedule.collective == Collective::ReduceScatter;
  bool combines = schedule.collective == Collective::AllReduce || schedule.collective == Collective::ReduceScatter;
  for (own = 0; own < schedule.numRanks; ++own) {
    if (usesWork) {
      SequenceStep &copy = add(StepKind::Copy);
      copy.source = callerSlice(resolved({own, Memory::Output, 0}));
      copy.destination = {BufferName::Output, 0, 0};
      copy.count = schedule.chunksPerBlock;
    }
    add(StepKind::Flush);
    if (combines) {
      SequenceStep &divide = add(StepKind::Divide);
      divide.destination = {BufferName::Output, 0, 0};
      divide.count = schedule.chunksPerBlock;
    }
  }
}

/// The k-th wait for a semaphore takes the k-th signal. So messages that a pair of ranks sends and awaits in one order
/// share one; the first that fits is taken.
void Sequencer::numberSemaphores() {
  std::map<std::pair<int32_t, int32_t>, std::vector<size_t>> lastWaits; // by pair: of each semaphore
  sequence.numSemaphores = 1;
  for (const SentMessage &message : messages) {
    std::vector<size_t> &waits = lastWaits[{message.sender, message.receiver}];
    auto fits = std::ranges::find_if(waits, [&](size_t last) { return last < message.waitStep; });
    if (fits == waits.end())
      fits = waits.insert(waits.end(), 0);
    *fits = message.waitStep;
    auto number = int32_t(fits - waits.begin()) + 1;
    sequence.ranks[size_t(message.sender)][message.signalStep].semaphore = number;
    sequence.ranks[size_t(message.receiver)][message.waitStep].semaphore = number;
    sequence.numSemaphores = std::max(sequence.numSemaphores, number + 1);
  }
}

Sequence Sequencer::run(std::span<const Taken> order) {
  begin();
  std::vector<size_t> entryAt; // where a rank has entered
  for (const std::vector<SequenceStep> &steps : sequence.ranks)
    entryAt.push_back(steps.size());
  for (const Taken &each : order) {
    const Thread &thread = schedule.threads[size_t(each.thread)];
    take(thread.actions[size_t(each.action)], thread.rank);
  }
  end();
  numberSemaphores();
  for (int32_t rank = 0; rank < schedule.numRanks; ++rank) {
    std::vector<SequenceStep> entries;
    for (int32_t peer : entriesOf[size_t(rank)]) {
      SequenceStep &entry = entries.emplace_back();
      entry.kind = StepKind::Signal;
      entry.line = schedule.line;
      entry.peer = peer;
      entry.isEntry = true;
    }
    std::vector<SequenceStep> &steps = sequence.ranks[size_t(rank)];
    steps.insert(steps.begin() + ptrdiff_t(entryAt[size_t(rank)]), entries.begin(), entries.end());
  }
  return std::move(sequence);
}

std::variant<Sequence, Refusal> makeSequence(const ForeignSchedule &schedule, std::span<const Taken> order) {
  try {
    return Sequencer(schedule).run(order);
  } catch (Refusal &refusal) {
    return std::move(refusal);
  }
}

} // namespace kolo::foreign
