#include "compiler/cost/simulation/Skeleton.h"
#include "compiler/SourceLine.h"
#include "compiler/cost/Encoding.h"

#include "llvm/ADT/bit.h"

#include <map>

namespace kolo::cost {

StatementNumbers::StatementNumbers(const Code &code) : lines{{"entry", 0}} {
  llvm::DenseMap<mlir::Location, uint32_t> numbers;
  for (const OpInfo &info : code.ops) {
    if (info.kind == EventKind::Enter || creditOf(info.op) == CreditKind::Entry) {
      ofOp.push_back(0);
      continue;
    }
    auto [found, isNew] = numbers.try_emplace(info.op->getLoc(), uint32_t(lines.size()));
    ofOp.push_back(found->second);
    if (!isNew)
      continue;
    SourceLine place = sourceLineOf(info.op->getLoc());
    lines.push_back({place.file, place.line});
  }
}

namespace {

/// The semaphore that stands for packets, which announce themselves.
constexpr int32_t packetSemaphore = -1;

/// A packet in a rank's buffer.
struct PacketKey {
  uint32_t buffer;
  int32_t chunk, part;
  auto operator<=>(const PacketKey &) const = default;
};

struct PacketHash {
  size_t operator()(const PacketKey &key) const {
    return (size_t(key.buffer) << 48 ^ size_t(key.part) << 32 ^ size_t(key.chunk)) * 0x9e3779b97f4a7c15;
  }
};

/// Who sends a packet: its k-th transfer of packets to this rank.
struct PacketSource {
  int64_t sender;
  uint32_t number;
};

class SkeletonBuilder {
public:
  SkeletonBuilder(const Tracer &tracer, const TracedGroup &traced, const StatementNumbers &statements,
                  int64_t elementBytes)
      : tracer(tracer), traced(traced), statements(statements), skeletons(traced.traces.size()),
        packets(traced.traces.size()) {
    for (const BufferInfo &buffer : tracer.program().buffers)
      stored.push_back(storedBytes(buffer.op, elementBytes));
  }

  std::vector<Skeleton> build() {
    for (size_t number = 0; number < skeletons.size(); ++number)
      collectPackets(number);
    for (orbit = 0; orbit < skeletons.size(); ++orbit)
      addRank();
    orderSlots();
    return std::move(skeletons);
  }

private:
  bool isPackets(const Box &box) const { return tracer.program().buffers[box.buffer].role == BufferRole::Packets; }
  int64_t representative() const { return traced.group.representatives()[orbit]; }
  uint32_t channelTo(int64_t peer);
  uint32_t slotFor(size_t ofOrbit, int32_t semaphore, int64_t sender);
  void collectPackets(size_t ofOrbit);
  void addRank();
  void orderSlots();
  void addEvents(size_t first, size_t end);
  void addSignal(int32_t semaphore, int64_t peer, uint32_t statement);
  void addWait(int32_t semaphore, int64_t peer, uint32_t number, uint32_t statement);
  void waitForPackets(const Event &event);
  bool addSource(const Box &box, int64_t owner);
  bool addDestination(const Event &event, const Box &box, int64_t owner);
  void finishTransfer(const Instruction &transfer, size_t event);
  const Trace &trace() const { return traced.traces[orbit]; }
  Skeleton &skeleton() { return skeletons[orbit]; }

  const Tracer &tracer;
  const TracedGroup &traced;
  const StatementNumbers &statements;
  std::vector<double> stored; // by buffer: bytes for each byte of the call's elements
  std::vector<Skeleton> skeletons;
  std::vector<std::unordered_map<PacketKey, PacketSource, PacketHash>> packets; // by orbit
  std::vector<int32_t> chunks;

  size_t orbit = 0;
  std::unordered_map<uint64_t, uint32_t> numWaits; // by semaphore and sender

