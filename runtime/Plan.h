// Plan: a call as it was worked out and agreed on, kept for when it is repeated.
#pragma once

#include "Buffers.h"
#include "Call.h"
#include "CallIdentity.h"
#include "Lane.h"
#include "Semaphores.h"

#include <array>
#include <memory>
#include <vector>

namespace kolo::runtime {

struct Plan {
  Plan(const PluginState &plugin, const CallArguments &arguments) : request(plugin.load, arguments) {}

  KeptCall request; // its pointers are those of the last time
  Call call;
  Buffers buffers;
  Semaphores *semaphores = nullptr;
  // By role and rank. Copies of what the records said: records are rewritten.
  std::vector<void *> peerBuffers[KOLO_NUM_BUFFER_ROLES];
  std::vector<Location> peerLocations[KOLO_NUM_BUFFER_ROLES];
  std::vector<void *> published[2], packets[2]; // by turn and rank
  // Of the piece that is running, where buffers are whole: where it begins in each of them, and where that is, by rank.
  int64_t pieceOffsetBytes = 0;
  std::vector<void *> peerPieces[2];
  std::vector<Lane> lanes;

  uint64_t generation = 0; // of the segment table: the plan is good for nothing in any other
  // The agreement of all ranks on it, counted from 1; 0: none. Equal numbers on all ranks are one agreement, since
  // every rank counts the same exchanges, and keeps with each number what it said then.
  uint64_t agreement = 0;

  /// Whether the buffers of a role are the caller's own, on all ranks, of which a piece is a part.
  bool isWhole(int32_t role) const { return (role == KOLO_INPUT || role == KOLO_OUTPUT) && !buffers.isCopied[role]; }
  /// Whether the plugin took the program, by what the call was.
  bool isSelected() const { return request.arguments().program.empty() && request.arguments().collective; }
};

/// The last few plans of a communicator. Addresses stay valid while the cache lives.
class PlanCache {
public:
  /// A plan that all ranks agreed on, that still holds, and that peers cannot tell from this call; it then has the
  /// pointers of this call. Null when there is none. Allocates nothing.
  Plan *find(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments,
             const MemoryRules &rules);

  /// An empty plan for this call, in place of an older one for it or of the oldest. May throw std::bad_alloc.
  Plan &replace(const PluginState &plugin, const CallArguments &arguments);

private:
  std::array<std::unique_ptr<Plan>, 16> plans;
  size_t last = 0;   // found last
  size_t oldest = 0; // made first
};

} // namespace kolo::runtime
