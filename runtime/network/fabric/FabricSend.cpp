// What FabricTransport writes to its peers, and what comes from there.
#include "base/Error.h"
#include "network/Cursor.h"
#include "network/fabric/FabricTransport.h"
#include "wait/Clock.h"

#include <bit>

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

/// Which cell of an agreement belongs to a sender.
template <class Agreement>
uint64_t cellNumber(const Agreement &agreement, uint64_t numRanks, int sender, uint32_t lane, uint32_t semaphore) {
  auto rank = static_cast<uint64_t>(sender);
  if (agreement.isBySender)
    return rank * agreement.numSemaphores + semaphore;
  return (uint64_t(lane) * agreement.numSemaphores + semaphore) * numRanks + rank;
}

} // namespace

/// Makes progress. Requires `mutex`, as all functions of this file.
void FabricTransport::work() {
  Event event;
  for (int i = 0; nic && i < mostEvents && nic->poll(event); ++i)
    note(event);
  while (nic && !idleReceives.empty() && nic->receive(*idleReceives.back()) != Posted::Later)
    idleReceives.pop_back();
  std::erase_if(meetings, [this](int number) { return !meet(number); });
  auto waiting = busy;
  for (auto [number, lane] : waiting)
    advance(number, lane);
  if (!leaving.empty())
    answerLeaving();
}

void FabricTransport::note(Event &event) {
  auto raiseHere = [&](int sender) {
    return [this, sender](uint32_t lane, const RemoteSignal &signal) { raise(sender, lane, signal); };
  };
  if (event.kind == Event::Kind::Arrived) {
    int sender = rankOfMark(event.data);
    if (auto found = peers.find(sender); found != peers.end())
      found->second.arrivals.notePut(event.data, raiseHere(sender));
    return;
  }
  if (!event.operation)
    return;
  Operation &operation = *event.operation;
  bool isFailure = event.kind == Event::Kind::Failed;
  if (operation.isReceive) {
    int sender = 0;
    SignalMessage message = read(operation.body, sender);
    if (auto found = peers.find(sender); !isFailure && found != peers.end())
      found->second.arrivals.noteSignal(message, raiseHere(sender));
    if (isFailure)
      nic->giveBack(&operation);
    else
      idleReceives.push_back(&operation);
    return;
  }
  if (isFailure) {
    askForMemory(operation);
    fail(operation.peer, event.reason);
  }
  finish(operation);
}

/// Asks the peer whether it has released the memory of a failed operation, which it answers by ending the connection.
/// Whether the operation itself was right was judged before it began.
void FabricTransport::askForMemory(const Operation &operation) {
  if (operation.lane == testLane)
    return;
  Letter letter;
  letter.kind = LetterKind::Question;
  Question &question = letter.question;
  question.isSignal = operation.sizeBytes == 0;
  question.lane = operation.lane;
  question.place = operation.place;
  question.sizeBytes = operation.sizeBytes;
  question.signal = operation.signal;
  question.signal.count = endOfCounts - 1; // larger than any other: the signal may have come
  (void)mails.mail(operation.peer, fabric::write(letter));
}

void FabricTransport::finish(Operation &operation) {
  SendPath &path = peers.at(operation.peer).paths[operation.lane];
  auto found = path.underWay.find(operation.interval);
  if (--found->second == 0)
    path.underWay.erase(found);
  --path.numUnderWay;
  ++path.numMoved;
  nic->giveBack(&operation);
}

void FabricTransport::fail(int number, const std::string &reason) {
  Peer &peer = peers.at(number);
  if (!peer.failure.isOk())
    return;
  peer.failure =
      rankError(StatusCode::SystemError, number, "rank {} cannot write to rank {}: {}", options.rank, number, reason);
  peer.failedAt = Clock::now();
  if (peer.stage != Stage::Met) {
    peer.failure = ofSelfTest(peer.failure);
    tellFailed(number, peer.failure);
  }
  hasFailed.store(true, std::memory_order_release);
}

