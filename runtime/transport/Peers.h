// Peers: one rank's view of the others: their control blocks, whether they live, and the failure that ended it all.
#pragma once

#include "Environment.h"
#include "kolo/runtime/Status.h"
#include "memory/Memory.h"
#include "transport/Control.h"
#include "wait/Wait.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kolo::runtime {

using Clock = std::chrono::steady_clock;

/// How ranks relate.
enum class RankKind : uint8_t { Threads, Processes };

/// The control segment; shared by the ranks of a world of threads, one mapping per rank in a world of processes.
struct ControlMemory {
  Memory memory;
  Control control;
  // Among threads: semaphores of ranks that have left. A peer's last look at a semaphore may come after its owner saw
  // the signal and left, so they go with the last rank.
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> kept;
};

/// A zeroed control segment. OutOfMemory, SystemError.
Result<std::shared_ptr<ControlMemory>> createControl(RankKind kind, int numRanks);

class Peers {
public:
  Peers(std::shared_ptr<ControlMemory> memory, RankKind rankKind, int ownRank, const Settings &settings);
  ~Peers();
  Peers(const Peers &) = delete;
  Peers &operator=(const Peers &) = delete;

  int rank() const { return self; }
  int size() const { return control().numRanks(); }
  RankKind kind() const { return howRelated; }
  const Control &control() const { return shared->control; }
  RankBlock &block(int peer) const { return control().block(peer); }
  const Settings &settings() const { return options; }
  const WaitPolicy &policy() const { return waitPolicy; }
  void setPolicy(const WaitPolicy &newPolicy) { waitPolicy = newPolicy; }

  /// Takes hold of every peer's process; from now on a death is noticed even if its number is used again. After the
  /// join.
  void watchPeers();
  /// Has the peer ended, or left? Costs a system call.
  bool isLost(int peer) const;

  bool isAborted() const { return control().abort().state.load(std::memory_order_seq_cst) != AbortState::None; }
  /// Records the first failure of all ranks; returns what was recorded, which may be another rank's.
  Status abort(const Status &cause);
  /// The recorded failure. Only when aborted.
  Status abortCause() const;
  /// StatusCode::Aborted with the original cause. Only when aborted.
  Status abortedEarlier() const;

  /// What ends a wait for `peer` that began at `start`, or Reached to go on.
  WaitEnd checkWait(int peer, Clock::time_point start) const;

  /// Keeps something alive until the last rank of a world of threads has left.
  void keepForPeers(std::shared_ptr<void> thing) const;

  /// After a failure: returns when no living peer runs generated code any more, so that this rank's memory may go away.
  void waitUntilQuiet() const;

private:
  std::shared_ptr<ControlMemory> shared;
  RankKind howRelated;
  int self;
  int creatorPid;
  Settings options;
  WaitPolicy waitPolicy;
  std::vector<int> pidFds; // by rank; -1: none, ask kill()
};

/// Milliseconds since `start`.
int64_t millisecondsSince(Clock::time_point start);

} // namespace kolo::runtime
