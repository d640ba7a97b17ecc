// LaneRuns: the lanes of one communicator, which run the generated code of its calls, and what is counted of them.
#pragma once

#include "call/LanePool.h"
#include "call/Plan.h"
#include "kolo/runtime/Communicator.h"
#include "memory/StoreChoice.h"

#include <cstdint>
#include <vector>

namespace kolo::runtime {

class Peers;

class LaneRuns {
public:
  explicit LaneRuns(Peers &owner) : peers(owner) {}

  /// Starts the threads, which wait as `policy` says. If std::thread throws, so does this.
  void start(const WaitPolicy &policy);
  LanePool &pool() { return lanes; }

  /// Makes the lanes of a plan whose buffers are resolved. May throw std::bad_alloc.
  void makeLanes(Plan &plan) { runtime::makeLanes(plan, peers); }
  /// Lets every lane publish its share to this memory of the ranks: a small input on this thread, a large one on the
  /// lanes' threads.
  void publish(Plan &plan, int64_t piece, const SparseArray<void *> &memory);
  /// Runs one piece of a call.
  void run(Plan &plan, int64_t piece);
  /// Counts what a call has moved.
  void count(Plan &plan);
  const Traffic &traffic() const { return moved; }

private:
  void publishLanes(Plan &plan);
  void startPackets(Plan &plan);
  void runLanes(Plan &plan, int64_t piece);

  Peers &peers;
  LanePool lanes;
  StoreChoice publishedStores{StoreChoice::ratioOfCopies};
  uint64_t numInvocations = 0; // of all programs so far; equal on all ranks
  uint64_t numPacketRuns = 0;  // runs of programs with packets so far; equal on all ranks
  Traffic moved;
};

} // namespace kolo::runtime
