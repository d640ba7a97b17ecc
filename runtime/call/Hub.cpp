// The ways of a Hub's messages: a TcpTransport between rank 0 and each spoke, which carries nothing but mails.
#include "kolo/runtime/Hub.h"

#include "base/Environment.h"
#include "base/Error.h"
#include "base/Variable.h"
#include "bootstrap/MultiHostJoin.h"
#include "bootstrap/Secret.h"
#include "network/tcp/TcpTransport.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kolo::runtime {

struct HubState {
  HubHandler handler;
  std::unique_ptr<tcp::TcpTransport> transport; // null: this rank is connected with none
};

namespace {

constexpr int longestConnectMs = 30'000;

/// What a rank says in each round.
struct HubPlace {
  char magic[8] = {'K', 'O', 'L', 'O', 'H', 'U', 'B', '1'};
  StatusCode code = StatusCode::Ok; // not Ok: this rank refuses, and `message` says why
  char message[192] = {};
  WorldNumber world = {}; // of rank 0, and the address by which others reach it
  char address[64] = {};
  Endpoint endpoint = {};
};
static_assert(std::is_trivially_copyable_v<HubPlace> && sizeof(HubPlace) <= 512);

class HubJoin {
public:
  HubJoin(int ownRank, int numRanks, std::span<const int> connected, const AllGather &allGather)
      : rank(ownRank), size(numRanks), spokes(connected), gather(allGather), all(static_cast<size_t>(numRanks)) {}

  /// The first refusal of any rank, the same on all ranks.
  Status enter(const Result<Settings> &settings, HubState &state);

private:
  bool isPart() const { return !spokes.empty() && (rank == 0 || std::ranges::binary_search(spokes, rank)); }
  Status exchange(const Status &refusal);
  Status listen(const Settings &settings, HubState &state);
  Status connect(HubState &state) const;

  int rank, size;
  std::span<const int> spokes;
  const AllGather &gather;
  HubPlace own;
  std::vector<HubPlace> all; // by rank, of the last round
};

Status HubJoin::exchange(const Status &refusal) {
  own.code = refusal.code();
  refusal.message().copy(own.message, sizeof(own.message) - 1);
  if (Status status = gather(&own, sizeof(own), all.data()); !status.isOk())
    return status;
  const HubPlace known;
  for (int peer = 0; peer < size; ++peer) {
    const HubPlace &each = all[static_cast<size_t>(peer)];
    if (!std::ranges::equal(each.magic, known.magic))
      return rankError(StatusCode::Mismatch, peer, "rank {} runs another version of this runtime", peer);
    if (each.code != StatusCode::Ok)
      return rankError(each.code, peer, "rank {}: {}", peer, each.message);
  }
  return {};
}

/// By KOLO_NETWORK_INTERFACE, or else where rank 0 is reached.
Status HubJoin::listen(const Settings &settings, HubState &state) {
  const char *interface = variable("KOLO_NETWORK_INTERFACE");
  Result<std::string> address = interface ? addressOfInterface(interface) : addressTowards(all.front().address);
  const Result<OptionalKey> secret = readSecret();
  if (!address.isOk() || !secret.isOk())
    return address.isOk() ? secret.status() : address.status();
  tcp::TcpOptions options;
  options.rank = rank;
  options.numRanks = size;
  options.timeoutMs = settings.timeoutMs;
  options.connectMs = std::min(settings.timeoutMs, longestConnectMs);
  options.world = all.front().world;
  options.key = WorldKey(all.front().world, *secret).key;
  options.listenAt = *address;
  options.receiveMail = [&handler = state.handler](int sender, std::span<const std::byte> mail) {
    return handler(sender, mail) ? Status()
                                 : rankError(StatusCode::Mismatch, sender, "rank {} sent what is no message", sender);
  };
  Result<std::unique_ptr<tcp::TcpTransport>> made = tcp::TcpTransport::create(options);
  if (!made.isOk())
    return made.status();
  state.transport = std::move(made).value();
  own.endpoint = state.transport->endpoint();
  return {};
}

Status HubJoin::connect(HubState &state) const {
  std::vector<Endpoint> endpoints(all.size());
  std::vector<bool> now(all.size());
  auto add = [&](int peer) {
    endpoints[static_cast<size_t>(peer)] = all[static_cast<size_t>(peer)].endpoint;
    now[static_cast<size_t>(peer)] = true;
  };
  if (rank == 0)
    std::ranges::for_each(spokes, add);
  else
    add(0);
  return state.transport->connect(endpoints, now, false);
}

Status HubJoin::enter(const Result<Settings> &settings, HubState &state) {
  if (rank == 0) {
    own.world = randomWorld();
    likelyAddress().copy(own.address, sizeof(own.address) - 1);
  }
  if (Status refused = exchange(settings.status()); !refused.isOk())
    return refused;
  if (Status refused = exchange(isPart() ? listen(*settings, state) : Status()); !refused.isOk())
    return refused;
  return exchange(isPart() ? connect(state) : Status());
}

} // namespace

Hub::Hub(std::unique_ptr<HubState> made) : state(std::move(made)) {}
Hub::Hub(Hub &&) noexcept = default;
Hub &Hub::operator=(Hub &&) noexcept = default;
Hub::~Hub() = default;

Result<Hub> Hub::create(int rank, int size, std::span<const int> spokes, const AllGather &exchange, HubHandler handler,
                        const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Hub> {
    auto made = std::make_unique<HubState>();
    made->handler = std::move(handler);
    Status status = HubJoin(rank, size, spokes, exchange).enter(readSettings(options), *made);
    return status.isOk() ? Result<Hub>(Hub(std::move(made))) : Result<Hub>(status);
  });
}

Status Hub::send(int peer, std::span<const std::byte> message) {
  return guarded([&] {
    return state->transport ? state->transport->mail(peer, message)
                            : error(StatusCode::InvalidArgument, "this rank is not connected with rank {}", peer);
  });
}

void Hub::progress() {
  if (state->transport)
    (void)state->transport->progress(); // who waits for a peer asks for its state
}

void Hub::wait(int mostMicroseconds) {
  const Counter none = {};
  if (state->transport)
    (void)state->transport->idle(none, 1, Clock::now() + std::chrono::microseconds(mostMicroseconds));
}

bool Hub::hasLeft(int peer) const { return state->transport && state->transport->hasLeft(peer); }
bool Hub::isLost(int peer) const { return state->transport && state->transport->hasFailedWith(peer); }

} // namespace kolo::runtime
