// Worlds of transports for tests: all ranks in this process, or some of them in processes that the test may end.
#pragma once

#include "network/Transport.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace kolo::test {

using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

/// A limit that is to pass while a test waits. Ranks have to connect within it first, on a busy machine, too.
constexpr int shortMs = 1000;

struct RankPlace {
  int rank = 0;
  int numRanks = 1;
  int timeoutMs = 20'000;
};

/// One way to make a transport. The contract is tested on all of them.
struct Kind {
  std::string name;
  std::function<Result<std::unique_ptr<Transport>>(const RankPlace &)> make;
  bool isOneSided = false;     // what fits is written without a look by the receiver
  bool isOfOneProcess = false; // its ranks cannot be in different processes
  bool flushNeedsPeer = false; // a flush ends when the peer makes progress, too
};
std::vector<Kind> allKinds();
inline std::ostream &operator<<(std::ostream &out, const Kind &kind) { return out << kind.name; }

/// Connected ranks of this process.
class ConnectedRanks {
public:
  ConnectedRanks(const Kind &kind, int numRanks, int timeoutMs = 20'000);
  /// All leave at the same time.
  ~ConnectedRanks();
  Transport &operator[](int rank) { return *ranks[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks.size()); }
  void leave(int rank) { ranks[static_cast<size_t>(rank)].reset(); }

  /// Makes progress on all ranks until `isDone()`, at most for 20 s. Returns isDone().
  bool runUntil(const std::function<bool()> &isDone);
  /// Likewise until a rank's `progress` fails; returns that failure.
  Status failureOf(int rank);

private:
  std::vector<std::unique_ptr<Transport>> ranks;
};

/// The memory that one rank lets its peers write: one role, and cells of 4 lanes with 4 semaphores. Poisoned.
class Landing {
public:
  static constexpr uint32_t numLanes = 4, numSemaphores = 4;
  static constexpr size_t margin = 4096; // of bytes on both sides that nobody may write

  explicit Landing(size_t sizeBytes, int numRanks);
  Registration registration(uint64_t agreement);
  std::byte *data() { return bytes.data() + margin; }
  Cell &cell(uint32_t lane, uint32_t semaphore, int sender) {
    return cells[(lane * numSemaphores + semaphore) * static_cast<size_t>(ranks) + static_cast<size_t>(sender)];
  }
  /// Whether nobody has written any byte, or any but the first `numBytes` of data().
  bool isUntouched() const;
  bool isUntouchedAfter(size_t numBytes) const;

private:
  int ranks;
  std::vector<std::byte> bytes;
  std::vector<Cell> cells;
};

/// Bytes that differ from one seed, and from one place, to another.
std::vector<std::byte> makeData(size_t sizeBytes, unsigned seed);

/// "" if the status has this code and rank and its message contains the text; else all of it.
std::string expectStatus(const Status &status, StatusCode code, int rank, const std::string &text);

/// A transport of another process, which runs `body` and never returns from there. Killed by the destructor.
class ChildRank {
public:
  explicit ChildRank(const std::function<void()> &body);
  ~ChildRank();
  void signal(int number) const;
  bool hasStopped() const;

private:
  int pid;
};

/// Rank 0 here, and rank 1 in another process, which runs `body` once it has connected.
template <typename Rank> struct Pair {
  Pair(std::unique_ptr<Rank> own, std::unique_ptr<Rank> other, const std::function<void(Rank &)> &body)
      : here(std::move(own)) {
    std::array<Endpoint, 2> endpoints{here->endpoint(), other->endpoint()};
    child = std::make_unique<ChildRank>([&] {
      if (other->connect(endpoints).isOk())
        body(*other);
    });
    other.reset();
    EXPECT_EQ(here->connect(endpoints).message(), "");
  }
  std::unique_ptr<Rank> here;
  std::unique_ptr<ChildRank> child;
};

} // namespace kolo::test
