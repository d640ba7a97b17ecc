// What the contract of Transport says of peers that leave, die or stay silent, on every transport.
#include "Support.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

namespace kolo::test {
namespace {

class ContractOfEnds : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(All, ContractOfEnds, testing::ValuesIn(allKinds()),
                         [](const auto &info) { return info.param.name; });

TEST_P(ContractOfEnds, APeerThatLeavesHasSaidEverythingBefore) {
  ConnectedRanks world(GetParam(), 3);
  std::vector<std::byte> data = makeData(100'000, 8);
  Landing landing(data.size(), 3);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[1].put({0, 0}, {1, 0, 0}, data.data(), data.size()).isOk());
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 1}).isOk());
  std::atomic<bool> hasLeft = false;
  std::thread receiver([&] {
    for (Clock::time_point end = Clock::now() + std::chrono::seconds(20);
         Clock::now() < end && !(hasLeft && landing.cell(0, 0, 1).hasReached(1));)
      (void)world[0].progress();
  });
  EXPECT_EQ(world[1].flush(0).message(), "");
  world.leave(1);
  hasLeft = true;
  receiver.join();
  ASSERT_TRUE(landing.cell(0, 0, 1).hasReached(1));
  EXPECT_EQ(std::memcmp(landing.data(), data.data(), data.size()), 0);
  ASSERT_TRUE(world.runUntil([&] { return !world[0].stateOf(1).isOk(); }));
  EXPECT_EQ(world[0].progress().message(), "");
  EXPECT_EQ(expectStatus(world[0].stateOf(1), StatusCode::PeerLost, 1, "rank 1 has left"), "");
  EXPECT_EQ(expectStatus(world[0].signal({1, 0}, {1, 0, 1}), StatusCode::PeerLost, 1, "rank 1 has left"), "");
  EXPECT_TRUE(world[0].signal({2, 0}, {1, 0, 1}).isOk());
  const Counter none = {};
  Clock::time_point start = Clock::now();
  while (Clock::now() < start + std::chrono::milliseconds(50)) // sleeps beside a connection that has ended
    ASSERT_TRUE(world[0].idle(none, 1, start + std::chrono::milliseconds(50)).isOk());
}

Pair<Transport> makePair(const Kind &kind, int timeoutMs, const std::function<void(Transport &)> &body) {
  Result<std::unique_ptr<Transport>> first = kind.make({0, 2, timeoutMs}), second = kind.make({1, 2, 20'000});
  return {std::move(first).value(), std::move(second).value(), body};
}

TEST_P(ContractOfEnds, APeerThatLeavesIsHeardToTheEndAlthoughItLeavesMuchUnread) {
  constexpr size_t sizeBytes = 3 << 20;
  for (bool isReceiverBusy : {false, true}) {
    std::vector<std::byte> data = makeData(sizeBytes, 9); // in use until all have left
    ConnectedRanks world(GetParam(), 2);
    Landing landing(sizeBytes, 2), unread(sizeBytes, 2);
    ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
    ASSERT_TRUE(world[1].registerMemory(unread.registration(1)).isOk());
    ASSERT_TRUE(world[0].put({1, 1}, {1, 0, 0}, data.data(), sizeBytes).isOk());
    ASSERT_TRUE(world[0].signal({1, 1}, {1, 0, 1}).isOk());
    std::atomic<bool> hasLeft = false;
    std::thread leaver([&] { // reads nothing of it but what its flush reads
      EXPECT_TRUE(world[1].put({0, 1}, {1, 0, 0}, data.data(), sizeBytes).isOk());
      EXPECT_TRUE(world[1].signal({0, 1}, {1, 0, 1}).isOk());
      EXPECT_EQ(world[1].flush(1).message(), "");
      world.leave(1);
      hasLeft = true;
    });
    if (isReceiverBusy)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Clock::time_point until = Clock::now() + std::chrono::seconds(20);
    for (uint64_t count = 1; !landing.cell(1, 0, 1).hasReached(1) && Clock::now() < until; ++count) {
      (void)world[0].put({1, 0}, {1, 0, 0}, data.data(), 50'000); // until it hears that the peer has left
      (void)world[0].signal({1, 0}, {1, 1, count});
      std::string failure = world[0].progress().message();
      EXPECT_EQ(failure, "");
      if (!failure.empty())
        break;
    }
    while (!hasLeft)
      (void)world[0].progress();
    leaver.join();
    EXPECT_TRUE(landing.cell(1, 0, 1).hasReached(1));
    EXPECT_EQ(std::memcmp(landing.data(), data.data(), sizeBytes), 0);
  }
}

TEST_P(ContractOfEnds, APeerThatDiesIsLostWithinASecond) {
  if (GetParam().isOfOneProcess)
    GTEST_SKIP() << "its ranks are in one process";
  Pair<Transport> pair = makePair(GetParam(), 20'000, [](Transport &) { pause(); });
  const Counter none = {};
  ASSERT_TRUE(pair.here->progress().isOk());
  Clock::time_point start = Clock::now();
  pair.child->signal(SIGKILL);
  Status status;
  while (status.isOk() && Clock::now() < start + std::chrono::seconds(10))
    status = pair.here->idle(none, 1, Clock::now() + std::chrono::seconds(10));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(expectStatus(status, StatusCode::PeerLost, 1, "rank 1"), "");
}

TEST_P(ContractOfEnds, APeerThatTakesNothingIsATimeout) {
  if (GetParam().isOfOneProcess)
    GTEST_SKIP() << "its ranks are in one process";
  const std::vector<std::byte> data(64 << 20);
  for (bool hasHeardBefore : {false, true}) {
    Pair<Transport> pair = makePair(GetParam(), shortMs, [&](Transport &there) {
      Landing landing(data.size(), 2);
      (void)there.registerMemory(landing.registration(1));
      while (hasHeardBefore && !landing.cell(0, 0, 0).hasReached(1))
        (void)there.progress();
      raise(SIGSTOP);
    });
    if (hasHeardBefore)
      ASSERT_TRUE(pair.here->signal({1, 0}, {1, 0, 1}).isOk());
    while (!pair.child->hasStopped())
      ASSERT_TRUE(pair.here->progress().isOk());
    ASSERT_TRUE(pair.here->put({1, 1}, {1, 0, 0}, data.data(), data.size()).isOk());
    EXPECT_EQ(expectStatus(pair.here->flush(1), StatusCode::Timeout, 1, "for rank 1 to take data: timed out"), "");
    EXPECT_TRUE(pair.here->stateOf(1).isOk());
  }
}

TEST_P(ContractOfEnds, AFlushWaitsForNoPeerThatComputes) {
  std::vector<std::byte> data = makeData(20'000, 4), kept = data; // in use until all have left
  Landing landing(data.size(), 2);
  ConnectedRanks world(GetParam(), 2, 1000);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[0].signal({1, 1}, {1, 3, 1}).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(1, 3, 0).hasReached(1); })); // the registration is known there
  ASSERT_EQ(world[0].put({1, 0}, {1, 0, 0}, data.data(), data.size()).message(), "");
  ASSERT_EQ(world[0].signal({1, 0}, {1, 0, 1}).message(), "");
  Status status = world[0].flush(0); // rank 1 does nothing
  if (GetParam().flushNeedsPeer) {
    EXPECT_EQ(expectStatus(status, StatusCode::Timeout, 1, "for rank 1 to take data"), "");
    return;
  }
  ASSERT_EQ(status.message(), "");
  std::ranges::fill(data, std::byte(0)); // the source is free
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 0).hasReached(1); }));
  EXPECT_EQ(std::memcmp(landing.data(), kept.data(), kept.size()), 0);
}

