// How FabricTransport connects: addresses by mail, and then a self-test of all that it will use.
#include "Error.h"
#include "network/fabric/FabricTransport.h"
#include "wait/Clock.h"

#include <algorithm>
#include <numeric>

namespace kolo::runtime::fabric {
namespace {

/// The puts of the self-test, each with a signal behind it.
constexpr uint64_t testSizes[] = {1, 8, 64, 1000, 4096, 16384};
constexpr uint64_t numTests = std::size(testSizes);
constexpr uint64_t numTestParts = 4;
constexpr uint64_t testBytes = [] {
  uint64_t sum = 0;
  for (uint64_t size : testSizes)
    sum += size;
  return sum;
}();
constexpr std::chrono::milliseconds lookInterval{1};

std::byte testByte(int sender, uint64_t at) {
  return static_cast<std::byte>(((at + 1) * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(sender) * 37) >> 56 | 1);
}

} // namespace

/// What the peers of the self-test write, and the check of it.
class SelfTest {
public:
  SelfTest(int ownRank, int ranks)
      : rank(ownRank), landing(testBytes * static_cast<uint64_t>(ranks)), cells(static_cast<size_t>(ranks)),
        numHeard(cells.size(), 0) {
    for (uint64_t at = 0; at < testBytes; ++at)
      source.push_back(testByte(rank, at));
  }

  Registration registration() {
    Registration own;
    own.agreement = testAgreement;
    own.regions = {{landing.data(), landing.size()}};
    own.senders.assign(cells.size(), true);
    own.cells = cells.data();
    own.numLanes = own.numSemaphores = 1;
    return own;
  }

  /// Begins all puts and signals to a peer.
  Status write(Transport &transport, int peer) const {
    uint64_t at = 0, slot = static_cast<uint64_t>(rank) * testBytes;
    for (uint64_t test = 0; test < numTests; at += testSizes[test++]) {
      for (uint64_t part = 0; part < numTestParts; ++part) {
        uint64_t begin = at + testSizes[test] * part / numTestParts;
        uint64_t end = at + testSizes[test] * (part + 1) / numTestParts;
        if (Status status =
                transport.put({peer, 0}, {testAgreement, 0, slot + begin}, source.data() + begin, end - begin);
            !status.isOk())
          return status;
      }
      if (Status status = transport.signal({peer, 0}, {testAgreement, 0, test + 1}); !status.isOk())
        return status;
    }
    return {};
  }

