// Sleepers: the threads of one rank that sleep until the network has something for them, and how others wake them.
#pragma once

#include "network/Socket.h"

#include <atomic>
#include <deque>
#include <mutex>

namespace kolo::runtime::tcp {

class Sleepers {
public:
  /// One that sleeps, from construction to destruction. It looks at its counter after it was made, so that it misses no
  /// `wake`.
  class Sleeper {
  public:
    explicit Sleeper(Sleepers &ofRank) : all(ofRank), own(all.add()) {}
    ~Sleeper();
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;
    /// An eventfd that is ready when it is woken; -1: none could be made, see errno.
    int descriptor() const { return own ? own->event.descriptor() : -1; }

  private:
    friend class Sleepers;
    struct Wakeup {
      Socket event;
      bool isUsed = false;
    };
    Sleepers &all;
    Wakeup *const own;
  };

  /// Wakes all but the one with this descriptor. Called after a counter was raised.
  void wake(int exceptDescriptor = -1);

private:
  Sleeper::Wakeup *add();

  std::mutex mutex; // of the list
  std::deque<Sleeper::Wakeup> wakeups;
  std::atomic<int> numAsleep = 0;
};

} // namespace kolo::runtime::tcp
