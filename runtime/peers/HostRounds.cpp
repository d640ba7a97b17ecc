#include "peers/HostRounds.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {
namespace {

/// So long a message may take that its host sent before one of its ranks ended.
constexpr std::chrono::milliseconds messagePatience{250};
/// Instead of a size that a rank does not tell, in a call that is not that of the others.
constexpr uint64_t untold = 0;
/// So many bytes a peer's kernel surely takes while the peer does nothing.
constexpr uint64_t manyMailBytes = 32 << 10;

} // namespace

void HostsAnnounce::add(const HostsAnnounce &other) {
  plan = other.plan == plan ? plan : differentPlans;
  repeats.add(other.repeats);
  records.add(other.records);
}

HostRounds::HostRounds(const Hosts &places, const Control &control, ControlTransport &mails)
    : hosts(places), blocks(control), network(mails), rounds{places.number()} {
  if (!hosts.speaks())
    return;
  const std::vector<int> &previous = hosts.ranksOf(rounds.source(hosts.ownHost(), 0));
  watchedRanks.assign(previous.begin() + 1, previous.end());
  arrivals = std::vector<Arrival>(static_cast<size_t>(rounds.number()));
  for (int round = 0; round < number(); ++round)
    arrivals[static_cast<size_t>(round)].places = rounds.firstCarried(round);
}

HostsAnnounce HostRounds::announcedIn(int round, uint64_t sequence) const {
  const Arrival::TurnArrival &turn = arrivals[static_cast<size_t>(round)].turns[sequence % 2];
  return {turn.plan, turn.repeats, turn.plan == 0 ? RecordSummary::in(turn.records) : RecordSummary()};
}

void HostRounds::begin(uint64_t sequence, const HostsAnnounce &own, CombinedRecords *combined) {
  current = sequence;
  together = combined;
  known = own;
  ownSums = own.records.numbers().sums;
  otherSums = {};
}

Status HostRounds::add(int round) {
  const HostsAnnounce heard = announcedIn(round, current);
  otherSums.add(heard.records.numbers().sums);
  known.add(heard); // the message is about its sender in any case, but in the sums
  SummaryNumbers::Sums &sums = known.records.numbers().sums = ownSums;
  sums.add(otherSums);
  if (known.plan != planOfMeetings)
    return {};
  Status status = together->add(arrivals[static_cast<size_t>(round)].turns[current % 2].combined);
  return status.isOk() ? status
                       : rankError(status.code(), sourceOf(round), "rank {} sends what no ranks say together: {}",
                                   sourceOf(round), status.message());
}

/// What this rank publishes in the exchange that has begun. Equal plans have equal slots on all ranks, and so have
/// records of equal calls; those of other calls are compared before anybody looks at a size.
PublishedSize HostRounds::publishedHere() const {
  const RankBlock &block = blocks.block(hosts.placeOf(hosts.self()));
  if (known.plan == 0) {
    constexpr uint32_t sizeBytes = sizeof(uint64_t);
    return block.records[current % 2].toldSize ? PublishedSize{sizeBytes, Control::slotBytesFor(sizeBytes)}
                                               : PublishedSize();
  }
  return known.plan == differentPlans ? PublishedSize() : block.published[current % 2];
}

std::span<const std::byte> HostRounds::publishedBy(int rank, size_t slotBytes) const {
  if (hosts.isRemote(rank)) {
    FarInput &input = blocks.farInput(rank, current, slotBytes);
    return {input.data(), std::min<size_t>(input.sizeBytes, slotBytes)};
  }
  RankBlock &block = blocks.block(hosts.placeOf(rank));
  const std::optional<uint64_t> &told = block.records[current % 2].toldSize;
  if (known.plan == 0)
    return std::as_bytes(std::span(told ? &*told : &untold, 1));
  return {block.announcementOf(current).published, block.published[current % 2].sizeBytes};
}

