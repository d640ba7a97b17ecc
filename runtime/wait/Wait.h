// How a rank waits: spin, then yield, then sleep.
#pragma once

#include "Environment.h"
#include "wait/Cell.h"

#include <sched.h>

#include <concepts>
#include <cstdint>

namespace kolo::runtime {

/// One round of waiting. When `maySleep` is false the round starts over instead of sleeping.
struct WaitPolicy {
  uint32_t numSpins = 0;
  uint32_t numYields = 0;
  bool maySleep = true;
};

/// `hasOwnCore`: every lane of every rank has a core to itself. Auto then spins for long, else hardly at all: a rank
/// that spins on a core that its peer needs costs a time slice.
WaitPolicy choosePolicy(WaitMode mode, bool hasOwnCore);

/// Why a wait ended.
enum class WaitEnd : uint8_t { Reached, Aborted, PeerLost, Timeout };

inline void pauseOnce() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Yields between two calls of `check`, which costs system calls.
inline constexpr uint32_t yieldsPerCheck = 64;

/// What is waited for: a Counter, or something with the same two functions.
template <class T>
concept Awaited = requires(T &awaited, uint64_t target) {
  { awaited.hasReached(target) } -> std::same_as<bool>;
  awaited.sleep(target);
};

/// The first part of every wait. False: not reached yet.
template <Awaited T> bool spinUntil(T &counter, uint64_t target, const WaitPolicy &policy) {
  for (uint32_t i = 0; i < policy.numSpins; ++i) {
    pauseOnce();
    if (counter.hasReached(target))
      return true;
  }
  return false;
}

/// The rest, after spinUntil. Blocks until the counter reaches the target, or `check()` returns something other than
/// Reached. A peer that died or a clock that ran out does not undo a signal that came before, so the counter is looked
/// at once more.
template <Awaited T, class Check>
WaitEnd waitSlowly(T &counter, uint64_t target, const WaitPolicy &policy, Check &&check) {
  auto finish = [&](WaitEnd end) {
    return end != WaitEnd::Aborted && counter.hasReached(target) ? WaitEnd::Reached : end;
  };
  bool isAsleep = false; // once a wait has slept it goes on sleeping
  while (true) {
    for (uint32_t i = 0; !isAsleep && i < policy.numYields; ++i) {
      sched_yield();
      if (counter.hasReached(target))
        return WaitEnd::Reached;
      if (i % yieldsPerCheck == yieldsPerCheck - 1)
        if (WaitEnd end = check(); end != WaitEnd::Reached)
          return finish(end);
    }
    if (WaitEnd end = check(); end != WaitEnd::Reached)
      return finish(end);
    isAsleep = policy.maySleep;
    if (isAsleep)
      counter.sleep(target);
    if (counter.hasReached(target) || (!isAsleep && spinUntil(counter, target, policy)))
      return WaitEnd::Reached;
  }
}

template <Awaited T, class Check>
WaitEnd waitUntil(T &counter, uint64_t target, const WaitPolicy &policy, Check &&check) {
  if (counter.hasReached(target) || spinUntil(counter, target, policy))
    return WaitEnd::Reached;
  return waitSlowly(counter, target, policy, check);
}

} // namespace kolo::runtime