/// Begins what may begin. Before the ranks have met, that is the self-test alone.
void FabricTransport::advance(int number, uint32_t lane) {
  Peer &peer = peers.at(number);
  SendPath &path = peer.paths[lane];
  if (!peer.refusal.isOk() || !peer.failure.isOk() || peer.isLeaving || !nic || !mails.stateOf(number).isOk()) {
    path.wasDropped |= !path.requests.empty();
    path.requests.clear();
  }
  if (peer.stage != Stage::Met && lane != testLane && !path.requests.empty())
    return;
  while (!path.requests.empty()) {
    Request &next = path.requests.front();
    Step step = next.isSignal ? postSignal(number, lane, path, next) : postPut(number, lane, path, next);
    if (step == Step::Wait)
      return;
    path.requests.pop_front();
  }
  busy.erase({number, lane});
}

/// Tells the peer what cannot be placed. It ends the connection if its registrations do not allow it.
FabricTransport::Step FabricTransport::askAbout(int number, uint32_t lane, SendPath &path, Request &request,
                                                bool isOld) {
  if (request.wasAsked || path.numUnderWay != 0) // what came before it is to arrive first
    return Step::Wait;
  request.wasAsked = true;
  Letter letter;
  letter.kind = LetterKind::Question;
  letter.question = {request.isSignal, isOld, lane, request.place, request.sizeBytes, request.signal};
  (void)mails.mail(number, fabric::write(letter));
  return Step::Wait;
}

/// What the peer has registered; null: it has not yet, or not any more.
const RemoteAgreement *FabricTransport::findThere(int number, uint64_t agreement, uint32_t lane, SendPath &path,
                                                  Request &request) {
  const Peer &peer = peers.at(number);
  if (lane == testLane)
    return &peer.meeting->there;
  if (auto found = peer.agreements.find(agreement); found != peer.agreements.end())
    return &found->second;
  bool isEarly = agreement > peer.newest && agreement - peer.newest <= maxEarlyAgreements;
  if (!isEarly)
    (void)askAbout(number, lane, path, request);
  return nullptr;
}

/// Counts an operation that has begun.
FabricTransport::Step FabricTransport::begin(Posted posted, Path path, SendPath &from, Operation &operation) {
  if (posted == Posted::Yes) {
    ++from.underWay[operation.interval];
    ++from.numUnderWay;
    ++from.numMoved;
    return Step::Done;
  }
  nic->giveBack(&operation);
  if (posted == Posted::Failed)
    fail(path.peer, nic->lastError());
  return Step::Wait;
}

FabricTransport::Step FabricTransport::postPut(int number, uint32_t lane, SendPath &path, Request &request) {
  const RemoteAgreement *there = findThere(number, request.place.agreement, lane, path, request);
  if (!there)
    return Step::Wait;
  uint32_t role = request.place.role;
  uint64_t whole = role < there->regions.size() ? there->regions[role].sizeBytes : 0;
  if (request.place.offsetBytes > whole || request.sizeBytes > whole - request.place.offsetBytes)
    return askAbout(number, lane, path, request);
  bool isCounted = rules.order == SignalOrder::Counted;
  if (isCounted && !path.underWay.empty() && path.interval - path.underWay.begin()->first >= mostOpenIntervals)
    return Step::Wait;
  while (request.doneBytes < request.sizeBytes) {
    Operation *operation = nic->take();
    if (!operation)
      return Step::Wait;
    Write piece;
    piece.peer = operation->peer = number;
    operation->lane = lane;
    operation->interval = path.interval;
    operation->signal = {};
    operation->place = {request.place.agreement, role, request.place.offsetBytes + request.doneBytes};
    operation->sizeBytes = std::min(request.sizeBytes - request.doneBytes, nic->maxPutBytes());
    piece.src = request.src + request.doneBytes;
    piece.sizeBytes = operation->sizeBytes;
    piece.address = there->regions[role].address + operation->place.offsetBytes;
    piece.key = there->regions[role].key;
    piece.hasData = isCounted;
    piece.data = markOf(options.rank, lane, path.interval);
    if (begin(nic->write(piece, *operation), {number, lane}, path, *operation) == Step::Wait)
      return Step::Wait;
    ++path.numPutsOfInterval;
    request.doneBytes += piece.sizeBytes;
  }
  return Step::Done;
}

