#include "peers/HostLinks.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {
namespace {

/// So long a message may take that its host sent before one of its ranks ended.
constexpr std::chrono::milliseconds wardPatience{250};
/// So many bytes a peer's kernel surely takes while the peer does nothing.
constexpr uint64_t manyMailBytes = 32 << 10;

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
  rounds = {hosts.numHosts()};
  if (Status status = openNetwork(endpoints); !status.isOk())
    return status;
  const int own = hostOf(self);
  members.resize(static_cast<size_t>(hosts.numHosts()));
  for (int rank = 0; rank < static_cast<int>(hosts.hostOf.size()); ++rank)
    members[static_cast<size_t>(hostOf(rank))].push_back(rank);
  if (speaks()) {
    for (int round = 0; round < rounds.number(); ++round)
      for (int host : {rounds.target(own, round), rounds.source(own, round)})
        neighbours.push_back(speakerOf(host));
    const std::vector<int> &previous = members[static_cast<size_t>(rounds.source(own, 0))];
    wards.assign(previous.begin() + 1, previous.end());
    neighbours.insert(neighbours.end(), wards.begin(), wards.end());
    arrivals.resize(static_cast<size_t>(rounds.number()));
    sentBytes.resize(arrivals.size());
    lastSequence.resize(hosts.hostOf.size());
  } else {
    neighbours.push_back(speakerOf(rounds.target(own, 0)));
  }
  std::ranges::sort(neighbours);
  neighbours.erase(std::ranges::unique(neighbours).begin(), neighbours.end());
  return meetRanks(endpoints);
}

Status HostLinks::meetRanks(std::span<const Endpoint> endpoints) {
  std::vector<Endpoint> wanted(endpoints.size());
  std::vector<bool> now(endpoints.size());
  for (int rank : neighbours)
    now[static_cast<size_t>(rank)] = true;
  for (size_t rank = 0; rank < endpoints.size(); ++rank) {
    if (!isRemote(static_cast<int>(rank)))
      continue;
    wanted[rank] = endpoints[rank];
    if (wanted[rank] == Endpoint())
      return rankError(StatusCode::Mismatch, static_cast<int>(rank), "rank {} gave no endpoint", rank);
    (void)takeOffer(wanted[rank]);
  }
  Status status = transport->connect(wanted, now);
  status = status.isOk() && fabric ? fabric->connect(wanted) : status;
  return status.isOk() ? status : tellFailure(status);
}

/// A rank that cannot start tells those with whom it is connected already: they wait for it. If they know better why
/// the world ends, that is the cause.
Status HostLinks::tellFailure(const Status &found) {
  (void)transport->progress();
  AbortRecord &record = blocks.abort();
  Status cause = found;
  if (found.rank() >= 0)
    cause = rankError(found.code(), found.rank(), "rank {} (host {}): {}", found.rank(), hostName(found.rank()),
                      found.message());
  (void)storeAbort(record, cause);
  tellAbort();
  if (record.state.load(std::memory_order_acquire) != AbortState::Published)
    return cause;
  return Status(record.code, record.message, record.culprit);
}

void HostLinks::sendRound(int round, uint64_t sequence, uint64_t plan, const RepeatCounts &repeats) {
  const int own = hostOf(self), target = rounds.target(own, round);
  Mail mail;
  mail.kind = MailKind::Round;
  mail.sequence = sequence;
  mail.plan = plan;
  mail.repeats = repeats;
  mail.round = round;
  mail.isLast = false;
  size_t sizeBytes = roundHeadBytes;
  // The target has read what came before its last exchange.
  uint64_t &sentBefore = sentBytes[static_cast<size_t>(round)], sentNow = 0;
  transport->setPatience(speakerOf(target), sentBefore > manyMailBytes);
  auto send = [&] { // a rank that is lost is noticed by those who wait for it
    sentNow += sizeBytes;
    if (sentBefore + sentNow > manyMailBytes)
      transport->setPatience(speakerOf(target), true);
    (void)transport->mail(speakerOf(target), write(mail));
    mail.entries.clear();
    sizeBytes = roundHeadBytes;
  };
  // Equal plans publish equally much on all ranks.
  bool hasEntries = plan == 0 || (plan != differentPlans && blocks.block(self).publishedBytes[sequence % 2] != 0);
  for (int distance = 0; hasEntries && distance < rounds.numCarried(round); ++distance)
    for (int rank : members[static_cast<size_t>(rounds.before(own, distance))]) {
      const RankBlock &block = blocks.block(rank);
      MailEntry entry;
      entry.rank = rank;
      if (plan == 0)
        entry.record = block.records[sequence % 2];
      else
        entry.published = {block.announcements[sequence % 2].published, block.publishedBytes[sequence % 2]};
      if (sizeBytes + mailEntryBytes(entry, plan) > tcp::maxMailBytes)
        send();
      sizeBytes += mailEntryBytes(entry, plan);
      mail.entries.push_back(entry);
    }
  mail.isLast = true;
  send();
  sentBefore = sentNow;
}

bool HostLinks::hasSent(int round) const {
  return transport->hasSentMails(speakerOf(rounds.target(hostOf(self), round)));
}