  /// Looks at what has come since the last look. SystemError: a signal came before its data.
  Status look(int peer) {
    uint64_t &heard = numHeard[static_cast<size_t>(peer)];
    for (; heard < numTests && cells[static_cast<size_t>(peer)].hasReached(heard + 1); ++heard) {
      uint64_t begin = std::accumulate(testSizes, testSizes + heard, uint64_t(0));
      const std::byte *own = landing.data() + static_cast<uint64_t>(peer) * testBytes;
      for (uint64_t at = begin + testSizes[heard]; at-- > begin;)
        if (own[at] != testByte(peer, at))
          return rankError(StatusCode::SystemError, peer,
                           "the signal of rank {} came before byte {} of its put of {} bytes", peer, at - begin,
                           testSizes[heard]);
    }
    return {};
  }
  bool hasAllOf(int peer) const { return numHeard[static_cast<size_t>(peer)] == numTests; }

private:
  int rank;
  std::vector<std::byte> source, landing;
  std::vector<Cell> cells;
  std::vector<uint64_t> numHeard;
};

/// Waits until `isThere` holds for all peers. Timeout: names those for which it does not.
Status FabricTransport::waitForAll(const std::function<bool(const Peer &)> &isThere, const char *what) {
  const Counter none = {};
  for (Clock::time_point start = Clock::now();;) {
    std::string missing;
    int first = -1;
    {
      std::scoped_lock lock(mutex);
      for (int rank = 0; rank < options.numRanks; ++rank)
        if (const Peer &peer = peers[static_cast<size_t>(rank)]; peer.isWanted && !isThere(peer)) {
          missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
          first = first < 0 ? rank : first;
        }
    }
    if (missing.empty())
      return {};
    if (Clock::now() - start >= std::chrono::milliseconds(longestMs))
      return rankError(StatusCode::Timeout, first, "rank {} waited {} ms for {} of rank {}: timed out", options.rank,
                       longestMs, what, missing);
    (void)mails.idle(none, 1, Clock::now() + lookInterval);
    if (options.progress)
      options.progress();
    std::scoped_lock lock(mutex);
    for (int rank = 0; rank < options.numRanks; ++rank) // one that has left may have told before all that is wanted
      if (const Peer &peer = peers[static_cast<size_t>(rank)]; peer.isWanted && !isThere(peer))
        if (Status status = mails.stateOf(rank); !status.isOk())
          return status;
  }
}

Status FabricTransport::runTest(SelfTest &test) {
  for (int rank = 0; rank < options.numRanks; ++rank)
    if (peers[static_cast<size_t>(rank)].isWanted)
      if (Status status = test.write(*this, rank); !status.isOk())
        return status;
  const Counter none = {};
  for (Clock::time_point start = Clock::now();;) {
    if (Status status = progress(); !status.isOk())
      return status;
    int missing = -1;
    for (int rank = options.numRanks - 1; rank >= 0; --rank) {
      if (!peers[static_cast<size_t>(rank)].isWanted)
        continue;
      if (Status status = test.look(rank); !status.isOk())
        return status;
      if (Status status = stateOf(rank); !status.isOk())
        return status;
      missing = test.hasAllOf(rank) ? missing : rank;
    }
    if (missing < 0)
      return flush(0);
    if (Clock::now() - start >= std::chrono::milliseconds(longestMs))
      return rankError(StatusCode::Timeout, missing, "rank {} waited {} ms for the puts of rank {}: timed out",
                       options.rank, longestMs, missing);
    (void)mails.idle(none, 1, Clock::now() + std::chrono::microseconds(20));
    if (options.progress)
      options.progress();
  }
}

/// Puts and signals with every peer: what a provider says that it can do is not always so.
Status FabricTransport::connect(std::span<const Endpoint> endpoints) {
  if (endpoints.size() != static_cast<size_t>(options.numRanks) || isConnected.load())
    return error(StatusCode::InvalidArgument, "{} endpoints for {} ranks, or connected already", endpoints.size(),
                 options.numRanks);
  for (int rank = 0; rank < options.numRanks; ++rank)
    peers[static_cast<size_t>(rank)].isWanted =
        rank != options.rank && endpoints[static_cast<size_t>(rank)] != Endpoint();
  longestMs = options.connectMs ? options.connectMs : options.timeoutMs;
  SelfTest test(options.rank, options.numRanks);
  const std::vector<bool> everybody(peers.size(), true);
  Letter own;
  own.kind = LetterKind::Address;
  own.provider = rules.name;
  own.order = rules.order;
  own.device = device;
  {
    std::scoped_lock lock(mutex);
    Result<Letter> landing = expose(test.registration());
    if (!landing.isOk())
      return landing.status();
    tell(*landing, everybody); // before the address: who knows that may write
    own.address.assign(nic->address().begin(), nic->address().end());
    tell(own, everybody);
  }
  Status status = waitForAll([](const Peer &peer) { return !peer.address.empty(); }, "the address");
  if (status.isOk())
    status = meet(test);
  std::scoped_lock lock(mutex);
  exposed.erase(testAgreement);
  Letter released;
  released.kind = LetterKind::Released;
  released.agreement = testAgreement;
  tell(released, everybody);
  if (!status.isOk())
    closeDevice(); // peers may still be writing to the test's memory
  longestMs = options.timeoutMs;
  options.progress = {};
  return status;
}

/// Takes the addresses of all peers, and runs the test.
Status FabricTransport::meet(SelfTest &test) {
  {
    std::scoped_lock lock(mutex);
    for (const Peer &peer : peers)
      if (!peer.difference.isOk())
        return peer.difference;
    for (int rank = 0; rank < options.numRanks; ++rank)
      if (const Peer &peer = peers[static_cast<size_t>(rank)]; peer.isWanted)
        if (Status status = nic->addPeer(rank, peer.address); !status.isOk())
          return status;
    if (rules.targetKnowsInitiator) {
      Letter ready;
      ready.kind = LetterKind::Ready;
      tell(ready, std::vector<bool>(peers.size(), true));
    }
  }
  if (rules.targetKnowsInitiator)
    if (Status status = waitForAll([](const Peer &peer) { return peer.isReady; }, "the readiness"); !status.isOk())
      return status;
  isConnected.store(true, std::memory_order_release);
  Status status = runTest(test);
  if (status.isOk())
    return status;
  return rankError(status.code(), status.rank(), "self-test of provider {}: {}; KOLO_NETWORK=tcp needs none",
                   rules.name, status.message());
}

} // namespace kolo::runtime::fabric
