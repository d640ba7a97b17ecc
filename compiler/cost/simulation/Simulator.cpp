#include "compiler/cost/simulation/Simulator.h"
#include "compiler/cost/simulation/EventQueue.h"
#include "compiler/cost/simulation/History.h"
#include "compiler/cost/simulation/Pool.h"
#include "compiler/cost/simulation/Symmetry.h"

#include <cmath>
#include <unordered_map>

namespace kolo::cost {

namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr size_t mostReserved = size_t(1) << 16; // transfers

class Simulator {
public:
  Simulator(const Workload &workload, const SimulatedNetwork &network, Timeline *timeline,
            const SimulatorLimits &limits);
  SimulationResult run();

private:
  using Kind = Instruction::Kind;
  using Chain = History::Chain;

  enum class State : uint8_t { Ready, InTransfer, InWait, InFlush, InMeeting, Ended };
  struct Rank {
    const RankProgram *program;
    uint32_t firstChannel, firstSlot;
    uint32_t position = 0; // of the next instruction
    uint32_t call = 0;
    uint32_t numFlows = 0; // that do not block
    State state = State::Ready;
    uint64_t awaited = 0; // signals
    Chain chain = History::empty;
    double since = 0; // in this state
  };
  /// Of one rank to one peer. Its transfers belong to epochs; every signal that has to wait for some ends one.
  struct Channel {
    uint32_t peer;
    uint32_t oldest = none, newest = none; // epochs
    double latency;
  };
  struct Epoch {
    uint32_t numFlows = 0;
    uint32_t firstSignal = none, lastSignal = none; // that leave once this epoch, and the ones before, have no flows
    uint32_t next = none;
  };
  struct PendingSignal {
    const Instruction *instruction;
    uint32_t next;
  };
  /// What a flow's end means for a channel.
  struct Arrival {
    uint32_t channel, epoch, next;
  };
  struct FlowInfo {
    const Instruction *instruction = nullptr;
    uint32_t rank = 0;
    uint32_t firstArrival = none;
    Chain chain = History::empty;
    double begin = 0;
  };
  struct Event {
    enum class Kind : uint8_t { Arrival, Meeting };
    Kind kind;
    uint32_t slot;   // of an arrival
    Chain chain;     // up to it
    uint32_t record; // of an arrival: what it announces
  };
  void reserveTransfers(size_t number);
  void handle(const Event &event);
  void runRank(uint32_t rank);
  bool step(uint32_t rank, const Instruction &instruction);
  bool startTransfer(uint32_t rank, const Instruction &instruction);
  void findUses(uint32_t rank, const Instruction &instruction);
  void addArrivals(uint32_t rank, const Instruction &instruction, FlowInfo &flow);
  void endFlow(uint32_t flow);
  void endArrival(const Arrival &arrival, uint32_t rank, Chain chain, uint32_t record);
  void signal(uint32_t rank, const Instruction &instruction);
  void send(uint32_t rank, const Instruction &instruction, Chain chain, uint32_t record);
  bool wait(uint32_t rank, const Instruction &instruction);
  bool flush(uint32_t rank);
  bool enter(uint32_t rank);
  bool nextCall(Rank &rank);
  void wake(uint32_t rank, Chain chain);
  bool advance();
  void block(Rank &rank, State state) {
    rank.state = state;
    rank.since = now;
  }
  uint32_t record(Record::Kind kind, uint32_t rank, uint32_t statement, double begin, int64_t bytes = 0);
  void recordWait(uint32_t rank, const Instruction &instruction);
  uint32_t standInFor(uint32_t rank) const { return symmetry ? symmetry->rankOf[rank] : rank; }
  bool isGivenUp() const { return result.hasTooManyFlows || result.hasTooManyRecords; }
  void conclude();

  const Workload &workload;
  const SimulatedNetwork &network;
  Timeline *timeline;
  SimulatorLimits limits;
  std::optional<NetworkSymmetry> symmetry; // one rank stands for several: only it is simulated
  SimulationResult result;

