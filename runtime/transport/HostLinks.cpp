#include "transport/HostLinks.h"

#include "Error.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// Of a host's ranks, the one that stands for those of another host that have this place there.
int representative(std::span<const int> ranks, size_t place) { return ranks[place % ranks.size()]; }

size_t placeOf(std::span<const int> ranks, int rank) {
  return static_cast<size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

} // namespace

std::vector<int> HostMap::ranksOf(int host) const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < hostOf.size(); ++rank)
    if (hostOf[rank] == host)
      ranks.push_back(static_cast<int>(rank));
  return ranks;
}

Result<std::unique_ptr<HostLinks>> HostLinks::create(const tcp::TcpOptions &place) {
  std::unique_ptr<HostLinks> links(new HostLinks);
  links->self = place.rank;
  Result<NetworkOffer> offer = readNetworkOffer(place.listenAt);
  if (!offer.isOk())
    return offer.status();
  links->offer = *offer;
  tcp::TcpOptions &options = links->options = place;
  options.receiveMail = [own = links.get()](int sender, std::span<const std::byte> bytes) {
    return own->take(sender, bytes);
  };
  // Who has failed takes nothing any more, and may live on.
  options.mustStop = [own = links.get()] { return own->blocks.abort().state.load() != AbortState::None; };
  Result<std::unique_ptr<tcp::TcpTransport>> made = tcp::TcpTransport::create(options);
  if (!made.isOk())
    return made.status();
  options.key.reset(); // only the transport needs it
  links->transport = std::move(made).value();
  links->mails = std::make_unique<TcpMails>(*links->transport);
  links->lastSequence.resize(static_cast<size_t>(place.numRanks));
  return links;
}

HostLinks::~HostLinks() {
  if (fabric)
    fabric->leave();
}

Endpoint HostLinks::endpoint() const {
  Endpoint endpoint = transport->endpoint();
  addOffer(endpoint, offer);
  return endpoint;
}

/// Opens what all ranks chose, if that is not TCP.
Status HostLinks::openNetwork(std::span<const Endpoint> endpoints) {
  std::vector<NetworkOffer> offers;
  for (size_t rank = 0; rank < endpoints.size(); ++rank) {
    Endpoint endpoint = endpoints[rank];
    Result<NetworkOffer> one = takeOffer(endpoint);
    if (!one.isOk())
      return rankError(StatusCode::Mismatch, static_cast<int>(rank), "rank {} gave {}", rank, one.status().message());
    offers.push_back(*one);
  }
  Result<std::string> provider = chooseNetwork(offers);
  if (!provider.isOk() || provider->empty())
    return provider.status();
  FabricOptions wanted;
  wanted.rank = options.rank;
  wanted.numRanks = options.numRanks;
  wanted.timeoutMs = options.timeoutMs;
  wanted.provider = *provider;
  wanted.address = options.listenAt;
  wanted.mustStop = options.mustStop;
  Result<std::unique_ptr<Fabric>> opened = openFabric(wanted, *mails);
  if (!opened.isOk())
    return rankError(opened.status().code(), self, "rank {}: {}", self, opened.status().message());
  fabric = std::move(opened).value();
  return {};
}

Status HostLinks::connect(const HostMap &map, std::span<const Endpoint> endpoints, const Control &control) {
  hosts = map;
  blocks = control;
  if (Status status = openNetwork(endpoints); !status.isOk())
    return status;
  std::vector<int> own = hosts.ranksOf(hostOf(self));
  for (int host = 0; host < hosts.numHosts(); ++host) {
    if (host == hostOf(self))
      continue;
    std::vector<int> theirs = hosts.ranksOf(host);
    remote.insert(remote.end(), theirs.begin(), theirs.end());
    representatives.push_back(representative(theirs, placeOf(own, self)));
    for (size_t place = 0; place < theirs.size(); ++place)
      if (representative(own, place) == self)
        represented.push_back(theirs[place]);
  }
  std::vector<Endpoint> wanted(endpoints.size());
  for (int rank : remote) {
    Endpoint &endpoint = wanted[static_cast<size_t>(rank)] = endpoints[static_cast<size_t>(rank)];
    if (endpoint == Endpoint())
      return rankError(StatusCode::Mismatch, rank, "rank {} gave no endpoint", rank);
    (void)takeOffer(endpoint);
  }
  Status status = transport->connect(wanted);
  return status.isOk() && fabric ? fabric->connect(wanted) : status;
}

