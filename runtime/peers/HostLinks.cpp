#include "peers/HostLinks.h"

#include "base/Error.h"
#include "network/InProcess.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace kolo::runtime {

std::shared_ptr<HostLinks> HostLinks::ofOneHost(const Control &control, int rank) {
  std::shared_ptr<HostLinks> links = inProcess(std::make_shared<Mailboxes>(1), {}); // it reaches nobody
  links->start(Hosts::one(control.numRanks(), rank), control);
  return links;
}

Result<std::unique_ptr<HostLinks>> HostLinks::listen(const ControlOptions &place) {
  std::unique_ptr<HostLinks> links(new HostLinks(place.rank));
  Result<std::unique_ptr<HostNetwork>> made = HostNetwork::listen(links->optionsFor(place));
  if (!made.isOk())
    return made.status();
  links->net = std::move(made).value();
  return links;
}

std::unique_ptr<HostLinks> HostLinks::inProcess(std::shared_ptr<Mailboxes> mailboxes, const ControlOptions &place) {
  std::unique_ptr<HostLinks> links(new HostLinks(place.rank));
  links->net = HostNetwork::inProcess(std::move(mailboxes), links->optionsFor(place));
  return links;
}

ControlOptions HostLinks::optionsFor(const ControlOptions &place) {
  ControlOptions options = place;
  callProgress = place.progress;
  options.receiveMail = [this](int sender, std::span<const std::byte> bytes) { return take(sender, bytes); };
  // Who has failed takes nothing any more, and may live on.
  options.mustStop = [this] { return blocks.abort().state.load() != AbortState::None; };
  return options;
}

void HostLinks::start(Hosts hosts, const Control &control) {
  places = std::move(hosts);
  blocks = control;
  speakersRounds.emplace(*places, blocks, net->control());
}

Status HostLinks::connect(const HostMap &map, std::span<const Endpoint> endpoints, const Control &control) {
  Result<std::string> provider = HostNetwork::choose(endpoints);
  Status opened = provider.isOk() ? net->open(*provider) : provider.status();
  if (!opened.isOk())
    return opened;
  start(Hosts(map, self), control);
  if (places->speaks()) {
    for (int round = 0; round < speakersRounds->number(); ++round)
      for (int rank : {speakersRounds->targetOf(round), speakersRounds->sourceOf(round)})
        neighbours.push_back(rank);
    const std::vector<int> &watched = speakersRounds->watched();
    neighbours.insert(neighbours.end(), watched.begin(), watched.end());
  } else {
    neighbours.push_back(places->speakerOf((places->ownHost() + 1) % places->number()));
  }
  std::ranges::sort(neighbours);
  neighbours.erase(std::ranges::unique(neighbours).begin(), neighbours.end());
  return meetNeighbours(endpoints);
}

Status HostLinks::meetNeighbours(std::span<const Endpoint> endpoints) {
  std::vector<bool> now(endpoints.size());
  for (int rank : neighbours)
    now[static_cast<size_t>(rank)] = true;
  Result<std::vector<Endpoint>> wanted = HostNetwork::withoutOffers(endpoints, places->others());
  if (!wanted.isOk())
    return wanted.status();
  Status status = net->connect(*wanted, now);
  return status.isOk() ? status : tellFailure(status);
}

namespace {

/// The roster in the control segment. Ranks of this host have no endpoint there: nobody connects to them.
class SharedRoster final : public EndpointTable {
public:
  SharedRoster(const Control &control, std::shared_ptr<const void> keeper, int self)
      : memory(control), owner(std::move(keeper)), ownHost(memory.rosterEntries()[self].hostPlusOne) {}
  Endpoint endpointOf(int rank) const override {
    const auto &entry = memory.rosterEntries()[rank];
    return entry.hostPlusOne == ownHost ? Endpoint() : entry.endpoint;
  }

private:
  const Control memory;
  const std::shared_ptr<const void> owner;
  const int32_t ownHost; // and one
};

HostMap mapIn(const Control &memory, int numHosts) {
  HostMap map;
  for (int rank = 0; rank < memory.numRanks(); ++rank)
    map.hostOf.push_back(memory.rosterEntries()[rank].hostPlusOne - 1);
  for (int host = 0; host < numHosts; ++host)
    map.names.emplace_back(memory.rosterName(host));
  return map;
}

/// So much longer a wait may be that others cause, so that a rank that stays away is named by those next to it.
int extraMs(int timeoutMs) { return std::min(timeoutMs / 4, 500); }

std::string describe(const Contact &contact) {
  return fmt::format("rank {} (host {})", contact.rank, contact.hostName);
}

} // namespace