  std::span<const double> bandwidths;
  FlowSharing sharing;
  EventQueue<Event> queue;
  History history;
  double now = 0;
  std::vector<Rank> ranks;
  std::vector<Channel> channels;
  std::vector<uint64_t> slots; // signals that have arrived
  std::vector<uint32_t> slotOwner;
  Pool<Epoch> epochs;
  Pool<PendingSignal> pending;
  Pool<Arrival> arrivals;
  std::vector<FlowInfo> flows;
  std::vector<uint32_t> ready;
  std::vector<uint32_t> ended; // flows, and events, of this moment
  std::vector<Event> events;
  uint32_t numSimulated = 0, numInMeeting = 0, lastRank = 0;
  std::vector<PeerLeg> legs;
  std::vector<ResourceUse> uses;
  std::unordered_map<uint64_t, uint32_t> announced; // by slot and number of a signal: what it announces
};

void Simulator::reserveTransfers(size_t number) {
  sharing.reserve(number);
  flows.reserve(number);
  epochs.all.reserve(number);
  pending.all.reserve(number);
  arrivals.all.reserve(number);
  history.reserve(2 * number);
}

Simulator::Simulator(const Workload &workload, const SimulatedNetwork &network, Timeline *timeline,
                     const SimulatorLimits &limits)
    : workload(workload), network(network), timeline(timeline), limits(limits), bandwidths(network.bandwidths()),
      sharing(bandwidths) {
  if (!timeline)
    symmetry = findSymmetry(workload, network);
  uint32_t numRanks = uint32_t(workload.programOf.size());
  size_t numTransfers = 0; // that may be under way at a time
  ranks.reserve(numRanks);
  for (uint32_t number = 0; number < numRanks; ++number) {
    const RankProgram &program = workload.programs[workload.programOf[number]];
    ranks.push_back({&program, uint32_t(channels.size()), uint32_t(slots.size())});
    if (standInFor(number) != number) {
      ranks.back().state = State::Ended;
      continue;
    }
    ++numSimulated;
    numTransfers += numAtOnce(program);
    for (uint32_t channel = 0; channel < program.numChannels; ++channel) {
      uint32_t peer = workload.peerOf(number, channel);
      channels.push_back({peer, none, none, network.latency(number, peer)});
    }
    slots.resize(slots.size() + program.signalsToSlot.size());
    slotOwner.resize(slots.size(), number);
    ready.push_back(number);
  }
  reserveTransfers(std::min(numTransfers, mostReserved));
  result.statements.resize(workload.numStatements);
}

uint32_t Simulator::record(Record::Kind kind, uint32_t rank, uint32_t statement, double begin, int64_t bytes) {
  if (!timeline)
    return none;
  if (timeline->records.size() >= limits.mostRecords)
    result.hasTooManyRecords = true;
  timeline->records.push_back({kind, rank, statement, begin, now, bytes});
  return uint32_t(timeline->records.size() - 1);
}

/// The lane goes on, whose time since it stopped is what `chain` says; takes over a share of it.
void Simulator::wake(uint32_t number, Chain chain) {
  Rank &rank = ranks[number];
  history.release(rank.chain);
  rank.chain = chain;
  rank.state = State::Ready;
  ready.push_back(number);
}

void Simulator::recordWait(uint32_t number, const Instruction &instruction) {
  if (!timeline)
    return;
  const Rank &rank = ranks[number];
  uint32_t wait =
      record(Record::Kind::Wait, number, instruction.statement, rank.state == State::InWait ? rank.since : now);
  auto found = announced.find(uint64_t(rank.firstSlot + instruction.first) << 32 | rank.awaited);
  timeline->arrows.push_back({found->second, wait});
  announced.erase(found);
}

void Simulator::handle(const Event &event) {
  switch (event.kind) {
  case Event::Kind::Arrival: {
    uint64_t number = ++slots[event.slot];
    uint32_t owner = slotOwner[event.slot];
    Rank &rank = ranks[owner];
    if (timeline)
      announced[uint64_t(event.slot) << 32 | number] = event.record;
    const Instruction &at = rank.program->code[rank.position];
    bool isAwaited = rank.state == State::InWait && rank.firstSlot + at.first == event.slot && number >= rank.awaited;
    if (!isAwaited) {
      history.release(event.chain);
      break;
    }
    recordWait(owner, at);
    ++rank.position;
    wake(owner, event.chain);
    break;
  }
  case Event::Kind::Meeting:
    numInMeeting = 0;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].state != State::InMeeting)
        continue;
      record(Record::Kind::Enter, rank, ranks[rank].program->code[ranks[rank].position].statement, ranks[rank].since);
      ++ranks[rank].position;
      wake(rank, history.share(event.chain));
    }
    history.release(event.chain);
  }
}

/// Whether the rank goes on with the next call.
bool Simulator::nextCall(Rank &rank) {
  rank.position = 0;
  if (++rank.call < uint64_t(workload.numCalls))
    return true;
  rank.state = State::Ended;
  return false;
}

void Simulator::runRank(uint32_t number) {
  Rank &rank = ranks[number];
  while (rank.state == State::Ready && !isGivenUp()) {
    if (rank.position == rank.program->code.size()) {
      if (!nextCall(rank) || rank.program->code.empty())
        break;
      continue;
    }
    if (step(number, rank.program->code[rank.position]))
      ++rank.position;
  }
  if (rank.state == State::Ended || rank.program->code.empty()) {
    rank.state = State::Ended;
    lastRank = number; // time does not go back: the last one so far
    result.seconds = now;
  }
}

