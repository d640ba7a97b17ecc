#include "EmulatedNetwork.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace kolo::test {
namespace {

constexpr uint64_t inboxAgreement = 5, cellsAgreement = 8, inboxOffset = 192;
constexpr int garbage = 0xa5;

uint64_t read(uint64_t &count) { return std::atomic_ref(count).load(std::memory_order_acquire); }
void raise(uint64_t &count, uint64_t value) { std::atomic_ref(count).store(value, std::memory_order_release); }

} // namespace

std::vector<int> hostsOf(const std::vector<int64_t> &mesh, int64_t ranksPerHost) {
  const int64_t apart = std::accumulate(mesh.begin() + 1, mesh.end(), int64_t(1), std::multiplies<>());
  std::vector<int> hosts;
  for (int64_t rank = 0; rank < mesh.front() * apart; ++rank)
    hosts.push_back(int(rank / std::max(ranksPerHost, apart)));
  return hosts;
}

EmulatedNetwork::EmulatedNetwork(const Size &size, std::vector<int> hosts)
    : size(size), hosts(std::move(hosts)), states(size.numRanks * size.numLanes),
      queues(size.numRanks, std::vector<KoloDeviceQueue>(size.numLanes)),
      counts(size.numRanks, std::vector<KoloDeviceQueueCounts>(size.numLanes)) {
  placePeers();
  for (size_t rank = 0; rank < size.numRanks; ++rank)
    for (size_t lane = 0; lane < size.numLanes; ++lane) {
      State &state = stateOf(rank, lane);
      state.outbox.assign(size_t(KOLO_DEVICE_CHUNKS) * KOLO_DEVICE_CHUNK_BYTES, garbage);
      queueOf(rank, lane).outbox = state.outbox.data();
    }
}

void EmulatedNetwork::placePeers() {
  for (size_t rank = 0; rank < size.numRanks; ++rank) {
    std::vector<uint32_t> &placed = places.emplace_back(size.numRanks);
    uint32_t next = 0;
    for (size_t peer = 0; peer < size.numRanks; ++peer)
      if (!areApart(rank, peer))
        placed[peer] = next++;
    numHere.push_back(next);
    for (size_t peer = size.numRanks; peer-- > 0;)
      if (areApart(rank, peer))
        placed[peer] = next++;
    cells.emplace_back(size.numLanes * size.numSemaphores * numFar(rank));
  }
}

bool EmulatedNetwork::areSeveral() const {
  return std::ranges::any_of(hosts, [&](int host) { return host != hosts.front(); });
}

uint64_t EmulatedNetwork::numPuts() const {
  uint64_t sum = 0;
  for (const State &state : states)
    sum += state.numPuts;
  return sum;
}

void EmulatedNetwork::describe(size_t rank, KoloDeviceNetworkInvocation &invocation) {
  invocation.inboxAgreement = inboxAgreement, invocation.inboxOffset = inboxOffset;
  invocation.cellsAgreement = cellsAgreement;
  invocation.places = places[rank].data();
  invocation.numHere = int64_t(numHere[rank]), invocation.numFar = int64_t(numFar(rank));
  if (!areSeveral())
    return;
  invocation.cells = cells[rank].data();
  invocation.queues = queues[rank].data();
  invocation.queueCounts = counts[rank].data();
}

void EmulatedNetwork::start(std::vector<std::byte *> ofRanks, size_t bytesEach, uint64_t seed) {
  inboxes = std::move(ofRanks), inboxBytes = bytesEach;
  random.seed(seed);
  wrong.clear();
  thread = std::jthread([this](const std::stop_token &stopped) { run(stopped); });
}

std::string EmulatedNetwork::stop() {
  thread.request_stop();
  thread.join();
  return wrong;
}

/// In a random order. What is done in a turn is left to chance, too.
void EmulatedNetwork::run(const std::stop_token &stopped) {
  for (bool isIdle = false; !isIdle || !stopped.stop_requested();) {
    const bool isLast = stopped.stop_requested(); // then all requests are there
    isIdle = true;
    for (size_t rank = 0; rank < size.numRanks; ++rank)
      for (size_t lane = 0; lane < size.numLanes; ++lane)
        if (random() % 2 || isLast)
          isIdle &= !take(rank, lane);
    for (auto &[wire, waiting] : wires) {
      if (waiting.empty() || (!deliversPuts && waiting.front().request.kind == KOLO_DEVICE_PUT))
        continue;
      isIdle = false;
      if (random() % 3 == 0 || isLast)
        deliver(wire, waiting);
    }
    if (isIdle)
      std::this_thread::yield();
    isIdle &= isLast;
  }
}