TEST_P(ContractOfEnds, WhatWasFlushedArrivesAlthoughItsSenderDoesNothingAnyMore) {
  if (GetParam().isOfOneProcess)
    GTEST_SKIP() << "its ranks are in one process";
  std::vector<std::byte> data = makeData(50'000, 12);
  Pair<Transport> pair = makePair(GetParam(), 20'000, [&](Transport &there) {
    (void)there.put({0, 0}, {1, 0, 0}, data.data(), data.size());
    (void)there.signal({0, 0}, {1, 0, 1});
    (void)there.flush(0);
    _exit(0); // no destructor
  });
  Landing landing(data.size(), 2);
  ASSERT_TRUE(pair.here->registerMemory(landing.registration(1)).isOk());
  Cell &cell = landing.cell(0, 0, 1);
  Status status;
  while (status.isOk())
    status = pair.here->idle(cell, 2, Clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(expectStatus(status, StatusCode::PeerLost, 1, "rank 1"), "");
  EXPECT_TRUE(cell.hasReached(1));
  EXPECT_EQ(std::memcmp(landing.data(), data.data(), data.size()), 0);
}

TEST_P(ContractOfEnds, ConnectingNamesTheRanksThatDoNotCome) {
  std::vector<std::unique_ptr<Transport>> ranks;
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < 4; ++rank) {
    Result<std::unique_ptr<Transport>> made = GetParam().make({rank, 4, 300});
    ranks.push_back(std::move(made).value());
    endpoints.push_back(ranks.back()->endpoint());
  }
  std::thread other([&] { (void)ranks[3]->connect(endpoints); });
  EXPECT_EQ(expectStatus(ranks[0]->connect(endpoints), StatusCode::Timeout, 1, "rank 1, 2: timed out"), "");
  other.join();
  ranks[2].reset(); // listens no more
  EXPECT_EQ(ranks[3]->put({0, 0}, {}, nullptr, 1).code(), StatusCode::InvalidArgument);
}

TEST_P(ContractOfEnds, APeerThatHasEndedBeforeItIsConnectedIsLost) {
  Result<std::unique_ptr<Transport>> first = GetParam().make({0, 2, 5000}), second = GetParam().make({1, 2, 5000});
  std::array<Endpoint, 2> endpoints{(*first)->endpoint(), (*second)->endpoint()};
  std::unique_ptr<Transport> there = std::move(second).value();
  std::move(first).value().reset();
  EXPECT_EQ(expectStatus(there->connect(endpoints), StatusCode::PeerLost, 0, "rank 0"), "");
}

} // namespace
} // namespace kolo::test