/// False where the lane stops there.
bool Simulator::step(uint32_t rank, const Instruction &instruction) {
  switch (instruction.kind) {
  case Kind::Transfer:
    return startTransfer(rank, instruction);
  case Kind::Signal:
    signal(rank, instruction);
    return true;
  case Kind::Wait:
    return wait(rank, instruction);
  case Kind::Flush:
    return flush(rank);
  case Kind::Enter:
    return enter(rank);
  }
  return true;
}

/// What the transfer takes of resources that have a limit; counts what it takes of all.
void Simulator::findUses(uint32_t number, const Instruction &instruction) {
  const Rank &rank = ranks[number];
  legs.clear();
  for (const Leg &leg : std::span(rank.program->legs).subspan(instruction.first, instruction.number))
    legs.push_back(
        {leg.kind, leg.isPackets, channels.empty() ? 0 : channels[rank.firstChannel + leg.channel].peer, leg.bytes});
  uses.clear();
  network.addUses(number, instruction, legs, uses);
  if (symmetry)
    fold(*symmetry, uses);
  SimulatedStatement &statement = result.statements[instruction.statement];
  std::span<const double> bytesPerMessage = network.bytesPerMessage();
  if (statement.bytes.empty()) {
    statement.bytes.resize(bandwidths.size());
    statement.messages.resize(bytesPerMessage.size());
  }
  for (ResourceUse &use : uses) {
    statement.bytes[use.resource] += use.load * double(instruction.bytes);
    if (bytesPerMessage.empty() || instruction.bytes == 0)
      continue;
    statement.messages[use.resource] += use.messages;
    use.load += use.messages * bytesPerMessage[use.resource] / double(instruction.bytes);
  }
  std::erase_if(uses, [&](const ResourceUse &use) { return std::isinf(bandwidths[use.resource]); });
}

bool Simulator::startTransfer(uint32_t number, const Instruction &instruction) {
  Rank &rank = ranks[number];
  findUses(number, instruction);
  result.numTransfers += symmetry ? symmetry->numAlike : 1;
  if (instruction.bytes == 0 || uses.empty())
    return true;
  if (sharing.numFlows() >= limits.mostFlows) {
    result.hasTooManyFlows = true;
    return false;
  }
  uint32_t flow = sharing.start(double(instruction.bytes), uses);
  if (flow >= flows.size())
    flows.resize(flow + 1);
  FlowInfo &info = flows[flow];
  info = {&instruction, number, none, history.share(rank.chain), now};
  if (instruction.blocks) {
    block(rank, State::InTransfer);
    return false;
  }
  ++rank.numFlows;
  addArrivals(number, instruction, info);
  return true;
}

void Simulator::addArrivals(uint32_t number, const Instruction &instruction, FlowInfo &info) {
  const Rank &rank = ranks[number];
  for (const Leg &leg : std::span(rank.program->legs).subspan(instruction.first, instruction.number)) {
    if (leg.kind != Leg::Kind::WritePeer)
      continue;
    Channel &channel = channels[rank.firstChannel + leg.channel];
    if (channel.newest == none || epochs[channel.newest].firstSignal != none) {
      uint32_t epoch = epochs.add({});
      (channel.newest == none ? channel.oldest : epochs[channel.newest].next) = epoch;
      channel.newest = epoch;
    }
    ++epochs[channel.newest].numFlows;
    info.firstArrival = arrivals.add({rank.firstChannel + leg.channel, channel.newest, info.firstArrival});
  }
}

void Simulator::endFlow(uint32_t flow) {
  FlowInfo &info = flows[flow];
  const Instruction &instruction = *info.instruction;
  Rank &rank = ranks[info.rank];
  Chain chain = history.extend(info.chain, instruction.statement, now - info.begin, false);
  uint32_t written = record(instruction.blocks ? Record::Kind::Move : Record::Kind::Put, info.rank,
                            instruction.statement, info.begin, instruction.bytes);
  for (uint32_t next = info.firstArrival; next != none;) {
    Arrival arrival = arrivals[next];
    arrivals.free.push_back(next);
    next = arrival.next;
    endArrival(arrival, info.rank, chain, written);
  }
  if (instruction.blocks) {
    ++rank.position;
    wake(info.rank, chain);
    return;
  }
  if (--rank.numFlows == 0 && rank.state == State::InFlush) {
    record(Record::Kind::Flush, info.rank, rank.program->code[rank.position].statement, rank.since);
    ++rank.position;
    wake(info.rank, chain);
    return;
  }
  history.release(chain);
}

