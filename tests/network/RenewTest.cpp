// Memory that is lent to one call after the other, each time under a larger number.
#include "Support.h"

#include "network/tcp/TcpTransport.h"

#include <gtest/gtest.h>

#include <cstring>

namespace kolo::test {
namespace {

using tcp::TcpTransport;

constexpr size_t sizeBytes = 4096;

/// Rank 1 lends `first` under number 2, and has cells under number 1.
struct Lender {
  Lender() : ranks(allKinds().front(), 2), cells(16, 2), first(sizeBytes, 2), second(sizeBytes, 2) {
    Registration lent = first.registration(2);
    lent.cells = nullptr;
    lent.numLanes = lent.numSemaphores = 0;
    for (const Registration &registration : {cells.registration(1), lent})
      EXPECT_EQ(ranks[1].registerMemory(registration).message(), "");
  }
  Status renew(uint64_t agreement, uint64_t next) {
    Region region{second.data(), sizeBytes};
    return static_cast<TcpTransport &>(ranks[1]).renew(agreement, next, {&region, 1});
  }
  void tell(uint64_t agreement) {
    EXPECT_EQ(ranks[0].put({1, 0}, {agreement, 0, 0}, data.data(), data.size()).message(), "");
    EXPECT_EQ(ranks[0].signal({1, 0}, {1, 0, 1}).message(), "");
    EXPECT_EQ(ranks[0].flush(0).message(), "");
  }

  ConnectedRanks ranks;
  Landing cells, first, second;
  std::vector<std::byte> data = makeData(sizeBytes, 18);
};

TEST(Renew, APutForTheNextCallWaitsForItsMemory) {
  Lender world;
  world.tell(3);
  Clock::time_point until = Clock::now() + std::chrono::milliseconds(50);
  while (Clock::now() < until)
    EXPECT_EQ(world.ranks[1].progress().message(), "");
  EXPECT_FALSE(world.cells.cell(0, 0, 0).hasReached(1));
  EXPECT_TRUE(world.first.isUntouched());
  EXPECT_EQ(world.renew(2, 3).message(), "");
  EXPECT_TRUE(world.ranks.runUntil([&] { return world.cells.cell(0, 0, 0).hasReached(1); }));
  EXPECT_EQ(std::memcmp(world.second.data(), world.data.data(), sizeBytes), 0);
  EXPECT_TRUE(world.first.isUntouched());
}

TEST(Renew, APutForTheLastCallIsRefused) {
  Lender world;
  EXPECT_EQ(world.renew(2, 3).message(), "");
  world.tell(2);
  EXPECT_EQ(expectStatus(world.ranks.failureOf(1), StatusCode::Mismatch, 0,
                         "writes in agreement 2, which this rank does not have (the newest is 3)"),
            "");
  EXPECT_TRUE(world.first.isUntouched() && world.second.isUntouched());
  EXPECT_FALSE(world.cells.cell(0, 0, 0).hasReached(1));
}

TEST(Renew, NumbersGrow) {
  Lender world;
  EXPECT_EQ(world.renew(2, 5).message(), "");
  for (auto [agreement, next] : {std::pair{5, 5}, {5, 4}, {2, 6}})
    EXPECT_EQ(world.renew(static_cast<uint64_t>(agreement), static_cast<uint64_t>(next)).code(),
              StatusCode::InvalidArgument);
  EXPECT_EQ(world.ranks[1].registerMemory(world.first.registration(5)).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(world.renew(5, 6).message(), "");
  world.tell(6);
  EXPECT_TRUE(world.ranks.runUntil([&] { return world.cells.cell(0, 0, 0).hasReached(1); }));
}

} // namespace
} // namespace kolo::test
