#include "peers/HostRounds.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {
namespace {

/// So long a message may take that its host sent before one of its ranks ended.
constexpr std::chrono::milliseconds messagePatience{250};
/// So many bytes a peer's kernel surely takes while the peer does nothing.
constexpr uint64_t manyMailBytes = 32 << 10;

} // namespace

HostRounds::HostRounds(const Hosts &places, const Control &control, ControlTransport &mails)
    : hosts(places), blocks(control), network(mails), rounds{places.number()} {
  if (!hosts.speaks())
    return;
  const std::vector<int> &previous = hosts.ranksOf(rounds.source(hosts.ownHost(), 0));
  watchedRanks.assign(previous.begin() + 1, previous.end());
  arrivals.resize(static_cast<size_t>(rounds.number()));
  sentBytes.resize(arrivals.size());
  lastSequence.resize(static_cast<size_t>(hosts.numRanks()));
}

void HostRounds::send(int round, uint64_t sequence, uint64_t plan, const RepeatCounts &repeats) {
  const int target = targetOf(round);
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
  network.setPatience(target, sentBefore > manyMailBytes);
  auto send = [&] { // a rank that is lost is noticed by those who wait for it
    sentNow += sizeBytes;
    if (sentBefore + sentNow > manyMailBytes)
      network.setPatience(target, true);
    (void)network.mail(target, write(mail));
    mail.entries.clear();
    sizeBytes = roundHeadBytes;
  };
  // Equal plans publish equally much on all ranks.
  bool hasEntries =
      plan == 0 || (plan != differentPlans && blocks.block(hosts.self()).publishedBytes[sequence % 2] != 0);
  for (int distance = 0; hasEntries && distance < rounds.numCarried(round); ++distance)
    for (int rank : hosts.ranksOf(rounds.before(hosts.ownHost(), distance))) {
      RankBlock &block = blocks.block(rank);
      MailEntry entry;
      entry.rank = rank;
      if (plan == 0)
        entry.record = block.records[sequence % 2];
      else
        entry.published = {block.announcementOf(sequence).published, block.publishedBytes[sequence % 2]};
      if (sizeBytes + mailEntryBytes(entry, plan) > maxMailBytes)
        send();
      sizeBytes += mailEntryBytes(entry, plan);
      mail.entries.push_back(entry);
    }
  mail.isLast = true;
  send();
  sentBefore = sentNow;
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

Status HostRounds::take(int sender, const Mail &mail) {
  if (mail.round >= number() || sender != sourceOf(mail.round))
    return rankError(StatusCode::Mismatch, sender, "rank {} sends round {} of an exchange to rank {}, which is not its",
                     sender, mail.round, hosts.self());
  const int numRanks = hosts.numRanks();
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
Status HostRounds::takeEntry(int sender, const Mail &mail, const MailEntry &entry) {
  bool isRank = entry.rank < hosts.numRanks();
  int distance = isRank ? (hosts.hostOf(sender) - hosts.hostOf(entry.rank) + rounds.numHosts) % rounds.numHosts : 0;
  if (!isRank || distance >= rounds.numCarried(mail.round) ||
      lastSequence[static_cast<size_t>(entry.rank)] >= mail.sequence)
    return rankError(StatusCode::Mismatch, sender, "rank {} sends what rank {} announces, in round {} of exchange {}",
                     sender, entry.rank, mail.round, mail.sequence);
  const size_t turn = mail.sequence % 2;
  RankBlock &block = blocks.block(entry.rank);
  if (mail.plan == 0) {
    block.records[turn] = entry.record;
  } else {
    std::ranges::copy(entry.published, block.announcementOf(mail.sequence).published);
    block.publishedBytes[turn] = static_cast<uint32_t>(entry.published.size());
  }
  lastSequence[static_cast<size_t>(entry.rank)] = mail.sequence;
  return {};
}

} // namespace kolo::runtime
