#include "peers/HostLinks.h"

#include "base/Error.h"
#include "network/InProcess.h"

#include <algorithm>
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
  if (Status status = net->open(endpoints); !status.isOk())
    return status;
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

/// A rank that cannot start tells those with whom it is connected already: they wait for it. If they know better why
/// the world ends, that is the cause.
Status HostLinks::tellFailure(const Status &found) {
  (void)control().progress();
  AbortRecord &record = blocks.abort();
  Status cause = found;
  if (found.rank() >= 0)
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
