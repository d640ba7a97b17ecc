#include "peers/RosterRounds.h"

#include "base/Error.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kolo::runtime {
namespace {

constexpr size_t linesOfMail = (maxMailBytes - rosterHeadBytes) / rosterLineBytes;

RosterLine nameLine(int host, const char *name) {
  RosterLine line;
  line.host = host;
  static_assert(sizeof(line.endpoint) >= hostNameBytes);
  std::memcpy(line.endpoint.data(), name, hostNameBytes);
  return line;
}

} // namespace

RosterRounds::RosterRounds(const Guide &guide, const Control &control, ControlTransport &mails)
    : rounds{guide.numHosts}, ownHost(guide.host), memory(control), network(mails),
      ranksOf(static_cast<size_t>(guide.numHosts)), arrivals(static_cast<size_t>(rounds.number())) {
  for (const Contact &contact : guide.contacts)
    if (auto [found, isNew] = speakers.try_emplace(contact.host, contact.rank); !isNew)
      found->second = std::min(found->second, contact.rank);
  for (const auto &[host, speaker] : speakers)
    hostsOfSpeakers[speaker] = host;
  RosterLine name;
  name.host = ownHost;
  std::memcpy(name.endpoint.data(), guide.hostName.data(), std::min(guide.hostName.size(), hostNameBytes - 1));
  note(name);
  for (const Neighbour &one : guide.here)
    note({ownHost, one.rank, one.endpoint});
}

void RosterRounds::note(const RosterLine &line) {
  if (line.rank < 0) {
    std::memcpy(memory.rosterName(line.host), line.endpoint.data(), hostNameBytes);
    memory.rosterName(line.host)[hostNameBytes - 1] = 0;
    return;
  }
  memory.rosterEntries()[line.rank] = {line.endpoint, line.host + 1};
  ranksOf[static_cast<size_t>(line.host)].push_back(line.rank);
  ++numKnown;
}

void RosterRounds::send(int round) {
  Mail mail;
  mail.kind = MailKind::Roster;
  mail.round = round;
  mail.isLast = false;
  auto post = [&] {
    (void)network.mail(targetOf(round), write(mail)); // a rank that is lost is noticed by those who wait for it
    mail.lines.clear();
  };
  auto add = [&](const RosterLine &line) {
    if (mail.lines.size() == linesOfMail)
      post();
    mail.lines.push_back(line);
  };
  network.setPatience(targetOf(round), true); // it may be long, and the target need not read now
  for (int places = rounds.firstCarried(round); places <= rounds.lastCarried(round); ++places) {
    const int host = rounds.before(ownHost, places);
    add(nameLine(host, memory.rosterName(host)));
    for (int rank : ranksOf[static_cast<size_t>(host)])
      add({host, rank, memory.rosterEntries()[rank].endpoint});
  }
  mail.isLast = true;
  post();
}

/// Only hosts that the round is about, each rank once, and in the order of ranks.
Status RosterRounds::takeLine(int sender, int round, const RosterLine &line) {
  const int from = rounds.source(ownHost, round);
  const bool isHost = line.host < rounds.numHosts;
  const int places = isHost ? (from - line.host + rounds.numHosts) % rounds.numHosts : -1;
  const bool isRank = line.rank < memory.numRanks();
  if (!isHost || !isRank || places < rounds.firstCarried(round) || places > rounds.lastCarried(round) ||
      (line.rank >= 0 && memory.rosterEntries()[line.rank].hostPlusOne != 0))
    return rankError(StatusCode::Mismatch, sender, "rank {} sends where rank {} of host {} is, in round {} of a roster",
                     sender, line.rank, line.host, round);
  note(line);
  return {};
}

Status RosterRounds::take(int sender, const Mail &mail) {
  auto host = hostsOfSpeakers.find(sender);
  const bool isRound =
      mail.round < number() && host != hostsOfSpeakers.end() && host->second == rounds.source(ownHost, mail.round);
  if (!isRound || arrivedOf(mail.round).hasReached(1) ||
      (mail.round > 0 && sourceOf(mail.round - 1) == sender && !arrivedOf(mail.round - 1).hasReached(1)))
    return rankError(StatusCode::Mismatch, sender,
                     "rank {} sends round {} of a roster to rank {}, which is not its next", sender, mail.round,
                     memory.numRanks());
  for (const RosterLine &line : mail.lines)
    if (Status status = takeLine(sender, mail.round, line); !status.isOk())
      return status;
  if (mail.isLast)
    arrivedOf(mail.round).raise(1);
  return {};
}

Status RosterRounds::check() const {
  if (numKnown == static_cast<size_t>(memory.numRanks()) &&
      std::ranges::none_of(ranksOf, [](const std::vector<int> &there) { return there.empty(); }))
    return {};
  return error(StatusCode::Mismatch, "the roster that hosts told each other has {} of {} ranks", numKnown,
               memory.numRanks());
}

GuideBook::GuideBook(std::vector<std::vector<int>> ranksByHost, std::vector<std::string> hostNames,
                     std::vector<int> processes, std::vector<Endpoint> endpointsByRank, std::string chosenProvider)
    : ranksOf(std::move(ranksByHost)), hostOf(endpointsByRank.size()), names(std::move(hostNames)),
      pids(std::move(processes)), endpoints(std::move(endpointsByRank)), provider(std::move(chosenProvider)) {
  for (size_t host = 0; host < ranksOf.size(); ++host)
    for (int rank : ranksOf[host])
      hostOf[static_cast<size_t>(rank)] = static_cast<int>(host);
}

void GuideBook::addContact(Guide &guide, int rank) const {
  const int host = hostOf[static_cast<size_t>(rank)];
  if (std::ranges::find(guide.contacts, rank, &Contact::rank) == guide.contacts.end())
    guide.contacts.push_back({rank, host, names[static_cast<size_t>(host)], endpoints[static_cast<size_t>(rank)]});
}

Guide GuideBook::guideFor(int rank) const {
  const Rounds rounds{static_cast<int>(ranksOf.size())};
  const int host = hostOf[static_cast<size_t>(rank)];
  const std::vector<int> &here = ranksOf[static_cast<size_t>(host)];
  auto speakerOf = [&](int of) { return ranksOf[static_cast<size_t>(of)].front(); };
  Guide guide;
  guide.numHosts = rounds.numHosts;
  guide.host = host;
  guide.hostName = names[static_cast<size_t>(host)];
  guide.provider = provider;
  if (rank != here.front()) {
    addContact(guide, speakerOf((host + 1) % rounds.numHosts));
    return guide;
  }
  for (int round = 0; round < rounds.number(); ++round)
    for (int other : {rounds.target(host, round), rounds.source(host, round)})
      addContact(guide, speakerOf(other));
  for (int other : ranksOf[static_cast<size_t>(rounds.source(host, 0))])
    addContact(guide, other);
  for (int one : here)
    guide.here.push_back({one, pids[static_cast<size_t>(one)], endpoints[static_cast<size_t>(one)]});
  return guide;
}

} // namespace kolo::runtime