/// A rank that is lost is noticed by those who wait for it.
void HostLinks::tell(std::span<const int> ranks, const Mail &mail) {
  std::vector<std::byte> bytes = write(mail);
  for (int rank : ranks)
    (void)transport->mail(rank, bytes);
}

void HostLinks::tellJoin(const JoinInfo &info) {
  Mail mail;
  mail.kind = MailKind::Join;
  mail.join = info;
  tell(representatives, mail);
}

void HostLinks::tellPlan(uint64_t sequence, uint64_t plan, std::span<const std::byte> published) {
  Mail mail;
  mail.kind = MailKind::Plan;
  mail.sequence = sequence;
  mail.plan = plan;
  mail.published = published;
  tell(representatives, mail);
}

void HostLinks::tellRecord(uint64_t sequence, const Record &record) {
  Mail mail;
  mail.kind = MailKind::Record;
  mail.sequence = sequence;
  mail.record = record;
  tell(representatives, mail);
}

void HostLinks::tellAbort(const Status &cause) {
  Mail mail;
  mail.kind = MailKind::Abort;
  mail.cause = cause;
  tell(remote, mail);
}

Status HostLinks::take(int sender, std::span<const std::byte> bytes) {
  if (fabric && isFabricMail(bytes))
    return fabric->take(sender, bytes);
  Result<Mail> mail = parseMail(bytes);
  if (!mail.isOk())
    return rankError(StatusCode::Mismatch, sender, "rank {} sent {}", sender, mail.status().message());
  if (mail->kind == MailKind::Abort) {
    (void)storeAbort(blocks.abort(), mail->cause);
    return {};
  }
  if (!isRepresented(sender))
    return rankError(StatusCode::Mismatch, sender,
                     "rank {} announces something to rank {}, which does not stand for it", sender, self);
  if (mail->kind == MailKind::Join) {
    RankBlock &block = blocks.block(sender);
    block.join.lanes = mail->join.lanes;
    block.join.ordinaryMemory = mail->join.ordinaryMemory;
    block.presence.store(Presence::Joined, std::memory_order_seq_cst);
    return {};
  }
  return takeAnnouncement(sender, *mail);
}

Status HostLinks::takeAnnouncement(int sender, const Mail &mail) {
  uint64_t &last = lastSequence[static_cast<size_t>(sender)];
  if (mail.sequence != last + 1)
    return rankError(StatusCode::Mismatch, sender, "rank {} announces exchange {} after exchange {}", sender,
                     mail.sequence, last);
  last = mail.sequence;
  RankBlock &block = blocks.block(sender);
  Announcement &announcement = block.announcements[last % 2];
  if (mail.kind == MailKind::Record)
    block.records[last % 2] = mail.record;
  else
    std::ranges::copy(mail.published, announcement.published);
  announcement.plan = mail.plan;
  announcement.raise(last);
  return {};
}

void HostLinks::progress() {
  (void)data().progress();
  noteLost();
}

void HostLinks::sleep(const Counter &counter, uint64_t target, int64_t mostUs) {
  (void)data().idle(counter, target, std::chrono::steady_clock::now() + std::chrono::microseconds(mostUs));
}

/// Writes into the blocks which ranks have ended or left.
void HostLinks::noteLost() {
  for (int peer : represented) {
    std::atomic<Presence> &presence = blocks.block(peer).presence;
    bool isBroken = hasBroken(peer);
    if ((isBroken || transport->hasSaidGoodbye(peer)) && presence.load() < Presence::Left)
      presence.store(isBroken ? Presence::Ended : Presence::Left, std::memory_order_seq_cst);
  }
}

bool HostLinks::hasLeft(int peer) const {
  if (!transport->hasLeft(peer))
    return false;
  if (fabric)
    (void)fabric->progress(); // what the peer wrote before is here, but perhaps not counted yet
  return true;
}

bool HostLinks::hasBroken(int peer) const { return transport->hasFailedWith(peer); }

Status HostLinks::refusal() const {
  for (int peer : remote)
    if (Status status = fabric ? fabric->stateOf(peer) : Status(); status.code() == StatusCode::SystemError)
      return status;
  for (int peer : remote)
    if (Status status = transport->stateOf(peer); status.code() == StatusCode::Mismatch)
      return status;
  return {};
}

} // namespace kolo::runtime