Status HostLinks::connectBy(const Guide &guide, const SpeakerPlace &speaker, int timeoutMs) {
  blocks = speaker.control;
  const bool isSpeaker = !guide.here.empty();
  if (isSpeaker)
    rosterRounds.emplace(guide, blocks, net->control());
  if (Status status = net->open(guide.provider); !status.isOk())
    return status;
  Status status = meetContacts(guide);
  if (status.isOk())
    status = hearRoster(guide, speaker.rank, timeoutMs);
  if (status.isOk() && isSpeaker)
    blocks.host().roster.raise(static_cast<uint64_t>(RosterStage::IsWhole));
  if (!status.isOk())
    return tellFailure(status);
  start(Hosts(mapIn(blocks, guide.numHosts), self), blocks);
  rosterRounds.reset();
  status = net->know(std::make_shared<SharedRoster>(blocks, speaker.keeper, self));
  return status.isOk() ? replayEarly() : status;
}

Status HostLinks::meetContacts(const Guide &guide) {
  std::vector<Endpoint> endpoints(static_cast<size_t>(blocks.numRanks()));
  std::vector<bool> now(endpoints.size());
  for (const Contact &contact : guide.contacts) {
    endpoints[static_cast<size_t>(contact.rank)] = contact.endpoint;
    now[static_cast<size_t>(contact.rank)] = true;
    neighbours.push_back(contact.rank);
  }
  std::ranges::sort(neighbours);
  const bool areAll = guide.contacts.size() == static_cast<size_t>(blocks.numRanks() - blocks.numHere());
  Status status = net->connectFirst(endpoints, now, !areAll);
  if (status.isOk() || status.rank() < 0)
    return status;
  auto found = std::ranges::find(guide.contacts, status.rank(), &Contact::rank);
  return found == guide.contacts.end()
             ? status
             : rankError(status.code(), status.rank(), "{}: {}", describe(*found), status.message());
}

/// A speaker hears of all ranks in rounds, and the other ranks of its host by shared memory.
Status HostLinks::hearRoster(const Guide &guide, int speakersRank, int timeoutMs) {
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(timeoutMs);
  const Clock::time_point later = until + std::chrono::milliseconds(extraMs(timeoutMs));
  if (!rosterRounds)
    speakersProcess = WatchedProcess::watch(blocks.block(0).pid.load());
  if (!rosterRounds)
    return awaitRoster(blocks.host().roster, static_cast<uint64_t>(RosterStage::IsWhole),
                       {speakersRank, guide.host, guide.hostName, {}}, later);
  RosterRounds &rounds = *rosterRounds;
  for (int round = 0; round < rounds.number(); ++round) {
    rounds.send(round);
    const int source = rounds.sourceOf(round);
    const Contact &awaited = *std::ranges::find(guide.contacts, source, &Contact::rank);
    if (Status status = awaitRoster(rounds.arrivedOf(round), 1, awaited, round == 0 ? until : later); !status.isOk())
      return status;
  }
  return rounds.check();
}

/// The speaker of this host is the one rank that a rank waits for and has no connection with.
bool HostLinks::isGone(const Contact &awaited) const {
  if (std::ranges::binary_search(neighbours, awaited.rank))
    return control().hasFailedWith(awaited.rank) || control().hasLeft(awaited.rank);
  return speakersProcess ? speakersProcess->hasEnded() : kill(blocks.block(0).pid.load(), 0) != 0 && errno == ESRCH;
}