FabricTransport::Step FabricTransport::postSignal(int number, uint32_t lane, SendPath &path, Request &request) {
  const RemoteSignal &signal = request.signal;
  const RemoteAgreement *there = findThere(number, signal.agreement, lane, path, request);
  if (!there)
    return Step::Wait;
  if (lane >= there->numLanes || signal.semaphore >= there->numSemaphores)
    return askAbout(number, lane, path, request);
  uint64_t &last = path.counts[{signal.agreement, signal.semaphore}];
  if (signal.count <= last)
    return askAbout(number, lane, path, request, true);
  Step step = rules.order == SignalOrder::Counted ? postMessage({number, lane}, path, signal)
                                                  : postFlag({number, lane}, path, signal, *there);
  if (step == Step::Done)
    last = signal.count;
  return step;
}

/// Writes the count into the peer's cell.
FabricTransport::Step FabricTransport::postFlag(Path path, SendPath &from, const RemoteSignal &signal,
                                                const RemoteAgreement &there) {
  if (rules.order == SignalOrder::Acknowledged && from.numUnderWay != 0) // also an earlier flag could come later
    return Step::Wait;
  Operation *operation = nic->take();
  if (!operation)
    return Step::Wait;
  uint64_t word = 2 * signal.count; // see Counter; this machine's byte order is the peer's
  std::memcpy(operation->body, &word, sizeof(word));
  Write flag;
  flag.peer = operation->peer = path.peer;
  operation->lane = path.lane;
  operation->interval = from.interval;
  operation->sizeBytes = 0;
  operation->signal = signal;
  flag.src = operation->body;
  flag.sizeBytes = sizeof(word);
  uint64_t cell = path.lane == testLane ? 0
                                        : cellNumber(there, static_cast<uint64_t>(options.numRanks), options.rank,
                                                     path.lane, signal.semaphore);
  flag.address = there.cells.address + cell * sizeof(Cell);
  flag.key = there.cells.key;
  return begin(nic->write(flag, *operation), path, from, *operation);
}

/// Sends the count, and how many puts are before it. The peer raises the cell when it has them.
FabricTransport::Step FabricTransport::postMessage(Path path, SendPath &from, const RemoteSignal &signal) {
  if (!from.underWay.empty() && from.interval - from.underWay.begin()->first >= mostOpenIntervals)
    return Step::Wait;
  Operation *operation = nic->take();
  if (!operation)
    return Step::Wait;
  SignalMessage message;
  message.lane = static_cast<uint32_t>(options.rank) << 8 | path.lane;
  message.interval = from.interval;
  message.numPuts = from.numPutsOfInterval;
  message.signal = signal;
  write(message, operation->body);
  operation->peer = path.peer;
  operation->lane = path.lane;
  operation->interval = from.interval;
  operation->sizeBytes = 0;
  operation->signal = signal;
  if (begin(nic->send(path.peer, messageBytes, *operation), path, from, *operation) == Step::Wait)
    return Step::Wait;
  ++from.interval;
  from.numPutsOfInterval = 0;
  return Step::Done;
}

/// The cell of this rank that a peer signals; null: there is none, or not any more.
Cell *FabricTransport::ownCell(int sender, uint32_t lane, const RemoteSignal &signal) const {
  if (hasLeft)
    return nullptr;
  if (lane == testLane) {
    const Peer &peer = peers.at(sender);
    return peer.meeting ? &peer.meeting->test.memory().cell : nullptr;
  }
  auto found = exposed.find(signal.agreement);
  if (found == exposed.end())
    return nullptr;
  const Registration &own = found->second.registration;
  if (lane >= own.numLanes || signal.semaphore >= own.numSemaphores || !own.senders[static_cast<size_t>(sender)])
    return nullptr;
  return &own.cells[cellNumber(own, static_cast<uint64_t>(options.numRanks), sender, lane, signal.semaphore)];
}

/// What peers count here goes into a cell of this rank. The agreement may have ended meanwhile.
void FabricTransport::raise(int sender, uint32_t lane, const RemoteSignal &signal) {
  Cell *cell = ownCell(sender, lane, signal);
  if (cell && !cell->hasReached(signal.count) && signal.count < endOfCounts)
    cell->raise(signal.count);
}

} // namespace kolo::runtime::fabric