  /// A slice of a rank, as it is read or written.
  struct Slice {
    int64_t owner;
    uint32_t buffer;
    llvm::SmallVector<int32_t, 8> numbers;
    bool operator==(const Slice &) const = default;
  };
  Slice sliceOf(const Box &box, int64_t owner) const {
    llvm::ArrayRef<int32_t> numbers = trace().numbersOf(box, tracer.grids()[box.buffer].extents.size());
    return {owner, box.buffer, llvm::SmallVector<int32_t, 8>(numbers)};
  }
  std::vector<Slice> read, written; // by the transfer that is being made
  std::vector<Leg> legs;
  std::unordered_map<uint64_t, std::vector<uint32_t>> knownLegs; // by hash: where lists of this program begin
};

uint64_t keyOf(int32_t semaphore, int64_t sender) { return uint64_t(semaphore + 1) << 40 | uint64_t(sender); }

uint32_t SkeletonBuilder::channelTo(int64_t peer) {
  auto [found, isNew] = skeleton().channels.try_emplace(peer, uint32_t(skeleton().peers.size()));
  if (isNew) {
    skeleton().peers.push_back(peer);
    ++skeleton().program.numChannels;
  }
  return found->second;
}

uint32_t SkeletonBuilder::slotFor(size_t ofOrbit, int32_t semaphore, int64_t sender) {
  Skeleton &of = skeletons[ofOrbit];
  auto [found, isNew] = of.slots.try_emplace(keyOf(semaphore, sender), uint32_t(of.slots.size()));
  if (isNew)
    of.program.signalsToSlot.push_back(0);
  return found->second;
}

/// Whose packets the ranks that this orbit sends to get from it.
void SkeletonBuilder::collectPackets(size_t ofOrbit) {
  std::unordered_map<int64_t, uint32_t> numbers; // by receiver
  int64_t sender = traced.group.representatives()[ofOrbit];
  const Trace &steps = traced.traces[ofOrbit];
  for (const Event &event : steps.events) {
    if (event.kind != EventKind::Put || !isPackets(event.destination))
      continue;
    int64_t receiver = event.peer;
    PacketSource source{traced.group.moveBack(receiver, sender), ++numbers[receiver]};
    expandBox(steps, event.destination, tracer.grids()[event.destination.buffer], chunks);
    for (int32_t chunk : chunks)
      packets[traced.group.orbitOf(receiver)]
             [{event.destination.buffer, int32_t(traced.group.moveChunkBack(receiver, event.destination.buffer, chunk)),
               event.part}] = source;
  }
}

void SkeletonBuilder::addSignal(int32_t semaphore, int64_t peer, uint32_t statement) {
  size_t peerOrbit = traced.group.orbitOf(peer);
  uint32_t slot = slotFor(peerOrbit, semaphore, traced.group.moveBack(peer, representative()));
  ++skeletons[peerOrbit].program.signalsToSlot[slot];
  Instruction signal{Instruction::Kind::Signal};
  signal.statement = statement;
  signal.first = channelTo(peer);
  signal.number = slot;
  skeleton().program.code.push_back(signal);
  skeleton().eventOf.push_back(UINT32_MAX);
}

void SkeletonBuilder::addWait(int32_t semaphore, int64_t peer, uint32_t number, uint32_t statement) {
  Instruction wait{Instruction::Kind::Wait};
  wait.statement = statement;
  wait.first = slotFor(orbit, semaphore, peer);
  wait.number = number;
  skeleton().program.code.push_back(wait);
  skeleton().eventOf.push_back(UINT32_MAX);
}

void SkeletonBuilder::waitForPackets(const Event &event) {
  std::map<int64_t, uint32_t> last; // by sender
  expandBox(trace(), event.source, tracer.grids()[event.source.buffer], chunks);
  for (int32_t chunk : chunks)
    if (auto found = packets[orbit].find({event.source.buffer, chunk, event.part}); found != packets[orbit].end()) {
      uint32_t &number = last[found->second.sender];
      number = std::max(number, found->second.number);
    }
  for (auto [sender, number] : last)
    addWait(packetSemaphore, sender, number, statements.ofOp[event.op]);
}

/// False where the transfer has the slice already.
bool SkeletonBuilder::addSource(const Box &box, int64_t owner) {
  Slice slice = sliceOf(box, owner);
  if (llvm::is_contained(read, slice) || llvm::is_contained(written, slice))
    return false;
  read.push_back(std::move(slice));
  bool isOwn = owner == representative();
  legs.push_back({isOwn ? Leg::Kind::ReadOwn : Leg::Kind::ReadPeer, isPackets(box), isOwn ? 0 : channelTo(owner),
                  stored[box.buffer]});
  return true;
}

/// False where the transfer has the slice already.
bool SkeletonBuilder::addDestination(const Event &event, const Box &box, int64_t owner) {
  Slice slice = sliceOf(box, owner);
  if (llvm::is_contained(written, slice))
    return false;
  written.push_back(std::move(slice));
  bool isPut = event.kind == EventKind::Put;
  legs.push_back({isPut ? Leg::Kind::WritePeer : Leg::Kind::WriteOwn, isPackets(box), isPut ? channelTo(owner) : 0,
                  stored[box.buffer]});
  return true;
}

void SkeletonBuilder::finishTransfer(const Instruction &transfer, size_t event) {
  RankProgram &program = skeleton().program;
  uint64_t hash = 0;
  for (const Leg &leg : legs)
    hash = (hash ^ (uint64_t(leg.kind) << 40 | uint64_t(leg.isPackets) << 48 | leg.channel) ^
            llvm::bit_cast<uint64_t>(leg.bytes)) *
           0x9e3779b97f4a7c15;
  Instruction added = transfer;
  added.number = uint32_t(legs.size());
  std::vector<uint32_t> &places = knownLegs[hash];
  auto isSame = [&](uint32_t place) {
    return place + legs.size() <= program.legs.size() &&
           std::equal(legs.begin(), legs.end(), program.legs.begin() + place);
  };
  auto found = llvm::find_if(places, isSame);
  if (found == places.end()) {
    places.push_back(uint32_t(program.legs.size()));
    program.legs.insert(program.legs.end(), legs.begin(), legs.end());
    found = std::prev(places.end());
  }
  added.first = *found;
  program.code.push_back(added);
  skeleton().eventOf.push_back(uint32_t(event));
}

/// One move, or all moves of a fuse.
void SkeletonBuilder::addEvents(size_t first, size_t end) {
  llvm::ArrayRef<Event> events = llvm::ArrayRef(trace().events).slice(first, end - first);
  Instruction transfer{Instruction::Kind::Transfer};
  read.clear();
  written.clear();
  legs.clear();
  bool hasPeer = false;
  double readBytes = 0, writtenBytes = 0;
  for (const Event &event : events) {
    if (event.kind == EventKind::Divide)
      continue;
    bool isPut = event.kind == EventKind::Put;
    int64_t me = representative(), source = isPut ? me : event.peer, destination = isPut ? event.peer : me;
    if (isPackets(event.source))
      waitForPackets(event);
    double converted = std::max(stored[event.source.buffer], stored[event.destination.buffer]);
    readBytes += addSource(event.source, source) ? converted : 0;
    if (event.kind == EventKind::Reduce) {
      addSource(event.destination, destination); // unless an earlier move of the fuse made it
      transfer.reduces = true;
    }
    writtenBytes += addDestination(event, event.destination, destination) ? converted : 0;
    transfer.blocks |= !isPut;
    // A fuse goes by the first statement that has to do with a peer.
    bool toPeer = event.peer != me || isPackets(event.source);
    if (&event == events.begin() || (toPeer && !hasPeer))
      transfer.statement = statements.ofOp[event.op];
    hasPeer |= toPeer;
  }
  if (legs.empty())
    return;
  transfer.laneLoad = float(transfer.reduces ? readBytes : writtenBytes);
  finishTransfer(transfer, first);
  for (const Event &event : events)
    if (event.kind == EventKind::Put && isPackets(event.destination))
      addSignal(packetSemaphore, event.peer, statements.ofOp[event.op]);
}

void SkeletonBuilder::addRank() {
  numWaits.clear();
  knownLegs.clear();
  llvm::ArrayRef<Event> events = trace().events;
  auto addPlain = [&](Instruction::Kind kind, uint32_t statement) {
    Instruction instruction{kind};
    instruction.statement = statement;
    skeleton().program.code.push_back(instruction);
    skeleton().eventOf.push_back(UINT32_MAX);
  };
  for (size_t i = 0; i < events.size();) {
    const Event &event = events[i];
    size_t end = i + 1;
    while (event.fuse != 0 && end < events.size() && events[end].fuse == event.fuse)
      ++end;
    uint32_t statement = statements.ofOp[event.op];
    switch (event.kind) {
    case EventKind::Signal:
      addSignal(event.semaphore, event.peer, statement);
      break;
    case EventKind::Wait:
      addWait(event.semaphore, event.peer, ++numWaits[keyOf(event.semaphore, event.peer)], statement);
      break;
    case EventKind::Flush:
      addPlain(Instruction::Kind::Flush, statement);
      break;
    case EventKind::Enter:
      addPlain(Instruction::Kind::Enter, statement);
      break;
    default:
      addEvents(i, end);
    }
    i = end;
  }
}

void SkeletonBuilder::orderSlots() {
  std::vector<std::vector<uint32_t>> numbers; // by orbit and slot as it was
  for (Skeleton &of : skeletons) {
    std::vector<uint32_t> &ofOrbit = numbers.emplace_back(of.slots.size(), UINT32_MAX);
    uint32_t next = 0;
    for (Instruction &step : of.program.code) {
      if (step.kind != Instruction::Kind::Wait)
        continue;
      if (ofOrbit[step.first] == UINT32_MAX)
        ofOrbit[step.first] = next++;
      step.first = ofOrbit[step.first];
    }
    std::vector<uint32_t> signalsToSlot(ofOrbit.size());
    for (auto [number, signals] : llvm::zip_equal(ofOrbit, of.program.signalsToSlot)) {
      if (number == UINT32_MAX)
        number = next++;
      signalsToSlot[number] = signals;
    }
    of.program.signalsToSlot = std::move(signalsToSlot);
  }
  for (Skeleton &of : skeletons)
    for (Instruction &step : of.program.code)
      if (step.kind == Instruction::Kind::Signal)
        step.number = numbers[traced.group.orbitOf(of.peers[step.first])][step.number];
}

} // namespace

std::vector<Skeleton> buildSkeletons(const Tracer &tracer, const TracedGroup &traced,
                                     const StatementNumbers &statements, int64_t elementBytes) {
  return SkeletonBuilder(tracer, traced, statements, elementBytes).build();
}

} // namespace kolo::cost
