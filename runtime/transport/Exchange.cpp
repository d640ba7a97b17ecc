#include "transport/Exchange.h"

#include "Error.h"

#include <algorithm>

namespace kolo::runtime {

Record &Exchange::next() {
  Record &record = peers.block(peers.rank()).records[(sequence + 1) % 2];
  record.operation = Operation::Barrier;
  record.hasNews = false;
  record.canAttach = false;
  record.numReleased = 0;
  record.staging = Staging::None;
  record.selectedBy = MemoryKind::Windows;
  record.code = StatusCode::Ok;
  record.call = {};
  for (Location &buffer : record.buffers)
    buffer = {};
  record.semaphores = {};
  return record;
}

/// One exchange: announces the plan's number, and returns when every rank has announced something.
Status Exchange::meet(uint64_t plan, size_t publishedBytes) {
  ++sequence;
  Announcement &own = announcement(peers.rank());
  own.plan = plan;
  tellOtherHosts(own, publishedBytes);
  own.raise(sequence);
  for (int peer = 0; peer < peers.size(); ++peer)
    if (!announcement(peer).hasReached(sequence))
      if (Status status = waitForPeer(peer); !status.isOk())
        return status;
  return {};
}

void Exchange::tellOtherHosts(const Announcement &own, size_t publishedBytes) {
  HostLinks *links = peers.links();
  if (links && own.plan != 0)
    links->tellPlan(sequence, own.plan, {own.published, publishedBytes});
  else if (links)
    links->tellRecord(sequence, heard(peers.rank()));
}

bool Exchange::haveAllSaid(uint64_t plan) const {
  for (int peer = 0; peer < peers.size(); ++peer)
    if (announcement(peer).plan != plan)
      return false;
  return true;
}

Status Exchange::propose(uint64_t plan, size_t publishedBytes, bool &isAgreed) {
  current = Operation::Run;
  Status status = meet(plan, publishedBytes);
  isAgreed = status.isOk() && haveAllSaid(plan);
  return status;
}

Status Exchange::perform() {
  const Record &own = peers.block(peers.rank()).records[(sequence + 1) % 2];
  current = own.operation;
  if (Status status = meet(0); !status.isOk())
    return status;
  if (!haveAllSaid(0)) { // some ranks proposed a plan: in the next exchange they announce records, too
    peers.block(peers.rank()).records[(sequence + 1) % 2] = own;
    if (Status status = meet(0); !status.isOk())
      return status;
  }
  for (int peer = 1; peer < peers.size(); ++peer)
    if (heard(peer).operation != heard(0).operation)
      return rankError(StatusCode::Mismatch, peer,
                       "ranks disagree on the operation: rank 0 called {}, rank {} called {}",
                       toString(heard(0).operation), peer, toString(heard(peer).operation));
  return {};
}

Status Exchange::waitForPeer(int peer) {
  WaitPolicy policy = peers.policyFor(peer);
  // What another rank of this host stores wakes whoever sleeps on the counter, and nobody who sleeps on the network.
  policy.isRemote = policy.isRemote && peers.links()->isRepresented(peer);
  if (spinUntil(announcement(peer), sequence, policy))
    return {};
  Clock::time_point start = Clock::now();
  int suspect = peer;
  WaitEnd end = waitSlowly(announcement(peer), sequence, policy, [&] {
    // This wait cannot succeed if any rank ended before it came here, not only the one that this rank waits for.
    for (int other = 0; other < peers.size(); ++other)
      if (peers.isLost(other) && !announcement(other).hasReached(sequence)) {
        suspect = other;
        return peers.isAborted() ? WaitEnd::Aborted : WaitEnd::PeerLost;
      }
    return peers.checkWait(peer, start);
  });
  if (end == WaitEnd::Reached)
    return {};
  std::string deed = current == Operation::Join ? "join" : fmt::format("call {}", toString(current));
  switch (end) {
  case WaitEnd::Reached:
  case WaitEnd::Aborted:
    return peers.abortCause();
  case WaitEnd::PeerLost:
    return peers.abort(rankError(StatusCode::PeerLost, suspect,
                                 "rank {} waited {} ms for {} to {}: rank {} has ended or left", peers.rank(),
                                 millisecondsSince(start), peers.describe(suspect), deed, suspect));
  case WaitEnd::Timeout:
    break;
  }
  return peers.abort(rankError(StatusCode::Timeout, peer, "rank {} waited {} ms for {} to {}: timed out", peers.rank(),
                               millisecondsSince(start), peers.describe(peer), deed));
}

Status Exchange::firstRefusal() const {
  for (int peer = 0; peer < peers.size(); ++peer) {
    const Record &record = heard(peer);
    if (record.code == StatusCode::Ok)
      continue;
    if (peer == peers.rank())
      return Status(record.code, record.message, peer);
    return rankError(record.code, peer, "rank {}: {}", peer, record.message);
  }
  return {};
}

} // namespace kolo::runtime
