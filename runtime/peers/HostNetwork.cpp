// The one file that knows which ControlTransport there is.
#include "peers/HostNetwork.h"

#include "base/Error.h"
#include "network/InProcess.h"
#include "network/tcp/TcpTransport.h"

#include <utility>

namespace kolo::runtime {

Result<std::unique_ptr<HostNetwork>> HostNetwork::listen(const ControlOptions &given) {
  Result<NetworkOffer> offer = readNetworkOffer(given.listenAt);
  if (!offer.isOk())
    return offer.status();
  std::unique_ptr<HostNetwork> made(new HostNetwork(given));
  made->offer = *offer;
  tcp::TcpOptions options{given};
  options.receiveMail = [own = made.get()](int sender, std::span<const std::byte> mail) {
    return own->take(sender, mail);
  };
  Result<std::unique_ptr<tcp::TcpTransport>> listening = tcp::TcpTransport::create(options);
  if (!listening.isOk())
    return listening.status();
  made->options.key.reset(); // only the transport needs it
  made->controls = std::move(listening).value();
  return made;
}

std::unique_ptr<HostNetwork> HostNetwork::inProcess(std::shared_ptr<Mailboxes> mailboxes,
                                                    const ControlOptions &options) {
  std::unique_ptr<HostNetwork> made(new HostNetwork(options));
  made->controls = std::make_unique<InProcess>(std::move(mailboxes), options);
  return made;
}

HostNetwork::~HostNetwork() {
  if (fabric)
    fabric->leave();
}

Endpoint HostNetwork::endpoint() const {
  Endpoint endpoint = controls->endpoint();
  addOffer(endpoint, offer);
  return endpoint;
}

Result<std::string> HostNetwork::choose(std::span<const Endpoint> endpoints) {
  std::vector<NetworkOffer> offers;
  for (size_t rank = 0; rank < endpoints.size(); ++rank) {
    Endpoint endpoint = endpoints[rank];
    Result<NetworkOffer> one = takeOffer(endpoint);
    if (!one.isOk())
      return rankError(StatusCode::Mismatch, static_cast<int>(rank), "rank {} gave {}", rank, one.status().message());
    offers.push_back(*one);
  }
  return chooseNetwork(offers);
}

Status HostNetwork::open(const std::string &provider) {
  if (provider.empty())
    return {};
  FabricOptions wanted;
  wanted.rank = options.rank;
  wanted.numRanks = options.numRanks;
  wanted.timeoutMs = options.timeoutMs;
  wanted.provider = provider;
  wanted.address = options.listenAt;
  if (Result<RankLocality> place = RankLocality::here(); place.isOk()) // readNetworkOffer has tried it
    wanted.place = *place;
  if (Result<NetworkMemory> memory = readNetworkMemory(); memory.isOk()) // likewise
    wanted.isForDevices = *memory != NetworkMemory::Host;
  wanted.mustStop = options.mustStop;
  Result<std::unique_ptr<Fabric>> opened = openFabric(wanted, *controls);
  if (!opened.isOk())
    return rankError(opened.status().code(), options.rank, "rank {}: {}", options.rank, opened.status().message());
  fabric = std::move(opened).value();
  return {};
}

Result<std::vector<Endpoint>> HostNetwork::withoutOffers(std::span<const Endpoint> endpoints,
                                                         const std::vector<int> &others) {
  std::vector<Endpoint> wanted(endpoints.size());
  for (int peer : others) {
    Endpoint &one = wanted[static_cast<size_t>(peer)] = endpoints[static_cast<size_t>(peer)];
    if (one == Endpoint())
      return rankError(StatusCode::Mismatch, peer, "rank {} gave no endpoint", peer);
    (void)takeOffer(one);
  }
  return wanted;
}

Status HostNetwork::connect(std::span<const Endpoint> endpoints, const std::vector<bool> &now) {
  Status status = controls->connect(endpoints, now);
  return status.isOk() && fabric ? fabric->connect(endpoints) : status;
}

Status HostNetwork::know(std::shared_ptr<const EndpointTable> endpoints) {
  controls->know(endpoints);
  if (!fabric)
    return {};
  std::vector<Endpoint> all(static_cast<size_t>(options.numRanks)); // which are not kept
  for (size_t rank = 0; rank < all.size(); ++rank)
    all[rank] = endpoints->endpointOf(static_cast<int>(rank));
  return fabric->connect(all);
}

Status HostNetwork::take(int sender, std::span<const std::byte> mail) {
  return fabric && isFabricMail(mail) ? fabric->take(sender, mail) : options.receiveMail(sender, mail);
}

void HostNetwork::connectTo(int peer) {
  controls->ask(peer);
  if (fabric)
    fabric->ask(peer);
}

bool HostNetwork::hasLeft(int peer) const {
  if (!controls->hasLeft(peer))
    return false;
  if (fabric)
    (void)fabric->progress(); // what the peer wrote before is here, but perhaps not counted yet
  return true;
}

Status HostNetwork::explain(const Status &timeout) const {
  Status trouble = controls->troubleWith(timeout.rank());
  if (trouble.isOk() && fabric)
    trouble = fabric->troubleWith(timeout.rank());
  bool isTold = timeout.message().find(trouble.message()) != std::string::npos; // also if there is none
  return isTold ? timeout : tcp::withTrouble(timeout.message(), trouble, options.rank);
}

Status HostNetwork::refusal() const {
  for (int peer = 0; fabric && peer < options.numRanks; ++peer)
    if (Status status = fabric->stateOf(peer); !status.isOk() && status.code() != StatusCode::PeerLost)
      return status;
  return controls->refusal();
}

} // namespace kolo::runtime
