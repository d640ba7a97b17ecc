#include "NetworkModel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace kolo::ptx {
namespace {

constexpr uint64_t inboxAgreement = 7, cellsAgreement = 9, inboxOffset = 128;
constexpr size_t outboxBytes = size_t(KOLO_DEVICE_CHUNKS) * KOLO_DEVICE_CHUNK_BYTES;
constexpr Access weak = {}, acquire = {Space::Global, Order::Acquire, Scope::System, false},
                 release = {Space::Global, Order::Release, Scope::System, false},
                 relaxed = {Space::Global, Order::Relaxed, Scope::System, false};

uint64_t addressOf(const void *memory) { return uint64_t(reinterpret_cast<uintptr_t>(memory)); }

uint64_t load(Memory &memory, uint32_t thread, const void *place, const Access &access) {
  uint64_t value = 0;
  memory.load(thread, addressOf(place), sizeof(value), access, 0, reinterpret_cast<std::byte *>(&value));
  return value;
}

void store(Memory &memory, uint32_t thread, const void *place, uint64_t value, const Access &access) {
  memory.store(thread, addressOf(place), sizeof(value), access, 0, reinterpret_cast<const std::byte *>(&value));
}

} // namespace

NetworkModel::NetworkModel(std::vector<int> ofRanks, size_t lanes, size_t semaphores,
                           std::function<const std::byte *(uint64_t address)> reads)
    : hosts(std::move(ofRanks)), numLanes(lanes), numSemaphores(semaphores), readable(std::move(reads)) {
  for (size_t number = 0; number < hosts.size(); ++number) {
    Rank &rank = ranks.emplace_back();
    rank.queues = make<KoloDeviceQueue>(numLanes, Content::Values);
    rank.counts = make<KoloDeviceQueueCounts>(numLanes, Content::Zeros);
    rank.outboxes = make<std::byte>(numLanes * outboxBytes, Content::Zeros);
    placePeers(number);
    const size_t numCells = numLanes * numSemaphores * numFar(rank);
    rank.cells = numCells ? make<std::byte>(numCells * KOLO_DEVICE_CELL_BYTES, Content::Zeros) : nullptr;
    for (size_t lane = 0; lane < numLanes; ++lane)
      rank.queues[lane].outbox = reinterpret_cast<unsigned char *>(rank.outboxes + lane * outboxBytes);
  }
}

template <class T> T *NetworkModel::make(size_t number, Content content) {
  constexpr size_t pageBytes = 4096;
  const size_t sizeBytes = number * sizeof(T);
  void *memory = std::aligned_alloc(pageBytes, (sizeBytes + pageBytes - 1) / pageBytes * pageBytes);
  if (!memory)
    throw std::bad_alloc();
  if (content != Content::Zeros)
    std::memset(memory, 0, sizeBytes);
  areas.push_back({{memory, std::free}, sizeBytes, content == Content::Table, content == Content::Zeros});
  return static_cast<T *>(memory);
}

bool NetworkModel::Area::has(uint64_t address) const { return address - addressOf(memory.get()) < sizeBytes; }

/// Cells have no order that others know: those of the highest rank come first.
void NetworkModel::placePeers(size_t number) {
  Rank &rank = ranks[number];
  rank.places = make<uint32_t>(hosts.size(), Content::Table);
  uint32_t next = 0;
  for (size_t peer = 0; peer < hosts.size(); ++peer)
    if (hosts[peer] == hosts[number])
      rank.places[peer] = next++;
  rank.numHere = next;
  for (size_t peer = hosts.size(); peer-- > 0;)
    if (hosts[peer] != hosts[number])
      rank.places[peer] = next++;
}

/// Of addresses by rank: those of this rank's host, by place, and then null.
const uint64_t *NetworkModel::rowOf(const void *table, size_t rank) {
  auto *row = make<uint64_t>(ranks[rank].numHere + 1, Content::Table);
  const auto *ofRanks = reinterpret_cast<const uint64_t *>(readable(addressOf(table)));
  for (size_t peer = 0; peer < hosts.size(); ++peer)
    if (hosts[peer] == hosts[rank])
      row[ranks[rank].places[peer]] = ofRanks[peer];
  return row;
}

uint64_t NetworkModel::addInvocations(std::span<const KoloDeviceNetworkInvocation> recorded) {
  auto *made = make<KoloDeviceNetworkInvocation>(recorded.size(), Content::Table);
  std::ranges::copy(recorded, made);
  for (KoloDeviceNetworkInvocation &invocation : std::span(made, recorded.size())) {
    const auto number = size_t(invocation.call.rank);
    Rank &rank = ranks[number];
    for (auto &peers : invocation.call.peers)
      peers = reinterpret_cast<void *const *>(rowOf(peers, number));
    invocation.call.peerSemaphores = reinterpret_cast<uint64_t *const *>(rowOf(invocation.call.peerSemaphores, number));
    invocation.peerInboxes = reinterpret_cast<void *const *>(rowOf(invocation.peerInboxes, number));
    invocation.inboxAgreement = inboxAgreement, invocation.inboxOffset = inboxOffset;
    invocation.cellsAgreement = cellsAgreement;
    invocation.places = rank.places;
    invocation.numHere = int64_t(rank.numHere), invocation.numFar = int64_t(numFar(rank));
    invocation.cells = rank.cells;
    invocation.queues = rank.queues;
    invocation.queueCounts = rank.counts;
    rank.inbox = addressOf(invocation.inbox);
  }
  return addressOf(made);
}

