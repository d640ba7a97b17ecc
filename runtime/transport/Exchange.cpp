#include "transport/Exchange.h"

#include "Error.h"

#include <algorithm>

namespace kolo::runtime {

void setFailure(Record &record, const Status &status) {
  record.code = status.code();
  size_t length = std::min(status.message().size(), sizeof(record.message) - 1);
  std::copy_n(status.message().data(), length, record.message);
  record.message[length] = 0;
}

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
Status Exchange::meet(uint64_t plan) {
  ++sequence;
  Announcement &own = announcement(peers.rank());
  own.plan = plan;
  own.raise(sequence);
  for (int peer = 0; peer < peers.size(); ++peer)
    if (!announcement(peer).hasReached(sequence))
      if (Status status = waitForPeer(peer); !status.isOk())
        return status;
  return {};
}

bool Exchange::haveAllSaid(uint64_t plan) const {
  for (int peer = 0; peer < peers.size(); ++peer)
    if (announcement(peer).plan != plan)
      return false;
  return true;
}

Status Exchange::propose(uint64_t plan, bool &isAgreed) {
  current = Operation::Run;
  Status status = meet(plan);
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
  if (spinUntil(announcement(peer), sequence, peers.policy()))
    return {};
  Clock::time_point start = Clock::now();
  int suspect = peer;
  WaitEnd end = waitSlowly(announcement(peer), sequence, peers.policy(), [&] {
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
                                 "rank {} waited {} ms for rank {} to {}: rank {} has ended or left", peers.rank(),
                                 millisecondsSince(start), suspect, deed, suspect));
  case WaitEnd::Timeout:
    break;
  }
  return peers.abort(rankError(StatusCode::Timeout, peer, "rank {} waited {} ms for rank {} to {}: timed out",
                               peers.rank(), millisecondsSince(start), peer, deed));
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
