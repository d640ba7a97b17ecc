// How a rank waits: spin, then yield, then sleep.
#pragma once

#include "base/Environment.h"
#include "wait/Cell.h"
#include "wait/Clock.h"
#include "wait/Seat.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

namespace kolo::runtime {

/// The network in waits. A rank that waits moves its own data and that of others.
class NetworkWait {
public:
  virtual ~NetworkWait() = default;
  /// Sends and receives what is possible now.
  virtual void progress() = 0;
  /// Sleeps until something arrives, for at most `mostUs` microseconds.
  virtual void sleep(const Counter &counter, uint64_t target, int64_t mostUs) = 0;
};

/// While it lives, the kernel ends sleeps of this thread when they are over, and not up to 50 us later.
class PreciseTimers {
public:
  PreciseTimers();
  ~PreciseTimers();
  PreciseTimers(const PreciseTimers &) = delete;
  PreciseTimers &operator=(const PreciseTimers &) = delete;

private:
  const int slackNs; // of the thread before; negative: unknown
};

/// Whether a thread's waits should yield. A yield that takes long gives the core to somebody who computes, and the
/// kernel may not give it back for as long; it lets those soon run who slept. So after such a yield the next waits
/// sleep at once: 16 of them, and twice as many each time, up to 1024.
class YieldChoice {
public:
  /// For one wait.
  bool mayYield() { return numLeft == 0 || --numLeft == 0; }
  /// One yield of the wait took long.
  void tookLong() {
    number = std::clamp(2 * number, 16u, 1024u);
    numLeft = number;
  }
  /// The wait ended among its yields.
  void helped() { number /= 2; }

private:
  uint32_t number = 0, numLeft = 0; // of waits that do not yield
};

/// One round of waiting. When `maySleep` is false, the round starts again instead of sleeping.
struct WaitPolicy {
  uint32_t numSpins = 0;
  uint32_t numYields = 0;
  bool maySleep = true;
  /// What the waiting thread calls between looks: see CommunicatorOptions. Null: nothing. Not owned.
  const std::function<void()> *progress = nullptr;

  /// Of the waiting thread. Null: it does not care which core it runs on. Not owned.
  Seat *seat = nullptr;

  /// Of the waiting thread. Null: it always yields. Not owned.
  YieldChoice *yields = nullptr;

  /// Null: all ranks are on this host. Every thread calls it. Not owned.
  NetworkWait *network = nullptr;
  /// What is awaited comes over the network.
  bool isRemote = false;

  bool mustProgress() const { return progress || network; }
  void callProgress() const {
    if (progress)
      (*progress)();
    if (network)
      network->progress();
  }
  /// Sleeps until the counter may have changed, or something else must be looked at.
  template <class T> void sleepFor(T &counter, uint64_t target) const {
    std::optional<PreciseTimers> precise;
    if (progress)
      precise.emplace();
    if constexpr (std::is_base_of_v<Counter, T>)
      if (network && isRemote)
        return network->sleep(counter, target, progress ? callerIntervalUs : sleepIntervalUs);
    counter.sleep(target, progress ? callerIntervalUs : network ? progressIntervalUs : sleepIntervalUs);
  }
};

/// `hasOwnCore`: every lane of every rank can have its own core. WaitMode::Auto then spins for long. Otherwise it spins
/// briefly, because a spinning rank may hold the core that its peer needs.
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

/// Yields between two calls of `check`, which makes system calls.
inline constexpr uint32_t yieldsPerCheck = 64;
/// No rank that waits, too, takes so long until it yields.
inline constexpr std::chrono::microseconds longYield{500};
/// Looks between two calls of `progress` while a rank spins, which take about 1 us.
inline constexpr uint32_t spinsPerProgress = 64;

/// A Counter, or a type with the same two functions.
template <class T>
concept Awaited = requires(T &awaited, uint64_t target) {
  { awaited.hasReached(target) } -> std::same_as<bool>;
  awaited.sleep(target, int64_t());
};

/// The first part of every wait. Returns whether the counter reached the target.
template <Awaited T> bool spinUntil(T &counter, uint64_t target, const WaitPolicy &policy) {
  for (uint32_t i = 0; i < policy.numSpins; ++i) {
    pauseOnce();
    if (counter.hasReached(target))
      return true;
    if (policy.mustProgress() && i % spinsPerProgress == spinsPerProgress - 1) [[unlikely]]
      policy.callProgress();
  }
  return false;
}

/// The second part, after spinUntil. Blocks until the counter reaches the target, or `check()` returns something other
/// than Reached. It then reads the counter again: a signal counts although its sender died or the time ran out later.
template <Awaited T, class Check>
WaitEnd waitSlowly(T &counter, uint64_t target, const WaitPolicy &policy, Check &&check) {
  auto finish = [&](WaitEnd end) {
    return end != WaitEnd::Aborted && counter.hasReached(target) ? WaitEnd::Reached : end;
  };
  // A wait that has slept yields no more.
  bool isAsleep = policy.maySleep && policy.yields && !policy.yields->mayYield();
  while (true) {
    for (uint32_t i = 0; !isAsleep && i < policy.numYields; ++i) {
      if (policy.seat)
        policy.seat->beforeYield();
      const Clock::time_point before = Clock::now();
      sched_yield();
      const bool wasLong = Clock::now() - before > longYield;
      if (wasLong && policy.yields)
        policy.yields->tookLong();
      bool hasReached = counter.hasReached(target);
      if (!hasReached && policy.mustProgress()) { // which may give the core away, too
        policy.callProgress();
        hasReached = counter.hasReached(target);
      }
      if (hasReached) {
        if (!wasLong && policy.yields)
          policy.yields->helped();
        return WaitEnd::Reached;
      }
      if (wasLong && policy.maySleep)
        break;
      if (i % yieldsPerCheck == yieldsPerCheck - 1)
        if (WaitEnd end = check(); end != WaitEnd::Reached)
          return finish(end);
    }
    if (WaitEnd end = check(); end != WaitEnd::Reached)
      return finish(end);
    isAsleep = policy.maySleep;
    policy.callProgress();
    if (isAsleep)
      policy.sleepFor(counter, target);
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
