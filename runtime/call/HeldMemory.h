// HeldMemory: the memory of the runtime that the calls of one communicator use and peers access.
#pragma once

#include "call/Buffers.h"
#include "memory/Holding.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace kolo::runtime {

struct Plan;

class HeldMemory {
public:
  /// `isQuiet`: see Holding.
  HeldMemory(const std::shared_ptr<SegmentTable> &table, Budget &budget, size_t mostBytes,
             std::function<bool()> isQuiet)
      : segments(table), holding(budget, mostBytes, std::move(isQuiet)) {}

  /// The call that begins uses the memory: see Holding::begin.
  Status begin() { return holding.begin(); }
  bool hasBegun() const { return holding.hasBegun(); }
  /// See Holding::keep.
  Status keep(size_t sizeBytes) { return holding.keep(Keeps::Own, sizeBytes); }
  /// For the plans of the communicator; valid while this object lives.
  Holding &forPlans() { return holding; }
  /// The call of this exchange has ended on this rank.
  void end(uint64_t exchange);
  /// The exchange of the last call that used the memory.
  uint64_t lastUse() const { return lastHeld; }

  /// Of scratch memory and staged buffers.
  ArenaOf ofBuffers() { return {*segments, arena, holding}; }
  /// Input and output of averages that are computed in f32. OutOfMemory, SystemError.
  Result<std::byte *> reserveWide(size_t sizeBytes) { return wideBuffers.reserve(*segments, holding, sizeBytes); }
  /// Where this rank publishes what announcements cannot hold: two turns. OutOfMemory, SystemError.
  Status reservePublished(Buffers &buffers, int numRanks);
  /// A packet buffer has two turns, one behind the other. Two are enough, because all ranks enter each call: when a
  /// rank enters a call, all ranks have finished the call before the previous one. OutOfMemory, SystemError.
  Status reservePackets(const Call &call, Buffers &buffers);
  /// Frees what was replaced. The caller calls it once all peers have entered the call.
  void dropReplaced();
  /// Gives the memory that peers may access to a caller that keeps it longer.
  std::vector<std::shared_ptr<Segment>> release();

private:
  const std::shared_ptr<SegmentTable> segments;
  Arena arena;
  Arena wideBuffers;
  std::unique_ptr<Segment> published;
  Arena llPackets, ll128Lines; // a receiver would take any other data there for packets
  uint64_t lastHeld = 0;
  Holding holding;
};

} // namespace kolo::runtime