int HostLinks::lostBefore(uint64_t sequence) {
  auto isLost = [&](int rank) { return hasBroken(rank) || hasLeft(rank); };
  for (int round = 0; round < static_cast<int>(arrivals.size()); ++round)
    if (!arrivals[static_cast<size_t>(round)].sequence.hasReached(sequence) && isLost(sourceOf(round)))
      return sourceOf(round);
  if (wards.empty() || arrivals.front().sequence.hasReached(sequence))
    return -1;
  // One that left may have done so after this exchange. Its own host knows.
  auto ward = std::ranges::find_if(wards, [&](int rank) { return hasBroken(rank); });
  if (ward == wards.end())
    return -1;
  // It may have ended after this exchange: then the message of its host is on its way, on another connection.
  if (std::exchange(lostIn, sequence) != sequence)
    lostSince = Clock::now();
  return Clock::now() - lostSince >= wardPatience ? *ward : -1;
}

void HostLinks::tellAbort() {
  AbortRecord &record = blocks.abort();
  if (record.state.load(std::memory_order_acquire) != AbortState::Published || hasToldAbort.exchange(true))
    return;
  Mail mail;
  mail.kind = MailKind::Abort;
  mail.cause = Status(record.code, record.message, record.culprit);
  std::vector<std::byte> bytes = write(mail);
  for (int rank : neighbours)
    (void)transport->mail(rank, bytes);
}

void HostLinks::connectTo(int peer) {
  transport->ask(peer);
  if (fabric)
    fabric->ask(peer);
}

Status HostLinks::take(int sender, std::span<const std::byte> bytes) {
  if (fabric && isFabricMail(bytes))
    return fabric->take(sender, bytes);
  Result<Mail> mail = parseMail(bytes);
  if (!mail.isOk())
    return rankError(StatusCode::Mismatch, sender, "rank {} sent {}", sender, mail.status().message());
  if (mail->kind == MailKind::Round)
    return takeRound(sender, *mail);
  (void)storeAbort(blocks.abort(), mail->cause);
  return {};
}

Status HostLinks::takeRound(int sender, const Mail &mail) {
  if (mail.round >= static_cast<int>(arrivals.size()) || sender != sourceOf(mail.round))
    return rankError(StatusCode::Mismatch, sender, "rank {} sends round {} of an exchange to rank {}, which is not its",
                     sender, mail.round, self);
  const auto numRanks = static_cast<int>(hosts.hostOf.size());
  if (mail.repeats.leastRank >= numRanks || mail.repeats.mostRank >= numRanks)
    return rankError(StatusCode::Mismatch, sender, "rank {} sends what ranks {} and {} of {} announce", sender,
                     mail.repeats.leastRank, mail.repeats.mostRank, numRanks);
  Arrival &arrival = arrivals[static_cast<size_t>(mail.round)];
  if (arrival.sequence.hasReached(mail.sequence) || !arrival.sequence.hasReached(mail.sequence - 1))
    return rankError(StatusCode::Mismatch, sender, "rank {} sends round {} of exchange {}, which is not the next",
                     sender, mail.round, mail.sequence);
  for (const MailEntry &entry : mail.entries)
    if (Status status = takeEntry(sender, mail, entry); !status.isOk())
      return status;
  if (!mail.isLast)
    return {};
  arrival.plan[mail.sequence % 2] = mail.plan;
  arrival.repeats[mail.sequence % 2] = mail.repeats;
  arrival.sequence.raise(mail.sequence);
  return {};
}

/// Stores what a rank announces. Only the round that is about its host may bring it, and once.
Status HostLinks::takeEntry(int sender, const Mail &mail, const MailEntry &entry) {
  bool isRank = entry.rank < static_cast<int>(hosts.hostOf.size());
  int distance = isRank ? (hostOf(sender) - hostOf(entry.rank) + rounds.numHosts) % rounds.numHosts : 0;
  if (!isRank || distance >= rounds.numCarried(mail.round) ||
      lastSequence[static_cast<size_t>(entry.rank)] >= mail.sequence)
    return rankError(StatusCode::Mismatch, sender, "rank {} sends what rank {} announces, in round {} of exchange {}",
                     sender, entry.rank, mail.round, mail.sequence);
  const size_t turn = mail.sequence % 2;
  RankBlock &block = blocks.block(entry.rank);
  if (mail.plan == 0) {
    block.records[turn] = entry.record;
  } else {
    std::ranges::copy(entry.published, block.announcements[turn].published);
    block.publishedBytes[turn] = static_cast<uint32_t>(entry.published.size());
  }
  lastSequence[static_cast<size_t>(entry.rank)] = mail.sequence;
  return {};
}

void HostLinks::progress() {
  (void)data().progress();
  tellAbort();
}

void HostLinks::sleep(const Counter &counter, uint64_t target, int64_t mostUs) {
  (void)data().idle(counter, target, std::chrono::steady_clock::now() + std::chrono::microseconds(mostUs));
}

bool HostLinks::hasLeft(int peer) const {
  if (!transport->hasLeft(peer))
    return false;
  if (fabric)
    (void)fabric->progress(); // what the peer wrote before is here, but perhaps not counted yet
  return true;
}

Status HostLinks::explain(const Status &timeout) const {
  Status trouble = transport->troubleWith(timeout.rank());
  if (trouble.isOk() && fabric)
    trouble = fabric->troubleWith(timeout.rank());
  bool isTold = timeout.message().find(trouble.message()) != std::string::npos; // also if there is none
  return isTold ? timeout : tcp::withTrouble(timeout.message(), trouble, self);
}

bool HostLinks::hasBroken(int peer) const { return transport->hasFailedWith(peer); }

Status HostLinks::refusal() const {
  for (int peer = 0; fabric && peer < static_cast<int>(hosts.hostOf.size()); ++peer)
    if (Status status = isRemote(peer) ? fabric->stateOf(peer) : Status();
        !status.isOk() && status.code() != StatusCode::PeerLost)
      return status;
  return transport->refusal();
}

} // namespace kolo::runtime
