#include "network/fabric/Sender.h"

#include "base/Error.h"
#include "network/Cursor.h"

#include <cstring>
#include <utility>

namespace kolo::runtime::fabric {
namespace {

constexpr size_t messageBytes = 40;
/// Events that are taken at once, so that other threads get their turn.
constexpr int mostEvents = 256;

void write(const SignalMessage &message, std::span<std::byte> bytes) {
  Cursor<std::byte> writer(bytes);
  writer.put(message.lane);
  writer.put(message.signal.semaphore);
  writer.put(message.interval);
  writer.put(message.numPuts);
  writer.put(message.signal.agreement);
  writer.put(message.signal.count);
}

SignalMessage read(std::span<const std::byte> bytes, int &sender) {
  Cursor<const std::byte> reader(bytes);
  SignalMessage message;
  message.lane = reader.get<uint32_t>();
  message.signal.semaphore = reader.get<uint32_t>();
  message.interval = reader.get<uint64_t>();
  message.numPuts = reader.get<uint64_t>();
  message.signal.agreement = reader.get<uint64_t>();
  message.signal.count = reader.get<uint64_t>();
  sender = static_cast<int>(message.lane >> 8); // both in one number, so that the message fits a packet with all else
  message.lane &= 0xff;
  return message;
}

} // namespace

void Sender::push(Path path, const WriteRequest &request) {
  pushLater(path, request);
  advance(path);
}

void Sender::pushLater(Path path, const WriteRequest &request) {
  SendPath &from = state.peers.at(path.peer).paths[path.lane];
  from.requests.push_back(request);
  if (!request.isSignal)
    from.requests.back().number = ++from.numPuts;
  busy.insert({path.peer, path.lane});
}

void Sender::takeEvents() {
  Event event;
  for (int i = 0; state.nic && i < mostEvents && state.nic->poll(event); ++i)
    note(event);
  raiseDue();
  while (state.nic && !idleReceives.empty() && state.nic->receive(*idleReceives.back()) != Posted::Later)
    idleReceives.pop_back();
}

void Sender::advance() {
  auto waiting = busy;
  for (auto [number, lane] : waiting)
    advance({number, lane});
}

void Sender::drain(Clock::time_point until) {
  Event event;
  while (state.nic && state.nic->isWriting() && Clock::now() < until)
    if (state.nic->poll(event))
      note(event);
  raiseDue();
}

/// What peers count here goes into a cell of this rank: at once, or with all others that are due.
Arrivals::Raise Sender::raiseFor(int sender) const {
  return [this, sender](uint32_t lane, const RemoteSignal &signal) {
    const DueSignal one = {sender, lane, signal};
    if (lane != testLane && state.exposed.visibilityOf(signal.agreement))
      state.due.push_back(one);
    else
      state.raise(one);
  };
}

/// Raises the cells of what is due, or begins the read that must come before.
void Sender::raiseDue() {
  if (state.due.empty() || !state.behindRead.empty())
    return;
  const bool isRead = state.rules.gpu.read == GpuRead::BySelf;
  const Memory *memory = isRead && state.nic ? state.exposed.toReadBack() : nullptr;
  if (!memory)
    return state.raiseAll(std::exchange(state.due, {}));
  Operation *operation = state.nic->take();
  if (!operation)
    return;
  Posted posted = state.nic->readBack(*memory, *operation);
  if (posted == Posted::Yes)
    return std::swap(state.due, state.behindRead);
  state.nic->giveBack(operation);
  if (posted == Posted::Failed)
    state.failHere(error(StatusCode::SystemError, "rank {}: {}", state.options.rank, state.nic->lastError()));
}

void Sender::noteRead(Operation &operation, const Event &event) {
  state.nic->giveBack(&operation);
  const std::vector<DueSignal> signals = std::exchange(state.behindRead, {});
  if (event.kind == Event::Kind::Done)
    return state.raiseAll(signals);
  state.failHere(
      error(StatusCode::SystemError, "rank {}: reading from memory of a device: {}", state.options.rank, event.reason));
}

void Sender::note(Event &event) {
  if (event.kind == Event::Kind::Arrived) {
    int sender = rankOfMark(event.data);
    if (auto found = state.peers.find(sender); found != state.peers.end())
      found->second.arrivals.notePut(event.data, raiseFor(sender));
    return;
  }
  if (!event.operation)
    return;
  Operation &operation = *event.operation;
  bool isFailure = event.kind == Event::Kind::Failed;
  if (operation.isReceive)
    return noteReceived(operation, isFailure);
  if (operation.isReadBack)
    return noteRead(operation, event);
  if (isFailure) {
    askForMemory(operation);
    fail(operation.peer, event.reason);
  }
  finish(operation);
}

void Sender::noteReceived(Operation &operation, bool isFailure) {
  if (isFailure)
    return state.nic->giveBack(&operation);
  int sender = 0;
  SignalMessage message = read(operation.body, sender);
  if (auto found = state.peers.find(sender); found != state.peers.end())
    found->second.arrivals.noteSignal(message, raiseFor(sender));
  idleReceives.push_back(&operation);
}

/// Asks the peer whether it has released the memory of a failed operation, which it answers by ending the connection.
/// Whether the operation itself was right was judged before it began.
void Sender::askForMemory(const Operation &operation) {
  if (operation.lane == testLane)
    return;
  ControlMessage message;
  message.kind = ControlKind::Question;
  Question &question = message.question;
  question.isSignal = operation.sizeBytes == 0;
  question.lane = operation.lane;
  question.place = operation.place;
  question.sizeBytes = operation.sizeBytes;
  question.signal = operation.signal;
  question.signal.count = endOfCounts - 1; // larger than any other: the signal may have come
  state.tell(operation.peer, message);
}

void Sender::finish(Operation &operation) {
  SendPath &path = state.peers.at(operation.peer).paths[operation.lane];
  auto found = path.underWay.find(operation.interval);
  if (--found->second == 0)
    path.underWay.erase(found);
  if (auto read = path.reading.find(operation.put); read != path.reading.end() && --read->second == 0)
    path.reading.erase(read);
  --path.numUnderWay;
  ++path.numMoved;
  state.nic->giveBack(&operation);
}

void Sender::fail(int number, const std::string &reason) {
  FabricPeer &peer = state.peers.at(number);
  if (!peer.failure.isOk())
    return;
  const int self = state.options.rank;
  peer.failure =
      rankError(StatusCode::SystemError, number, "rank {} cannot write to rank {}: {}", self, number, reason);
  peer.failedAt = Clock::now();
  if (peer.stage != Stage::Met) {
    peer.failure = state.ofSelfTest(peer.failure);
    state.tellFailed(number, peer.failure);
  }
  state.hasFailed.store(true, std::memory_order_release);
}

/// Begins what may begin. Before the ranks have met, that is the self-test alone.
void Sender::advance(Path path) {
  FabricPeer &peer = state.peers.at(path.peer);
  SendPath &from = peer.paths[path.lane];
  if (!peer.isWorking() || peer.isLeaving || !state.nic || !state.isThere(path.peer)) {
    from.wasDropped |= !from.requests.empty();
    from.requests.clear();
  }
  if (peer.stage != Stage::Met && path.lane != testLane && !from.requests.empty())
    return;
  while (!from.requests.empty()) {
    WriteRequest &next = from.requests.front();
    Step step = next.isSignal ? postSignal(path, from, next) : postPut(path, from, next);
    if (step == Step::Wait)
      return;
    from.requests.pop_front();
  }
  busy.erase({path.peer, path.lane});
}

Sender::Step Sender::refuseToTell(Path path) {
  fail(path.peer, "it raises its cells itself, and this rank's network was not opened for that: KOLO_NETWORK_MEMORY "
                  "differs");
  return Step::Wait;
}

/// Tells the peer what cannot be placed. It ends the connection if its registrations do not allow it.
Sender::Step Sender::askAbout(Path path, SendPath &from, WriteRequest &request, bool isOld) {
  if (request.wasAsked || from.numUnderWay != 0) // what came before it is to arrive first
    return Step::Wait;
  request.wasAsked = true;
  ControlMessage message;
  message.kind = ControlKind::Question;
  message.question = {request.isSignal, isOld, path.lane, request.place, request.sizeBytes, request.signal};
  state.tell(path.peer, message);
  return Step::Wait;
}

/// What the peer has registered; null: it has not yet, or not any more.
const RemoteAgreement *Sender::findThere(Path path, uint64_t agreement, SendPath &from, WriteRequest &request) {
  const FabricPeer &peer = state.peers.at(path.peer);
  if (path.lane == testLane)
    return &peer.meeting->there;
  if (auto found = peer.agreements.find(agreement); found != peer.agreements.end())
    return &found->second;
  bool isEarly = agreement > peer.newest && agreement - peer.newest <= maxEarlyAgreements;
  if (!isEarly)
    (void)askAbout(path, from, request);
  return nullptr;
}

/// A free operation for this path; null: too many are under way.
Operation *Sender::take(Path path, const SendPath &from) const {
  Operation *operation = state.nic->take();
  if (!operation)
    return nullptr;
  operation->peer = path.peer;
  operation->lane = path.lane;
  operation->interval = from.interval;
  operation->put = 0;
  operation->sizeBytes = 0;
  operation->signal = {};
  return operation;
}

/// Counts an operation that has begun.
Sender::Step Sender::begin(Posted posted, Path path, SendPath &from, Operation &operation) {
  if (posted == Posted::Yes) {
    ++from.underWay[operation.interval];
    if (operation.put != 0)
      ++from.reading[operation.put];
    ++from.numUnderWay;
    ++from.numMoved;
    return Step::Done;
  }
  state.nic->giveBack(&operation);
  if (posted == Posted::Failed)
    fail(path.peer, state.nic->lastError());
  return Step::Wait;
}

Sender::Step Sender::postPut(Path path, SendPath &from, WriteRequest &request) {
  const RemoteAgreement *there = findThere(path, request.place.agreement, from, request);
  if (!there)
    return Step::Wait;
  uint32_t role = request.place.role;
  uint64_t whole = role < there->regions.size() ? there->regions[role].sizeBytes : 0;
  if (request.place.offsetBytes > whole || request.sizeBytes > whole - request.place.offsetBytes)
    return askAbout(path, from, request);
  if (state.isCounted() && from.hasManyIntervals())
    return Step::Wait;
  while (request.doneBytes < request.sizeBytes)
    if (postPiece(path, from, request, there->regions[role]) == Step::Wait)
      return Step::Wait;
  return Step::Done;
}

/// Writes as much of a put as the device takes at once.
Sender::Step Sender::postPiece(Path path, SendPath &from, WriteRequest &request, const RemoteRegion &region) {
  Operation *operation = take(path, from);
  if (!operation)
    return Step::Wait;
  operation->put = request.number;
  operation->place = request.place;
  operation->place.offsetBytes += request.doneBytes;
  operation->sizeBytes = std::min(request.sizeBytes - request.doneBytes, state.nic->maxPutBytes());
  Write piece;
  piece.peer = path.peer;
  piece.src = request.src + request.doneBytes;
  piece.sizeBytes = operation->sizeBytes;
  piece.address = region.address + operation->place.offsetBytes;
  piece.key = region.key;
  piece.hasData = state.isCounted();
  piece.data = markOf(state.options.rank, path.lane, from.interval);
  if (begin(state.nic->write(piece, *operation), path, from, *operation) == Step::Wait)
    return Step::Wait;
  ++from.numPutsOfInterval;
  request.doneBytes += piece.sizeBytes;
  return Step::Done;
}

Sender::Step Sender::postSignal(Path path, SendPath &from, WriteRequest &request) {
  const RemoteSignal &signal = request.signal;
  const RemoteAgreement *there = findThere(path, signal.agreement, from, request);
  if (!there)
    return Step::Wait;
  if (path.lane >= there->numLanes || signal.semaphore >= there->numSemaphores)
    return askAbout(path, from, request);
  uint64_t &last = from.counts[{signal.agreement, signal.semaphore}];
  if (signal.count <= last)
    return askAbout(path, from, request, true);
  const bool isTold = state.isCounted() || there->isRaisedThere;
  Step step = isTold ? postMessage(path, from, signal) : postFlag(path, from, signal, *there);
  if (step == Step::Done)
    last = signal.count;
  return step;
}

/// Writes the count into the peer's cell.
Sender::Step Sender::postFlag(Path path, SendPath &from, const RemoteSignal &signal, const RemoteAgreement &there) {
  if (state.rules.order == SignalOrder::Acknowledged && from.numUnderWay != 0) // an earlier flag could come later, too
    return Step::Wait;
  Operation *operation = take(path, from);
  if (!operation)
    return Step::Wait;
  operation->signal = signal;
  uint64_t word = 2 * signal.count; // see Counter; this machine's byte order is the peer's
  std::memcpy(operation->body, &word, sizeof(word));
  uint64_t cell = path.lane == testLane ? 0
                                        : cellNumber({there.place, there.numPlaces}, there.isBySender,
                                                     there.numSemaphores, path.lane, signal.semaphore);
  Write flag;
  flag.peer = path.peer;
  flag.src = operation->body;
  flag.sizeBytes = sizeof(word);
  flag.address = there.cells.address + cell * sizeof(Cell);
  flag.key = there.cells.key;
  return begin(state.nic->write(flag, *operation), path, from, *operation);
}

/// Sends the count, and how many puts are before it. The peer raises the cell when it has them. Puts that nobody counts
/// there must be complete before.
Sender::Step Sender::postMessage(Path path, SendPath &from, const RemoteSignal &signal) {
  if (from.hasManyIntervals() || (!state.isCounted() && from.numUnderWay != 0))
    return Step::Wait;
  if (!state.canTell())
    return refuseToTell(path);
  Operation *operation = take(path, from);
  if (!operation)
    return Step::Wait;
  operation->signal = signal;
  SignalMessage message;
  message.lane = static_cast<uint32_t>(state.options.rank) << 8 | path.lane;
  message.interval = from.interval;
  message.numPuts = state.isCounted() ? from.numPutsOfInterval : 0;
  message.signal = signal;
  write(message, operation->body);
  if (begin(state.nic->send(path.peer, messageBytes, *operation), path, from, *operation) == Step::Wait)
    return Step::Wait;
  ++from.interval;
  from.numPutsOfInterval = 0;
  return Step::Done;
}

} // namespace kolo::runtime::fabric
