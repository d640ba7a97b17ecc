// Peers: one rank's view of the others: their control blocks, whether they live, and the failure that aborted them all.
#pragma once

#include "base/Environment.h"
#include "kolo/runtime/Status.h"
#include "memory/Memory.h"
#include "peers/Control.h"
#include "peers/HostLinks.h"
#include "peers/ProcessMark.h"
#include "peers/WatchedProcess.h"
#include "wait/Clock.h"
#include "wait/Wait.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kolo::runtime {

/// The control segment. Threads share one mapping; each process has its own.
struct ControlMemory {
  Memory memory;
  Control control;
  // Among threads: memory of ranks that have left. A peer may still access a semaphore after its owner saw the signal
  // and left, so the memory lives until the last rank leaves.
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> kept;
};

/// A zeroed control segment for so many ranks, `numHere` of them on this host. OutOfMemory, SystemError.
Result<std::shared_ptr<ControlMemory>> createControl(RankKind kind, int numRanks, int numHere);

class Peers {
public:
  /// `hostLinks`: null if all ranks are on this host.
  Peers(std::shared_ptr<ControlMemory> memory, RankKind rankKind, int ownRank, const Settings &settings,
        std::shared_ptr<HostLinks> hostLinks = nullptr);
  ~Peers();
  Peers(const Peers &) = delete;
  Peers &operator=(const Peers &) = delete;

  int rank() const { return self; }
  int size() const { return control().numRanks(); }
  RankKind kind() const { return howRelated; }
  const Control &control() const { return shared->control; }
  /// Of a rank of this host.
  RankBlock &block(int peer) const { return control().block(places.placeOf(peer)); }
  const Settings &settings() const { return options; }
  const std::shared_ptr<HostLinks> &links() const { return network; }
  const Hosts &hosts() const { return places; }
  /// What puts to other hosts travel on.
  Transport &transport() const { return network->network().data(); }
  bool isRemote(int peer) const { return hosts().isRemote(peer); }
  /// A cell that `sender` raises and `receiver` waits for; null: the receiver is on another host.
  Cell *channelCell(int receiver, int sender, int id) const {
    return isRemote(receiver) ? nullptr : &control().channelCell(hosts().placeOf(receiver), sender, id);
  }
  /// How the thread that calls the communicator waits.
  const WaitPolicy &policy() const { return waitPolicy; }
  /// The same, for something that this peer does.
  WaitPolicy policyFor(int peer) const {
    WaitPolicy policy = waitPolicy;
    policy.isRemote = isRemote(peer);
    return policy;
  }
  /// How a lane waits. Only lane 0 runs on the calling thread, which alone may call `progress`.
  WaitPolicy policyOfLane(int64_t lane, int peer) const {
    WaitPolicy policy = policyFor(peer);
    if (lane != 0) {
      policy.progress = nullptr;
      policy.yields = nullptr;
      policy.seat = nullptr;
    }
    return policy;
  }
  void setPolicy(const WaitPolicy &newPolicy);

  /// Watches every peer's process. From then on `isLost` is right even if the kernel uses a process number again.
  /// Called after the join.
  void watchPeers();
  /// Whether the peer has ended or left. Makes a system call.
  bool isLost(int peer) const;
  /// Whether the peer's process ended before the peer left. Makes a system call.
  bool hasDied(int peer) const;

  bool isAborted() const { return control().abort().state.load(std::memory_order_seq_cst) != AbortState::None; }
  /// Whether this process may call at all: the communicator is not aborted, and is not the copy of a forked child.
  bool mayCall() const { return !isAborted() && mark.isHere(); }
  /// Why not. Aborted, InvalidArgument.
  Status whyNoCall() const;
  /// Records the first failure of all ranks. Returns the recorded failure, which may be that of another rank.
  Status abort(const Status &found);
  /// The recorded failure. Only when aborted.
  Status abortCause() const;

  /// What else may end every wait: not Ok is why the world ends. Any thread may call it. Set once, before any wait.
  void setWatch(std::function<Status()> newWatch) { watch = std::move(newWatch); }

  /// Why a wait for `peer` that began at `start` must end; Reached: it goes on.
  WaitEnd checkWait(int peer, Clock::time_point start);

  /// Keeps a thing alive until the last rank has left, when ranks are threads.
  void keepForPeers(std::shared_ptr<void> thing) const;

  /// Called after a failure. Blocks until no living peer runs generated code, at most for the timeout. Then this rank's
  /// memory may be freed.
  void waitUntilQuiet() const;

private:
  struct Liveness {
    bool hasEnded = false; // its process; never where ranks are threads
    bool hasLeft = false;  // found later: a rank leaves, then ends
  };
  Liveness livenessOf(int peer) const;

  std::shared_ptr<ControlMemory> shared;
  std::shared_ptr<HostLinks> network;
  const Hosts &places; // of `network`
  RankKind howRelated;
  int self;
  int creatorPid;
  ProcessMark mark;
  Settings options;
  WaitPolicy waitPolicy;
  YieldChoice yields;
  Seat seat;
  std::vector<std::shared_ptr<const WatchedProcess>> processes; // by place on this host; null: ask kill()
  std::function<Status()> watch;
};

} // namespace kolo::runtime