void Simulator::endArrival(const Arrival &arrival, uint32_t rank, Chain chain, uint32_t written) {
  Channel &channel = channels[arrival.channel];
  --epochs[arrival.epoch].numFlows;
  while (channel.oldest != none && epochs[channel.oldest].numFlows == 0) {
    uint32_t number = channel.oldest;
    Epoch epoch = epochs[number];
    epochs.free.push_back(number);
    channel.oldest = epoch.next;
    if (epoch.next == none)
      channel.newest = none;
    for (uint32_t next = epoch.firstSignal; next != none;) {
      PendingSignal signal = pending[next];
      pending.free.push_back(next);
      next = signal.next;
      send(rank, *signal.instruction, history.share(chain), written);
    }
  }
}

void Simulator::signal(uint32_t number, const Instruction &instruction) {
  const Rank &rank = ranks[number];
  const Channel &channel = channels[rank.firstChannel + instruction.first];
  if (channel.newest == none) {
    send(number, instruction, history.share(rank.chain),
         record(Record::Kind::Signal, number, instruction.statement, now));
    return;
  }
  uint32_t added = pending.add({&instruction, none});
  Epoch &epoch = epochs[channel.newest];
  (epoch.firstSignal == none ? epoch.firstSignal : pending[epoch.lastSignal].next) = added;
  epoch.lastSignal = added;
}

/// Takes over a share of the chain.
void Simulator::send(uint32_t number, const Instruction &instruction, Chain chain, uint32_t announces) {
  const Channel &channel = channels[ranks[number].firstChannel + instruction.first];
  chain = history.extend(chain, instruction.statement, channel.latency, true);
  queue.push(now + channel.latency,
             {Event::Kind::Arrival, ranks[standInFor(channel.peer)].firstSlot + instruction.number, chain, announces});
}

bool Simulator::wait(uint32_t number, const Instruction &instruction) {
  Rank &rank = ranks[number];
  rank.awaited = uint64_t(rank.call) * rank.program->signalsToSlot[instruction.first] + instruction.number;
  if (slots[rank.firstSlot + instruction.first] >= rank.awaited) {
    recordWait(number, instruction);
    return true;
  }
  block(rank, State::InWait);
  return false;
}

bool Simulator::flush(uint32_t number) {
  Rank &rank = ranks[number];
  if (rank.numFlows == 0)
    return true;
  block(rank, State::InFlush);
  return false;
}

bool Simulator::enter(uint32_t number) {
  Rank &rank = ranks[number];
  block(rank, State::InMeeting);
  if (++numInMeeting < numSimulated)
    return false;
  double latency = network.entryLatency();
  Chain chain = history.extend(history.share(rank.chain), rank.program->code[rank.position].statement, latency, true);
  queue.push(now + latency, {Event::Kind::Meeting, none, chain, none});
  return false;
}

/// To what happens next, and what differs from its time by rounding only; false: nothing happens any more.
bool Simulator::advance() {
  double next = std::min(sharing.nextEnd(), queue.nextTime());
  if (std::isinf(next))
    return false;
  now = next;
  double until = now * (1 + 1e-12);
  sharing.takeEnded(until, ended);
  for (uint32_t flow : ended)
    endFlow(flow);
  queue.popInto(until, events);
  for (const Event &event : events)
    handle(event);
  return true;
}

SimulationResult Simulator::run() {
  std::vector<uint32_t> running;
  while (!isGivenUp()) {
    while (!ready.empty() && !isGivenUp()) {
      std::swap(running, ready);
      for (uint32_t rank : running)
        runRank(rank);
      running.clear();
    }
    sharing.settle(now);
    if (isGivenUp() || !advance())
      break;
  }
  if (!isGivenUp())
    conclude();
  return std::move(result);
}

void Simulator::conclude() {
  for (uint32_t number = 0; number < ranks.size(); ++number)
    if (ranks[number].state != State::Ended) {
      const Rank &rank = ranks[number];
      result.deadlock = {number, rank.program->code[rank.position].statement};
      return;
    }
  for (Chain chain = ranks[lastRank].chain; chain != History::empty; chain = history[chain].earlier) {
    SimulatedStatement &statement = result.statements[history[chain].statement];
    statement.seconds += history[chain].seconds;
    statement.latencySeconds += history[chain].latencySeconds;
  }
  std::vector<int64_t> executions = numExecutions(workload);
  for (size_t number = 0; number < executions.size(); ++number)
    result.statements[number].executions = executions[number];
}

} // namespace

SimulationResult simulate(const Workload &workload, const SimulatedNetwork &network, Timeline *timeline,
                          const SimulatorLimits &limits) {
  return Simulator(workload, network, timeline, limits).run();
}

} // namespace kolo::cost