void NetworkModel::addRegions(Memory &memory) const {
  for (const Area &area : areas)
    memory.addRegion(addressOf(area.memory.get()), (area.sizeBytes + 7) / 8 * 8,
                     area.isZero ? nullptr : static_cast<const std::byte *>(area.memory.get()), area.isConstant);
}

bool NetworkModel::isOfTables(uint64_t address) const {
  return std::ranges::any_of(areas, [&](const Area &area) { return area.isConstant && area.has(address); });
}

void NetworkModel::reset(uint64_t seed) {
  random = Random(seed);
  wires.clear();
  for (Rank &rank : ranks)
    rank.lanes.assign(numLanes, {});
}

void NetworkModel::serve(Memory &memory, uint32_t firstThread) {
  const size_t rank = random.below(uint32_t(ranks.size())), lane = random.below(uint32_t(numLanes));
  const auto thread = uint32_t(firstThread + rank);
  switch (random.below(3)) {
  case 0:
    return take(memory, thread, ranks[rank], lane);
  case 1:
    return send(memory, thread, rank, lane);
  default:
    return deliver(memory, firstThread, rank);
  }
}

void NetworkModel::take(Memory &memory, uint32_t thread, Rank &rank, size_t lane) {
  Lane &state = rank.lanes[lane];
  KoloDeviceQueue &queue = rank.queues[lane];
  const Access &count = fault == NetworkFault::RelaxedRequests ? relaxed : acquire;
  if (load(memory, thread, &queue.written, count) <= state.numTaken)
    return;
  const KoloDeviceRequest &place = queue.requests[state.numTaken % KOLO_DEVICE_REQUESTS];
  uint64_t words[sizeof(KoloDeviceRequest) / sizeof(uint64_t)] = {};
  for (size_t word = 0; word < offsetof(KoloDeviceRequest, reserved) / sizeof(uint64_t); ++word)
    words[word] = load(memory, thread, reinterpret_cast<const uint64_t *>(&place) + word, weak);
  KoloDeviceRequest request;
  std::memcpy(&request, words, sizeof(request));
  const uint64_t agreement = request.kind == KOLO_DEVICE_PUT ? inboxAgreement : cellsAgreement;
  if (request.kind > KOLO_DEVICE_SIGNAL || request.agreement != agreement || size_t(request.peer) >= hosts.size())
    throw Problem("a request that the network does not know");
  state.unsent.push_back(request);
  ++state.numTaken;
  store(memory, thread, &queue.taken, state.numTaken, release);
}

void NetworkModel::send(Memory &memory, uint32_t thread, size_t rank, size_t lane) {
  Lane &state = ranks[rank].lanes[lane];
  if (state.unsent.empty())
    return;
  Message message = {state.unsent.front(), {}};
  state.unsent.pop_front();
  const KoloDeviceRequest &request = message.request;
  KoloDeviceQueue &queue = ranks[rank].queues[lane];
  if (request.kind == KOLO_DEVICE_PUT) {
    ++state.numFreed;
    const bool isEarly = fault == NetworkFault::EarlyChunk;
    if (isEarly)
      store(memory, thread, &queue.freed, state.numFreed, release);
    message.content.resize(request.value);
    forPieces(addressOf(request.source), message.content.size(), [&](size_t offset, uint32_t size) {
      memory.load(thread, addressOf(request.source) + offset, size, weak, 0, message.content.data() + offset);
    });
    if (!isEarly)
      store(memory, thread, &queue.freed, state.numFreed, release);
  }
  wires[{size_t(request.peer), rank, lane}].push_back(std::move(message));
}

/// The next message of one sender's lane to this rank. A message comes after what its sender did.
void NetworkModel::deliver(Memory &memory, uint32_t firstThread, size_t rank) {
  const Wire first = {rank, random.below(uint32_t(ranks.size())), random.below(uint32_t(numLanes))};
  auto found = wires.find(first);
  if (found == wires.end() || found->second.empty())
    return;
  std::deque<Message> &waiting = found->second;
  auto next = waiting.begin();
  auto isSignal = [](const Message &message) { return message.request.kind == KOLO_DEVICE_SIGNAL; };
  if (fault == NetworkFault::SignalFirst)
    if (auto signal = std::ranges::find_if(waiting, isSignal); signal != waiting.end())
      next = signal;
  const Message message = std::move(*next);
  waiting.erase(next);
  const auto sender = uint32_t(firstThread + std::get<1>(first)), thread = uint32_t(firstThread + ranks.size() + rank);
  memory.order({sender}, {thread});
  if (isSignal(message))
    signal(memory, thread, ranks[rank], first, message);
  else
    put(memory, thread, ranks[rank], message);
}

void NetworkModel::put(Memory &memory, uint32_t thread, const Rank &receiver, const Message &message) {
  const uint64_t to = receiver.inbox + message.request.offset - inboxOffset;
  forPieces(to, message.content.size(), [&](size_t offset, uint32_t size) {
    memory.store(thread, to + offset, size, weak, 0, message.content.data() + offset);
  });
}

void NetworkModel::signal(Memory &memory, uint32_t thread, const Rank &receiver, const Wire &wire,
                          const Message &message) {
  const auto [to, from, lane] = wire;
  const size_t row = lane * numSemaphores + message.request.semaphore;
  const size_t number = row * numFar(receiver) + receiver.places[from] - receiver.numHere;
  store(memory, thread, receiver.cells + number * KOLO_DEVICE_CELL_BYTES, 2 * message.request.value,
        fault == NetworkFault::RelaxedCell ? relaxed : release);
}

} // namespace kolo::ptx
