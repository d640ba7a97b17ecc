// PeerFailures: why connections with peers ended: the first failure of all, and the first of each peer.
#pragma once

#include "kolo/runtime/Status.h"

#include <atomic>
#include <map>
#include <mutex>

namespace kolo::runtime::tcp {

/// All functions may be called by several threads at once.
class PeerFailures {
public:
  void note(const Status &cause) {
    {
      std::scoped_lock lock(mutex);
      if (failure.isOk())
        failure = cause;
      failureOf.try_emplace(cause.rank(), cause);
    }
    hasFailed.store(true, std::memory_order_seq_cst);
  }
  bool isEmpty() const { return !hasFailed.load(std::memory_order_seq_cst); }
  Status first() const {
    if (isEmpty())
      return {};
    std::scoped_lock lock(mutex);
    return failure;
  }
  Status of(int peer) const {
    if (isEmpty())
      return {};
    std::scoped_lock lock(mutex);
    auto found = failureOf.find(peer);
    return found == failureOf.end() ? Status() : found->second;
  }
  /// What any peer sent that may not be, or Ok.
  Status refusal() const {
    if (isEmpty())
      return {};
    std::scoped_lock lock(mutex);
    for (const auto &[peer, status] : failureOf)
      if (status.code() == StatusCode::Mismatch)
        return status;
    return {};
  }

private:
  std::atomic<bool> hasFailed = false;
  mutable std::mutex mutex;
  Status failure;
  std::map<int, Status> failureOf; // by rank
};

} // namespace kolo::runtime::tcp