/// Sends a mail of a round, and empties it for the next one.
void HostRounds::post(int round, Mail &mail, size_t sizeBytes) {
  const int target = targetOf(round);
  SentBytes &sent = sentTo[target];
  if (sent.sequence != current)
    sent = {current, sent.now, 0};
  sent.now += sizeBytes;
  // The target has read what came before its last exchange.
  network.setPatience(target, sent.before + sent.now > manyMailBytes);
  (void)network.mail(target, write(mail)); // a rank that is lost is noticed by those who wait for it
  mail.entries.clear();
  mail.summary = {};
}

void HostRounds::send(int round) {
  const PublishedSize size = publishedHere();
  Mail mail;
  mail.kind = MailKind::Round;
  mail.sequence = current;
  mail.plan = known.plan;
  mail.repeats = known.repeats;
  mail.round = round;
  mail.isLast = false;
  if (mail.plan == 0)
    mail.summary = known.records;
  if (mail.plan == 0 && !rounds.carriesSender(round))
    mail.summary.numbers().sums = otherSums;
  if (mail.plan == planOfMeetings)
    return sendCombined(round, mail);
  mail.slotBytes = size.slotBytes;
  size_t sizeBytes = roundHeadBytes + mailSummaryBytes(mail.summary);
  const int last = size.sizeBytes == 0 ? -1 : rounds.lastCarried(round);
  for (int places = rounds.firstCarried(round); places <= last; ++places)
    for (int rank : hosts.ranksOf(rounds.before(hosts.ownHost(), places))) {
      MailEntry entry{rank, publishedBy(rank, size.slotBytes)};
      if (sizeBytes + mailEntryBytes(entry) > maxMailBytes) {
        post(round, mail, sizeBytes);
        sizeBytes = roundHeadBytes;
      }
      sizeBytes += mailEntryBytes(entry);
      mail.entries.push_back(entry);
    }
  mail.isLast = true;
  post(round, mail, sizeBytes);
}

/// As one entry, in the name of this rank.
void HostRounds::sendCombined(int round, Mail &mail) {
  const std::vector<std::byte> bytes = together->write();
  mail.slotBytes = maxCombinedBytes;
  mail.entries = {{hosts.self(), bytes}};
  mail.isLast = true;
  post(round, mail, roundHeadBytes + mailEntryBytes(mail.entries.front()));
}

int HostRounds::lostBefore(uint64_t sequence) {
  auto isLost = [&](int rank) { return network.hasFailedWith(rank) || network.hasLeft(rank); };
  for (int round = 0; round < number(); ++round)
    if (!arrivals[static_cast<size_t>(round)].sequence.hasReached(sequence) && isLost(sourceOf(round)))
      return sourceOf(round);
  if (watchedRanks.empty() || arrivals.front().sequence.hasReached(sequence))
    return -1;
  // One that left may have done so after this exchange. Its own host knows.
  auto ended = std::ranges::find_if(watchedRanks, [&](int rank) { return network.hasFailedWith(rank); });
  if (ended == watchedRanks.end())
    return -1;
  // It may have ended after this exchange: then the message of its host is on its way, on another connection.
  if (std::exchange(lostIn, sequence) != sequence)
    lostSince = Clock::now();
  return Clock::now() - lostSince >= messagePatience ? *ended : -1;
}

Status HostRounds::checkRound(int sender, const Mail &mail) const {
  if (mail.round >= number() || sender != sourceOf(mail.round))
    return rankError(StatusCode::Mismatch, sender, "rank {} sends round {} of an exchange to rank {}, which is not its",
                     sender, mail.round, hosts.self());
  const int numRanks = hosts.numRanks();
  if (mail.repeats.leastRank >= numRanks || mail.repeats.mostRank >= numRanks)
    return rankError(StatusCode::Mismatch, sender, "rank {} sends what ranks {} and {} of {} announce", sender,
                     mail.repeats.leastRank, mail.repeats.mostRank, numRanks);
  for (size_t why = 0; why < numKept; ++why)
    if (mail.summary.rankOf(Kept(why)) >= numRanks)
      return rankError(StatusCode::Mismatch, sender, "rank {} sends the record of rank {} of {}", sender,
                       mail.summary.rankOf(Kept(why)), numRanks);
  const Arrival &arrival = arrivals[static_cast<size_t>(mail.round)];
  if (arrival.sequence.hasReached(mail.sequence) || !arrival.sequence.hasReached(mail.sequence - 1))
    return rankError(StatusCode::Mismatch, sender, "rank {} sends round {} of exchange {}, which is not the next",
                     sender, mail.round, mail.sequence);
  return {};
}

