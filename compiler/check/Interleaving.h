// The shortest execution that leads to two given moments at once. The checker explains a refutation by it.
#pragma once

#include "compiler/check/VectorClockRun.h"

#include <array>
#include <map>

namespace kolo {

/// The common past of two moments: the steps that must come before one of them, and no others.
class Interleaving {
public:
  Interleaving(const Tracer &tracer, const TracedGroup &traced) : tracer(tracer), traced(traced) {}

  /// Number of steps, over all ranks, that must come before both moments; nothing if there are more than `mostSteps`.
  std::optional<uint64_t> pastSize(const Moment &a, const Moment &b);
  /// The signals, waits and calls of that past, in an order that can happen; the last `maxSteps` of them. Nothing if
  /// the past is too long.
  std::optional<std::vector<Step>> past(const Moment &a, const Moment &b, size_t maxSteps);
  static constexpr uint64_t mostSteps = 1 << 22;
  /// One step in words, for `moment`.
  std::string describe(const Moment &moment) const;
  /// The op of a moment; null for the application's.
  mlir::Operation *opAt(const Moment &moment) const;
  int64_t callOf(const Moment &moment) const { return moment.time / stepsPerCall(moment.rank); }

private:
  uint32_t stepsPerCall(int64_t rank) const {
    return uint32_t(traced.traces[traced.group.orbitOf(rank)].events.size()) + 2;
  }
  /// Null for the application's steps.
  const Event *eventAt(const Moment &moment) const;
  bool computePast(const Moment &a, const Moment &b);
  void need(int64_t rank, uint32_t numSteps);
  bool readsPackets(const Event *event) const;
  void findPuts();
  /// The puts, in the same call, of the packets that a step reads.
  std::vector<Moment> putsFor(const Moment &moment);
  uint32_t timeOfEnter(int64_t rank, int64_t call) const;
  uint32_t timeOfSignal(int64_t sender, int64_t receiver, int32_t semaphore, uint64_t number);
  void needEnter(int64_t call);

  const Tracer &tracer;
  const TracedGroup &traced;
  std::vector<uint32_t> needed, looked; // steps of every rank that belong to the past, and those that were looked at
  std::vector<int64_t> pending;         // ranks with steps to look at
  std::vector<bool> neededEnters;       // by call
  std::map<std::array<int64_t, 3>, std::vector<uint32_t>> signals; // positions, by orbit, semaphore and target
  std::vector<llvm::DenseMap<uint64_t, uint64_t>> numWaited;
  std::map<std::array<int64_t, 4>, Moment> puts; // of packets, in the first call, by owner, buffer, chunk and part
};

} // namespace kolo
