// Barriers that ranks begin, and complete later.
#include "Ranks.h"
#include "TestPlugin.h"

#include <gtest/gtest.h>

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

class SplitBarriers : public testing::TestWithParam<Launch> {};

std::string expectOver(const Communicator &communicator, uint64_t number, bool isOver) {
  Result<bool> found = communicator.isBarrierOver(number);
  if (!found.isOk())
    return found.status().message() + "; ";
  return *found == isOver ? "" : "barrier " + std::to_string(number) + (isOver ? " is not over; " : " is over; ");
}

/// Looks until the barrier is over.
Status lookUntilOver(const Communicator &communicator, uint64_t number) {
  while (true) {
    Result<bool> found = communicator.isBarrierOver(number);
    if (!found.isOk() || *found)
      return found.status();
    sched_yield();
  }
}

std::string sum(Communicator &communicator) {
  int32_t in = communicator.rank() + 1, out = 0;
  CallArguments arguments{"scratchAllReduce", *Mesh::create({{"rank", communicator.size()}}), 1, DataType::I32};
  arguments.input = &in;
  arguments.output = &out;
  std::string wrong = expectStatus(communicator.run(testPlugin(), arguments), StatusCode::Ok);
  return out == communicator.size() * (communicator.size() + 1) / 2 ? wrong : wrong + "wrong sum; ";
}

} // namespace

TEST_P(SplitBarriers, AreOverWhenTheLastRankHasBegunThem) {
  EXPECT_EQ(runRanks(GetParam(), 3, {},
                     [](Communicator &communicator) {
                       std::string wrong;
                       for (uint64_t round = 0; round < 100; ++round) {
                         const bool isLast = communicator.rank() == static_cast<int>(round % 3);
                         Channel channel = communicator.channel(static_cast<int>(round % 3), 0);
                         uint64_t number = 0;
                         if (!isLast) {
                           number = *communicator.beginBarrier();
                           wrong += expectOver(communicator, number, false);
                           wrong += expectStatus(channel.signal(), StatusCode::Ok);
                         } else {
                           for (int peer = 0; peer < 3; ++peer)
                             if (peer != communicator.rank())
                               wrong += expectStatus(communicator.channel(peer, 0).wait(), StatusCode::Ok);
                           number = *communicator.beginBarrier();
                           wrong += expectOver(communicator, number, true);
                         }
                         if (number != round + 1)
                           wrong += "wrong number; ";
                         wrong += expectStatus(communicator.finishBarrier(number), StatusCode::Ok);
                         wrong += expectOver(communicator, number, true);
                       }
                       return wrong;
                     }),
            "");
}

TEST_P(SplitBarriers, AnyNumberIsOutstandingAmongOtherCalls) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(GetParam(), 2, {},
                     [](Communicator &communicator) {
                       std::string wrong;
                       const int me = communicator.rank();
                       std::vector<uint64_t> numbers;
                       for (int i = 0; i < 1000; ++i) {
                         numbers.push_back(*communicator.beginBarrier());
                         if (i % 100 == 0)
                           wrong += sum(communicator) + expectStatus(communicator.barrier(), StatusCode::Ok);
                       }
                       // In another order on each rank.
                       for (size_t i = 0; i < numbers.size(); ++i) {
                         const uint64_t number = numbers[me == 0 ? i : numbers.size() - 1 - i];
                         wrong += expectStatus(i % 2 == 0 ? communicator.finishBarrier(number)
                                                          : lookUntilOver(communicator, number),
                                               StatusCode::Ok);
                       }
                       return wrong;
                     }),
            "");
}

TEST_P(SplitBarriers, ALeaverHasBegunThem) {
  EXPECT_EQ(runRanks(GetParam(), 2, {},
                     [](Communicator &communicator) {
                       uint64_t number = *communicator.beginBarrier();
                       if (communicator.rank() == 1)
                         return std::string(); // leaves
                       std::this_thread::sleep_for(std::chrono::milliseconds(50));
                       return expectStatus(communicator.finishBarrier(number), StatusCode::Ok) +
                              expectOver(communicator, number, true);
                     }),
            "");
}

TEST_P(SplitBarriers, AThreadMayWaitWhileAnotherUsesTheCommunicator) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(GetParam(), 2, {},
                     [](Communicator &communicator) {
                       uint64_t number = *communicator.beginBarrier();
                       std::string wrong, ofThread;
                       std::thread waiting(
                           [&] { ofThread = expectStatus(communicator.finishBarrier(number), StatusCode::Ok); });
                       for (int i = 0; i < 50; ++i)
                         wrong += sum(communicator);
                       waiting.join();
                       return wrong + ofThread;
                     }),
            "");
}

TEST_P(SplitBarriers, OfNumbersThatNobodyBeganAreRefused) {
  EXPECT_EQ(runRanks(GetParam(), 2, {},
                     [](Communicator &communicator) {
                       std::string wrong;
                       for (Status status : {communicator.isBarrierOver(1).status(), communicator.finishBarrier(1)})
                         wrong += expectStatus(status, StatusCode::InvalidArgument, {"has not begun barrier 1"});
                       return wrong;
                     }),
            "");
}

TEST_P(SplitBarriers, EndWithTheTimeout) {
  EXPECT_EQ(runRanks(GetParam(), 2, {200},
                     [](Communicator &communicator) {
                       if (communicator.rank() == 1) {
                         std::this_thread::sleep_for(std::chrono::milliseconds(600));
                         return expectStatus(communicator.beginBarrier().status(), StatusCode::Aborted,
                                             {"to begin a barrier: timed out"});
                       }
                       return expectStatus(communicator.finishBarrier(*communicator.beginBarrier()),
                                           StatusCode::Timeout, {"rank 1"});
                     }),
            "");
}

INSTANTIATE_TEST_SUITE_P(EveryLaunch, SplitBarriers, testing::Values(Launch::Threads, Launch::Forked));

TEST(SplitBarrier, ARankThatDiesIsLost) {
  for (bool isLooking : {false, true}) {
    auto forked = ForkedRanks::create(2);
    ASSERT_TRUE(forked.isOk());
    auto said = runProcesses(2, [&](int rank) -> std::string {
      auto communicator = Communicator::createForked(*forked, rank, {15000});
      if (!communicator.isOk())
        return communicator.status().message();
      if (rank == 1)
        (void)kill(getpid(), SIGKILL);
      uint64_t number = *communicator->beginBarrier();
      Status status = isLooking ? lookUntilOver(*communicator, number) : communicator->finishBarrier(number);
      return expectStatus(status, StatusCode::PeerLost, {"waited for rank 1 to begin a barrier: it has ended or left"});
    });
    EXPECT_EQ(said[0], "");
  }
}

TEST(SplitBarrier, IsRefusedAmongSeveralHosts) {
  EXPECT_EQ(onHosts(2, alone, {},
                    [](Communicator &communicator) {
                      return expectStatus(communicator.beginBarrier().status(), StatusCode::UnsupportedMesh,
                                          {"several hosts"}) +
                             expectStatus(communicator.barrier(), StatusCode::Ok);
                    }),
            "");
}