/// Blocks until the counter of a rank reaches a number.
Status HostLinks::awaitRoster(Counter &counter, uint64_t target, const Contact &awaited, Clock::time_point until) {
  const Clock::time_point start = Clock::now();
  while (!counter.hasReached(target)) {
    (void)control().progress();
    if (callProgress)
      callProgress();
    const AbortRecord &record = blocks.abort();
    if (record.state.load(std::memory_order_acquire) == AbortState::Published)
      return Status(record.code, record.message, record.culprit);
    if (Status refused = control().refusal(); !refused.isOk())
      return refused;
    if (isGone(awaited) && !counter.hasReached(target))
      return rankError(StatusCode::PeerLost, awaited.rank,
                       "rank {} waited {} ms for {} to join: rank {} has ended or left", self, millisecondsSince(start),
                       describe(awaited), awaited.rank);
    if (Clock::now() >= until)
      return rankError(StatusCode::Timeout, awaited.rank, "rank {} waited {} ms for {} to join: timed out", self,
                       millisecondsSince(start), describe(awaited));
    constexpr std::chrono::milliseconds interval{1}; // other counters and the user's `progress` are looked at as often
    (void)control().idle(counter, target, Clock::now() + interval);
  }
  return {};
}

/// Mails of ranks that knew all before this one did.
Status HostLinks::replayEarly() {
  for (const auto &[sender, bytes] : std::exchange(early, {}))
    if (Status status = take(sender, bytes); !status.isOk())
      return status;
  return {};
}

/// A rank that cannot start tells those with whom it is connected already: they wait for it. If they know better why
/// the world ends, that is the cause.
Status HostLinks::tellFailure(const Status &found) {
  (void)control().progress();
  AbortRecord &record = blocks.abort();
  Status cause = found;
  if (places && found.rank() >= 0)
    cause = rankError(found.code(), found.rank(), "{}: {}", places->describe(found.rank()), found.message());
  (void)storeAbort(record, cause);
  tellAbort();
  if (record.state.load(std::memory_order_acquire) != AbortState::Published)
    return cause;
  return Status(record.code, record.message, record.culprit);
}

void HostLinks::sendNote(int peer, std::vector<std::byte> note) {
  Mail mail;
  mail.kind = MailKind::Note;
  mail.note = std::move(note);
  (void)control().mail(peer, write(mail));
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
    (void)control().mail(rank, bytes);
}

Status HostLinks::take(int sender, std::span<const std::byte> bytes) {
  Result<Mail> mail = parseMail(bytes);
  if (!mail.isOk())
    return rankError(StatusCode::Mismatch, sender, "rank {} sent {}", sender, mail.status().message());
  if (mail->kind == MailKind::Roster)
    return rosterRounds
               ? rosterRounds->take(sender, *mail)
               : rankError(StatusCode::Mismatch, sender, "rank {} sent a part of a roster, which nobody takes", sender);
  if (mail->kind != MailKind::Abort && !places) {
    early.emplace_back(sender, std::vector<std::byte>(bytes.begin(), bytes.end()));
    return {};
  }
  if (mail->kind == MailKind::Round)
    return speakersRounds->take(sender, *mail);
  if (mail->kind == MailKind::Note) {
    std::unique_lock lock(taking);
    std::shared_ptr<const MailHandler> taker = takeNote;
    lock.unlock();
    return taker ? (*taker)(sender, mail->note)
                 : rankError(StatusCode::Mismatch, sender, "rank {} sent a note, which nobody takes", sender);
  }
  (void)storeAbort(blocks.abort(), mail->cause);
  return {};
}

void HostLinks::progress() {
  (void)net->data().progress();
  tellAbort();
}

void HostLinks::sleep(const Counter &counter, uint64_t target, int64_t mostUs) {
  (void)net->data().idle(counter, target, std::chrono::steady_clock::now() + std::chrono::microseconds(mostUs));
}

Status HostLinks::explain(const Status &found) const {
  if (!places->areSeveral() || found.rank() < 0 || found.rank() >= places->numRanks())
    return found;
  Status cause = found.code() == StatusCode::Timeout ? net->explain(found) : found;
  const std::string name = cause.rank() < 0 ? std::string() : places->describe(cause.rank());
  if (cause.message().find(name) != std::string::npos)
    return cause;
  return rankError(cause.code(), cause.rank(), "{}: {}", name, cause.message());
}

} // namespace kolo::runtime
