// Lane: one worker of one rank in one plan. The services of generated code work on it.
#pragma once

#include "call/Semaphores.h"
#include "kolo/runtime/PluginAbi.h"
#include "kolo/runtime/Status.h"

namespace kolo::runtime {

class Peers;
struct Plan;

struct Lane {
  // Every signal and wait reads this first.
  LaneSemaphores semaphores;
  bool hasFailed = false; // `semaphores` is then empty, so a successful signal or wait need not read this flag

  Peers *peers = nullptr;
  const Plan *plan = nullptr;
  int64_t number = 0;
  KoloInvocation invocation = {};         // its context is this Lane
  int64_t traffic[KOLO_NUM_TRAFFIC] = {}; // of this call, where it is counted

  /// Aborts the communicator, unless another lane of any rank already did. The call ends on all ranks. Returns 1.
  int32_t fail(const Status &cause);
};

/// What generated code may call; the context of an invocation is its Lane. In Services.cpp.
extern const KoloServices services;

/// Makes the lanes of a plan whose buffers are resolved. May throw std::bad_alloc.
void makeLanes(Plan &plan, Peers &peers);

/// Jobs for LanePool; the context is the Plan. runLane runs this lane of a call, or of one piece. publishLane publishes
/// this lane's share of the input.
void runLane(void *plan, int lane);
void publishLane(void *plan, int lane);

inline constexpr size_t tileBytes = size_t(64) << 10;
static_assert(tileBytes >= KOLO_MIN_TILE_BYTES);

} // namespace kolo::runtime
