#include "network/InProcess.h"

#include "base/Error.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {

InProcess::InProcess(std::shared_ptr<Mailboxes> shared, const ControlOptions &given)
    : mailboxes(std::move(shared)), rank(given.rank), receiveMail(given.receiveMail) {}

InProcess::~InProcess() {
  for (Mailboxes::Box &box : mailboxes->boxes) {
    std::scoped_lock lock(box.mutex);
    if (&box == &mailboxes->of(rank))
      box.hasLeft = true;
    box.arrival.notify_all();
  }
}

Status InProcess::mail(int peer, std::span<const std::byte> text) {
  if (peer < 0 || static_cast<size_t>(peer) >= mailboxes->boxes.size() || peer == rank)
    return error(StatusCode::InvalidArgument, "rank {} is not a peer of rank {} of {}", peer, rank,
                 mailboxes->boxes.size());
  if (text.empty() || text.size() > maxMailBytes)
    return error(StatusCode::InvalidArgument, "a mail of {} bytes", text.size());
  if (Status status = stateOf(peer); !status.isOk())
    return status;
  Mailboxes::Box &box = mailboxes->of(peer);
  std::scoped_lock lock(box.mutex);
  box.mails.push_back({rank, {text.begin(), text.end()}});
  mailsSent.fetch_add(1, std::memory_order_relaxed);
  box.arrival.notify_all();
  return {};
}

Status InProcess::progress() {
  Mailboxes::Box &box = mailboxes->of(rank);
  std::unique_lock only(receiving, std::try_to_lock);
  while (only) {
    const Mailboxes::Sent *next = nullptr; // it stays in its box until it was handed over: see hasLeft
    {
      std::scoped_lock lock(box.mutex);
      if (box.mails.empty())
        break;
      next = &box.mails.front();
    }
    Status status = hasFailedWith(next->sender) ? Status() : receiveMail(next->sender, next->text);
    if (!status.isOk()) {
      std::scoped_lock lock(failing);
      failures.push_back(status);
    }
    std::scoped_lock lock(box.mutex);
    box.mails.pop_front();
    box.arrival.notify_all(); // other threads of this rank may wait for what it brought
  }
  return refusal();
}

Status InProcess::idle(const Counter &counter, uint64_t target, std::chrono::steady_clock::time_point until) {
  Mailboxes::Box &box = mailboxes->of(rank);
  {
    std::unique_lock lock(box.mutex);
    if (box.mails.empty() && !counter.hasReached(target))
      box.arrival.wait_until(lock, until);
  }
  return progress();
}

Status InProcess::stateOf(int peer) const {
  {
    std::scoped_lock lock(failing);
    if (auto found = std::ranges::find(failures, peer, &Status::rank); found != failures.end())
      return *found;
  }
  return hasLeft(peer) ? rankError(StatusCode::PeerLost, peer, "rank {} has left", peer) : Status();
}

bool InProcess::hasLeft(int peer) const {
  if (!mailboxes->of(peer).hasLeft)
    return false;
  Mailboxes::Box &box = mailboxes->of(rank);
  std::scoped_lock lock(box.mutex);
  return std::ranges::find(box.mails, peer, &Mailboxes::Sent::sender) == box.mails.end();
}

bool InProcess::hasFailedWith(int peer) const {
  std::scoped_lock lock(failing);
  return std::ranges::find(failures, peer, &Status::rank) != failures.end();
}

Status InProcess::refusal() const {
  std::scoped_lock lock(failing);
  return failures.empty() ? Status() : failures.front();
}

Status InProcess::refuse(int peer) const {
  return rankError(StatusCode::InvalidArgument, peer,
                   "rank {} shares its process with rank {}: nothing is put over a network", rank, peer);
}

Status InProcess::put(Path path, RemotePlace, const void *, uint64_t) { return refuse(path.peer); }

Status InProcess::signal(Path path, RemoteSignal) { return refuse(path.peer); }

} // namespace kolo::runtime
