// Rooted calls in which ranks run ahead: a rank goes on before others have come, and differences are found later.
#include "Ranks.h"
#include "TestPlugin.h"
#include "memory/Holding.h"
#include "peers/Control.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

constexpr int mostAhead = static_cast<int>(RankBlock::numTurns) - 1;

struct SharedAhead {
  std::atomic<int> numAhead;
};

class Ahead : public testing::TestWithParam<Launch> {
protected:
  Ahead()
      : shared(static_cast<SharedAhead *>(
            mmap(nullptr, sizeof(SharedAhead), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Ahead() override { munmap(shared, sizeof(SharedAhead)); }

  std::string run(int numRanks, const RankBody &body) {
    (void)testPlugin();
    CommunicatorOptions options{15000};
    options.runsAhead = true;
    return runRanks(GetParam(), numRanks, options, body);
  }
  /// Returns what is wrong if not so many ranks come here.
  std::string awaitAhead(int number) const {
    for (auto start = std::chrono::steady_clock::now(); shared->numAhead < number; std::this_thread::yield())
      if (std::chrono::steady_clock::now() - start > std::chrono::seconds(10))
        return "no rank has run ahead in ten seconds";
    return "";
  }
  /// The calls before are right: no rank hears of a failure in them.
  std::string awaitAll(const Communicator &communicator) const {
    ++shared->numAhead;
    return awaitAhead(communicator.size());
  }
  SharedAhead *shared;
};

struct Buffers {
  std::vector<int32_t> in = std::vector<int32_t>(4096), out = in;
};

CallArguments callOf(const Communicator &communicator, const char *program, int64_t count, int root, Buffers &buffers) {
  CallArguments arguments{program, *Mesh::create({{"rank", communicator.size()}}), count, DataType::I32};
  arguments.root = root;
  arguments.input = buffers.in.data();
  arguments.output = buffers.out.data();
  return arguments;
}

Status call(Communicator &communicator, const char *program, int64_t count, int root, Buffers &buffers) {
  return communicator.run(testPlugin(), callOf(communicator, program, count, root, buffers));
}

/// Makes one call, and says what is wrong with its result.
std::string broadcast(Communicator &communicator, int64_t count, int root, int32_t value) {
  Buffers buffers;
  std::ranges::fill(buffers.in, communicator.rank() == root ? value : -7);
  std::string said = expectStatus(call(communicator, "publishedBroadcast", count, root, buffers), StatusCode::Ok);
  for (size_t i = 0; said.empty() && i < static_cast<size_t>(count); ++i)
    if (buffers.out[i] != value)
      said = "a broadcast of " + std::to_string(value) + " gave " + std::to_string(buffers.out[i]);
  return said;
}

std::string reduce(Communicator &communicator, int64_t count, int root, int32_t value) {
  Buffers buffers;
  std::ranges::fill(buffers.in, value + communicator.rank());
  std::string said = expectStatus(call(communicator, "publishedReduce", count, root, buffers), StatusCode::Ok);
  const int size = communicator.size(), sum = size * value + size * (size - 1) / 2;
  for (size_t i = 0; said.empty() && communicator.rank() == root && i < static_cast<size_t>(count); ++i)
    if (buffers.out[i] != sum)
      said = "a sum of " + std::to_string(sum) + " is " + std::to_string(buffers.out[i]);
  return said;
}

/// Rooted calls of many kinds, between other calls, by ranks that take breaks of their own.
std::string makeCalls(Communicator &communicator, int number) {
  std::minstd_rand same(7), own(static_cast<unsigned>(communicator.rank()) + 1);
  std::string said;
  for (int i = 0; i < number && said.empty(); ++i) {
    const auto kind = same() % 16;
    const int root = static_cast<int>(same() % 3);
    const auto count = static_cast<int64_t>(kind == 15 ? 3000 : 1 + same() % 4); // 3000: not kept
    if (own() % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(own() % 200));
    if (kind == 0)
      said = expectStatus(communicator.barrier(), StatusCode::Ok);
    else if (kind == 1) {
      Buffers buffers;
      said = expectStatus(call(communicator, "scratchAllReduce", count, 0, buffers), StatusCode::Ok);
    } else
      said = (kind % 2 ? broadcast : reduce)(communicator, count, root, i);
  }
  return said;
}

/// Makes the calls until one fails, and expects this of it, or that another rank's failure had this cause. They would
/// go on, where nothing is found, past all waits.
std::string failUntil(StatusCode code, const std::vector<std::string> &texts, const std::function<Status()> &make) {
  for (int i = 0; i < 1000; ++i)
    if (Status status = make(); !status.isOk())
      return expectFailure(status, code, texts);
  return "no call failed";
}

} // namespace

TEST_P(Ahead, TheRootOfABroadcastGoesOn) {
  EXPECT_EQ(run(3,
                [&](Communicator &communicator) {
                  std::string said = broadcast(communicator, 10, 1, 5);
                  if (communicator.rank() != 1)
                    said += awaitAhead(1);
                  for (int i = 0; i < mostAhead; ++i)
                    said += broadcast(communicator, 10, 1, i);
                  if (communicator.rank() == 1)
                    ++shared->numAhead;
                  return said + expectStatus(communicator.barrier(), StatusCode::Ok);
                }),
            "");
}

TEST_P(Ahead, TheLeavesOfAReduceGoOn) {
  EXPECT_EQ(run(3,
                [&](Communicator &communicator) {
                  std::string said = reduce(communicator, 10, 1, 5);
                  if (communicator.rank() == 1)
                    said += awaitAhead(2);
                  for (int i = 0; i < mostAhead; ++i)
                    said += reduce(communicator, 10, 1, i);
                  if (communicator.rank() != 1)
                    ++shared->numAhead;
                  return said + expectStatus(communicator.barrier(), StatusCode::Ok);
                }),
            "");
}

TEST_P(Ahead, ARootMayLeaveBeforeTheOthersCome) {
  EXPECT_EQ(run(2,
                [&](Communicator &communicator) {
                  std::string said = broadcast(communicator, 10, 0, 5);
                  if (communicator.rank() == 1) {
                    said += awaitAhead(1);
                    std::this_thread::sleep_for(std::chrono::milliseconds(50));
                  }
                  said += broadcast(communicator, 10, 0, 6);
                  if (communicator.rank() == 0)
                    ++shared->numAhead;
                  return said;
                }),
            "");
}

TEST_P(Ahead, CallsInAnyOrderGiveTheirResults) {
  EXPECT_EQ(run(3, [&](Communicator &communicator) { return makeCalls(communicator, 2000); }), "");
}

/// All ranks keep the same plans, so fewer where one of them has no room.
TEST_P(Ahead, SoTheyDoWhereOneRankHasNoRoomForPlans) {
  EXPECT_EQ(run(3,
                [&](Communicator &communicator) {
                  constexpr size_t limit = size_t(16) << 20;
                  const RankKind kind = GetParam() == Launch::Threads ? RankKind::Threads : RankKind::Processes;
                  Holding other(Budget::ofRank(kind, communicator.rank()), limit, {});
                  const size_t least = communicator.rank() == 1 ? 0 : 64; // KiB that are left: about a dozen plans
                  std::string said = expectStatus(
                      other.keep(Keeps::Plans, keptLimit(Keeps::Plans, limit) - (least << 10)), StatusCode::Ok);
                  said += makeCalls(communicator, 400);
                  return said + makeCalls(communicator, 400);
                }),
            "");
}

TEST_P(Ahead, ADifferenceInCountIsFound) {
  EXPECT_EQ(run(3,
                [&](Communicator &communicator) {
                  std::string said =
                      broadcast(communicator, 10, 0, 5) + broadcast(communicator, 12, 0, 5) + awaitAll(communicator);
                  Buffers buffers;
                  return said + failUntil(StatusCode::Mismatch,
                                          {"ranks disagree on count: rank 0 called with 10, rank ", " with 12"}, [&] {
                                            return call(communicator, "publishedBroadcast",
                                                        communicator.rank() ? 12 : 10, 0, buffers);
                                          });
                }),
            "");
}

/// No rank reads what rank 0 publishes, and it reads nothing.
TEST_P(Ahead, ADifferenceThatNobodyReadsIsFound) {
  EXPECT_EQ(run(3,
                [&](Communicator &communicator) {
                  std::string said =
                      broadcast(communicator, 10, 0, 5) + broadcast(communicator, 10, 1, 5) + awaitAll(communicator);
                  Buffers buffers;
                  return said + failUntil(StatusCode::Mismatch,
                                          {"ranks disagree on root: rank 0 called with 0, rank ", " with 1"}, [&] {
                                            return call(communicator, "publishedBroadcast", 10,
                                                        communicator.rank() ? 1 : 0, buffers);
                                          });
                }),
            "");
}

TEST_P(Ahead, AnotherOperationIsFound) {
  EXPECT_EQ(run(3,
                [&](Communicator &communicator) {
                  std::string said = broadcast(communicator, 10, 0, 5) + awaitAll(communicator);
                  Buffers buffers;
                  auto make = [&] {
                    return communicator.rank() == 0 ? call(communicator, "publishedBroadcast", 10, 0, buffers)
                                                    : communicator.barrier();
                  };
                  return said + failUntil(StatusCode::Mismatch, {"rank 0 called run, rank ", " called barrier"}, make);
                }),
            "");
}

TEST_P(Ahead, ACallThatIsNotKeptIsFoundToDiffer) {
  EXPECT_EQ(
      run(3,
          [&](Communicator &communicator) {
            std::string said = reduce(communicator, 10, 0, 5) + awaitAll(communicator);
            Buffers buffers;
            return said + failUntil(StatusCode::Mismatch, {"ranks disagree on count", "with 10", "with 3000"}, [&] {
                     return call(communicator, "publishedReduce", communicator.rank() == 2 ? 3000 : 10, 0, buffers);
                   });
          }),
      "");
}

TEST_P(Ahead, ABufferThatIsNullIsToldToAll) {
  EXPECT_EQ(run(2,
                [&](Communicator &communicator) {
                  std::string said = reduce(communicator, 10, 0, 5) + awaitAll(communicator);
                  Buffers buffers;
                  return said + failUntil(StatusCode::InvalidArgument, {"rank 1: input is null"}, [&] {
                           CallArguments arguments = callOf(communicator, "publishedReduce", 10, 0, buffers);
                           if (communicator.rank() == 1)
                             arguments.input = nullptr;
                           return communicator.run(testPlugin(), arguments);
                         });
                }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Ahead, testing::Values(Launch::Threads, Launch::Forked));