/// Whether all has come that belongs to a message. Either all ranks that it is about publish something, or none.
bool HostRounds::isComplete(const Arrival &arrival, const Mail &mail) const {
  const bool isAtBegin = arrival.places == rounds.firstCarried(mail.round) && arrival.place == 0;
  return (isAtBegin || arrival.places > rounds.lastCarried(mail.round)) && (mail.plan != 0 || arrival.hasSummary);
}

Status HostRounds::take(int sender, const Mail &mail) {
  if (Status status = checkRound(sender, mail); !status.isOk())
    return status;
  Arrival &arrival = arrivals[static_cast<size_t>(mail.round)];
  Arrival::TurnArrival &turn = arrival.turns[mail.sequence % 2];
  if (!mail.summary.isEmpty()) {
    mail.summary.store(turn.records);
    arrival.hasSummary = true;
  }
  if (mail.plan == planOfMeetings)
    return takeCombined(sender, mail);
  for (const MailEntry &entry : mail.entries)
    if (Status status = takeEntry(sender, mail, entry); !status.isOk())
      return status;
  if (!mail.isLast)
    return {};
  if (!isComplete(arrival, mail))
    return rankError(StatusCode::Mismatch, sender, "rank {} sends only a part of round {} of exchange {}", sender,
                     mail.round, mail.sequence);
  finish(arrival, mail);
  return {};
}

/// All of a message is here.
void HostRounds::finish(Arrival &arrival, const Mail &mail) const {
  Arrival::TurnArrival &turn = arrival.turns[mail.sequence % 2];
  turn.plan = mail.plan;
  turn.repeats = mail.repeats;
  arrival.places = rounds.firstCarried(mail.round);
  arrival.place = 0;
  arrival.hasSummary = false;
  arrival.sequence.raise(mail.sequence);
}

/// One mail with one entry, after no other mail of this message. What the bytes mean is for those who add them up.
Status HostRounds::takeCombined(int sender, const Mail &mail) {
  Arrival &arrival = arrivals[static_cast<size_t>(mail.round)];
  const bool isFirst = arrival.places == rounds.firstCarried(mail.round) && arrival.place == 0 && !arrival.hasSummary;
  if (!isFirst || !mail.isLast || mail.entries.size() != 1 || mail.entries.front().rank != sender)
    return rankError(StatusCode::Mismatch, sender, "rank {} sends {} entries in round {} of a meeting", sender,
                     mail.entries.size(), mail.round);
  const std::span<const std::byte> bytes = mail.entries.front().published;
  arrival.turns[mail.sequence % 2].combined.assign(bytes.begin(), bytes.end());
  finish(arrival, mail);
  return {};
}

/// Stores what a rank publishes. The entries come in one order, so each comes once.
Status HostRounds::takeEntry(int sender, const Mail &mail, const MailEntry &entry) {
  Arrival &arrival = arrivals[static_cast<size_t>(mail.round)];
  const bool isOver = arrival.places > rounds.lastCarried(mail.round);
  const std::vector<int> *there =
      isOver ? nullptr : &hosts.ranksOf(rounds.before(hosts.hostOf(sender), arrival.places));
  if (!there || (*there)[arrival.place] != entry.rank)
    return rankError(StatusCode::Mismatch, sender, "rank {} sends what rank {} announces, in round {} of exchange {}",
                     sender, entry.rank, mail.round, mail.sequence);
  FarInput &input = blocks.farInput(entry.rank, mail.sequence, mail.slotBytes);
  std::ranges::copy(entry.published, input.data());
  input.sizeBytes = static_cast<uint32_t>(entry.published.size());
  if (++arrival.place == there->size()) {
    arrival.place = 0;
    ++arrival.places;
  }
  return {};
}

} // namespace kolo::runtime
