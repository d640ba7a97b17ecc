// Lane: one worker of one rank in one plan; what the services of generated code work on.
#pragma once

#include "Semaphores.h"
#include "kolo/runtime/PluginAbi.h"
#include "kolo/runtime/Status.h"

namespace kolo::runtime {

class Peers;
struct Plan;

struct Lane {
  // What every signal and wait reads.
  LaneSemaphores semaphores;
  bool hasFailed = false; // then semaphores has none, so that only what is about to fail anyway needs to look here

  Peers *peers = nullptr;
  const Plan *plan = nullptr;
  int64_t number = 0;
  KoloInvocation invocation = {}; // its context is this Lane

  /// The first failure of any lane of any rank is the communicator's, and ends the call everywhere. Returns 1.
  int32_t fail(const Status &cause);
};

/// Makes the lanes of a plan whose buffers are all resolved. `tiles` has tileBytes for each lane. May throw
/// std::bad_alloc.
void makeLanes(Plan &plan, Peers &peers, std::byte *tiles);

/// A job for LanePool: this lane's part of a call, or of one piece of it. The context is the Plan.
void runLane(void *plan, int lane);

/// Likewise: what this lane publishes of it.
void publishLane(void *plan, int lane);

inline constexpr size_t tileBytes = size_t(64) << 10;

} // namespace kolo::runtime
