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
  Record &record = world.block(world.rank()).records[(sequence + 1) % 2];
  record.operation = Operation::Barrier;
  record.hasNews = false;
  record.canAttach = false;
  record.numReleased = 0;
  record.code = StatusCode::Ok;
  record.call = {};
  for (Location &buffer : record.buffers)
    buffer = {};
  record.semaphores = {};
  return record;
}

Status Exchange::perform() {
  ++sequence;
  world.block(world.rank()).entered.raise(sequence);
  for (int peer = 0; peer < world.size(); ++peer)
    if (Status status = waitForPeer(peer); !status.isOk())
      return status;
  for (int peer = 1; peer < world.size(); ++peer)
    if (heard(peer).operation != heard(0).operation)
      return rankError(StatusCode::Mismatch, peer, "ranks disagree on the operation: rank 0 called {}, rank {} called {}",
                       toString(heard(0).operation), peer, toString(heard(peer).operation));
  return {};
}

Status Exchange::waitForPeer(int peer) {
  if (world.block(peer).entered.hasReached(sequence))
    return {};
  Clock::time_point start = Clock::now();
  int suspect = peer;
  WaitEnd end = waitUntil(world.block(peer).entered, sequence, world.policy(), [&] {
    // Any rank that ended before it came here makes this wait hopeless, not only the one that is waited for.
    for (int other = 0; other < world.size(); ++other)
      if (world.isLost(other) && !world.block(other).entered.hasReached(sequence)) {
        suspect = other;
        return world.isAborted() ? WaitEnd::Aborted : WaitEnd::PeerLost;
      }
    return world.checkWait(peer, start);
  });
  if (end == WaitEnd::Reached)
    return {};
  Operation operation = heard(world.rank()).operation;
  std::string deed = operation == Operation::Join ? "join" : fmt::format("call {}", toString(operation));
  switch (end) {
  case WaitEnd::Reached:
  case WaitEnd::Aborted:
    return world.abortCause();
  case WaitEnd::PeerLost:
    return world.abort(rankError(StatusCode::PeerLost, suspect,
                                 "rank {} waited {} ms for rank {} to {}: rank {} has ended or left", world.rank(),
                                 millisecondsSince(start), suspect, deed, suspect));
  case WaitEnd::Timeout:
    break;
  }
  return world.abort(rankError(StatusCode::Timeout, peer, "rank {} waited {} ms for rank {} to {}: timed out",
                               world.rank(), millisecondsSince(start), peer, deed));
}

Status Exchange::firstRefusal() const {
  for (int peer = 0; peer < world.size(); ++peer) {
    const Record &record = heard(peer);
    if (record.code == StatusCode::Ok)
      continue;
    if (peer == world.rank())
      return Status(record.code, record.message, peer);
    return rankError(record.code, peer, "rank {}: {}", peer, record.message);
  }
  return {};
}

} // namespace kolo::runtime