bool EmulatedNetwork::take(size_t rank, size_t lane) {
  KoloDeviceQueue &queue = queueOf(rank, lane);
  const uint64_t number = queue.taken;
  if (read(queue.written) <= number)
    return false;
  KoloDeviceRequest &place = queue.requests[number % KOLO_DEVICE_REQUESTS];
  const KoloDeviceRequest request = place;
  std::memset(&place, garbage, sizeof(place));
  if (std::string mistake = mistakeIn(rank, lane, request); !mistake.empty()) {
    wrong += "rank " + std::to_string(rank) + ": " + mistake + "\n";
  } else {
    State &state = stateOf(rank, lane);
    const bool isPut = request.kind == KOLO_DEVICE_PUT;
    wires[{rank, lane, size_t(request.peer)}].push_back({request, state.numPuts});
    if (isPut)
      ++state.numPuts, state.isDelivered.push_back(false);
  }
  raise(queue.taken, number + 1);
  return true;
}

std::string EmulatedNetwork::mistakeIn(size_t rank, size_t lane, const KoloDeviceRequest &request) const {
  if (request.peer < 0 || request.peer >= int64_t(size.numRanks) || !areApart(rank, size_t(request.peer)))
    return "a request for rank " + std::to_string(request.peer);
  if (request.kind == KOLO_DEVICE_SIGNAL)
    return request.agreement == cellsAgreement && request.semaphore < size.numSemaphores
               ? ""
               : "a signal to semaphore " + std::to_string(request.semaphore);
  const State &state = states[rank * size.numLanes + lane];
  const unsigned char *chunk =
      state.outbox.data() + state.numPuts % KOLO_DEVICE_CHUNKS * size_t(KOLO_DEVICE_CHUNK_BYTES);
  if (request.kind != KOLO_DEVICE_PUT || request.source != chunk || request.agreement != inboxAgreement)
    return "a put from another chunk, or to other memory";
  if (request.value == 0 || request.value > KOLO_DEVICE_CHUNK_BYTES || request.offset < inboxOffset ||
      request.offset + request.value > inboxOffset + inboxBytes)
    return "a put of " + std::to_string(request.value) + " bytes at " + std::to_string(request.offset);
  return "";
}

void EmulatedNetwork::deliver(const Wire &wire, std::deque<Pending> &waiting) {
  const Pending pending = waiting.front();
  waiting.pop_front();
  if (pending.request.kind == KOLO_DEVICE_PUT)
    put(wire, pending);
  else
    signal(wire, pending.request);
}

void EmulatedNetwork::put(const Wire &wire, const Pending &pending) {
  const auto [rank, lane, peer] = wire;
  const KoloDeviceRequest &request = pending.request;
  std::memcpy(inboxes[peer] + (request.offset - inboxOffset), request.source, request.value);
  State &state = stateOf(rank, lane);
  KoloDeviceQueue &queue = queueOf(rank, lane);
  std::memset(const_cast<void *>(request.source), garbage, KOLO_DEVICE_CHUNK_BYTES);
  uint64_t freed = queue.freed;
  state.isDelivered[pending.put - freed] = true;
  for (; !state.isDelivered.empty() && state.isDelivered.front(); ++freed)
    state.isDelivered.pop_front();
  raise(queue.freed, freed);
}

void EmulatedNetwork::signal(const Wire &wire, const KoloDeviceRequest &request) {
  const auto [rank, lane, peer] = wire;
  const size_t row = lane * size.numSemaphores + request.semaphore;
  uint64_t &count = cells[peer][row * numFar(peer) + places[peer][rank] - numHere[peer]].count;
  if (count + 2 != 2 * request.value)
    wrong += "a signal with count " + std::to_string(request.value) + " after " + std::to_string(count / 2) + "\n";
  raise(count, 2 * request.value);
}

} // namespace kolo::test
