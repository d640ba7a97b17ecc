// The contract of Transport, on every transport.
#include "Support.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace kolo::test {
namespace {

class Contract : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(All, Contract, testing::ValuesIn(allKinds()),
                         [](const auto &info) { return info.param.name; });

TEST_P(Contract, ASignalSaysThatEarlierPutsOfTheLaneHaveArrived) {
  ConnectedRanks world(GetParam(), 3);
  unsigned seed = 1;
  for (size_t sizeBytes : {1, 47, 48, 49, 4000, 4048, 4049, 4096, 5000, 65539, 8 << 20}) {
    Landing landing(sizeBytes + 8, 3);
    ASSERT_TRUE(world[1].registerMemory(landing.registration(seed)).isOk());
    std::vector<std::byte> data = makeData(sizeBytes, seed);
    ASSERT_TRUE(world[0].put({1, 2}, {seed, 0, 8}, data.data(), sizeBytes).isOk());
    ASSERT_TRUE(world[0].signal({1, 2}, {seed, 3, 1}).isOk());
    ASSERT_TRUE(world.runUntil([&] { return landing.cell(2, 3, 0).hasReached(1); })) << sizeBytes;
    EXPECT_EQ(std::memcmp(landing.data() + 8, data.data(), sizeBytes), 0) << sizeBytes;
    EXPECT_TRUE(landing.isUntouchedAfter(8 + sizeBytes));
    EXPECT_FALSE(landing.cell(2, 3, 0).hasReached(2));
    world[1].release(seed++);
  }
}

TEST_P(Contract, LanesWriteInAnyOrderAndEachKeepsItsOwn) {
  constexpr uint64_t rounds = 200;
  ConnectedRanks world(GetParam(), 2);
  std::mt19937 random(11);
  Landing landing(4 * 30'000, 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  std::vector<std::byte> data = makeData(4 * 30'000, 5);
  for (uint64_t round = 1; round <= rounds; ++round) {
    std::array<size_t, 4> sizes{};
    for (uint32_t lane = 0; lane < 4; ++lane) {
      sizes[lane] = 1 + random() % 30'000;
      std::byte *part = data.data() + size_t(lane) * 30'000;
      part[0] = static_cast<std::byte>(round);
      size_t cut = random() % (sizes[lane] + 1);
      ASSERT_TRUE(world[1].put({0, lane}, {1, 0, lane * 30'000ull}, part, cut).isOk());
      ASSERT_TRUE(world[1].put({0, lane}, {1, 0, lane * 30'000ull + cut}, part + cut, sizes[lane] - cut).isOk());
    }
    for (uint32_t lane = 0; lane < 4; ++lane)
      ASSERT_TRUE(world[1].signal({0, lane}, {1, 0, round}).isOk());
    for (uint32_t lane = 0; lane < 4; ++lane) {
      ASSERT_TRUE(world.runUntil([&] { return landing.cell(lane, 0, 1).hasReached(round); }));
      ASSERT_EQ(std::memcmp(landing.data() + size_t(lane) * 30'000, data.data() + size_t(lane) * 30'000, sizes[lane]),
                0);
      ASSERT_TRUE(world[1].flush(lane).isOk());
    }
  }
}

TEST_P(Contract, SourcesMayBeOverwrittenAfterTheFlush) {
  ConnectedRanks world(GetParam(), 2);
  constexpr size_t sizeBytes = 32 << 20;
  Landing landing(sizeBytes, 2);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
  std::vector<std::byte> data = makeData(sizeBytes, 3), copy = data;
  ASSERT_TRUE(world[0].put({1, 0}, {1, 0, 0}, data.data(), sizeBytes).isOk());
  ASSERT_TRUE(world[0].signal({1, 0}, {1, 0, 1}).isOk());
  std::atomic<bool> isFlushed = false;
  std::thread flusher([&] {
    EXPECT_EQ(world[0].flush(0).message(), "");
    std::ranges::fill(data, std::byte(0));
    isFlushed = true;
  });
  while (!isFlushed || !landing.cell(0, 0, 0).hasReached(1))
    ASSERT_TRUE(world[1].progress().isOk());
  flusher.join();
  EXPECT_EQ(std::memcmp(landing.data(), copy.data(), sizeBytes), 0);
}

/// Pieces through few chunks, as a DeviceProxy sends them: each chunk is poisoned once it is free.
TEST_P(Contract, ASourceMayBeOverwrittenOnceItsPutIsCounted) {
  ConnectedRanks world(GetParam(), 2);
  constexpr size_t numPieces = 40, pieceBytes = 128 << 10, numChunks = 4;
  Landing landing(numPieces * pieceBytes, 2);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
  std::vector<std::byte> data = makeData(numPieces * pieceBytes, 6), chunks(numChunks * pieceBytes);
  std::array<uint64_t, numPieces> begun = {};
  const Path path = {1, 3};
  for (size_t piece = 0; piece < numPieces; ++piece) {
    auto chunk = std::span(chunks).subspan(piece % numChunks * pieceBytes, pieceBytes);
    if (piece >= numChunks)
      ASSERT_TRUE(world.runUntil([&] { return world[0].countPuts(path).numFlushed >= begun[piece - numChunks]; }));
    std::ranges::fill(chunk, std::byte(0xee));
    std::ranges::copy(std::span(data).subspan(piece * pieceBytes, pieceBytes), chunk.begin());
    ASSERT_TRUE(world[0].put(path, {1, 0, piece * pieceBytes}, chunk.data(), pieceBytes).isOk());
    begun[piece] = world[0].countPuts(path).numBegun;
    if (piece % 7 == 0)
      ASSERT_TRUE(world[0].signal(path, {1, 0, piece / 7 + 1}).isOk());
  }
  ASSERT_TRUE(world[0].signal(path, {1, 0, numPieces}).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(3, 0, 0).hasReached(numPieces); }));
  EXPECT_EQ(std::memcmp(landing.data(), data.data(), data.size()), 0);
  EXPECT_TRUE(world.runUntil([&] { return world[0].countPuts(path).numFlushed >= begun.back(); }));
}

TEST_P(Contract, ASignalFollowsAPutThatIsOnItsWayAlready) {
  ConnectedRanks world(GetParam(), 2);
  std::vector<std::byte> data = makeData(32 << 20, 7);
  Landing landing(data.size(), 2);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[0].put({1, 1}, {1, 0, 0}, data.data(), data.size()).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.data()[0] == data[0]; }));
  ASSERT_TRUE(world[0].signal({1, 1}, {1, 0, 1}).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(1, 0, 0).hasReached(1); }));
  EXPECT_EQ(std::memcmp(landing.data(), data.data(), data.size()), 0);
}

TEST_P(Contract, BothSidesMayFlushLargePutsAtOnce) {
  ConnectedRanks world(GetParam(), 2);
  constexpr size_t sizeBytes = 32 << 20;
  Landing landings[2] = {Landing(sizeBytes, 2), Landing(sizeBytes, 2)};
  std::vector<std::byte> data = makeData(sizeBytes, 4);
  auto run = [&](int rank) {
    EXPECT_TRUE(world[rank].registerMemory(landings[rank].registration(1)).isOk());
    EXPECT_TRUE(world[rank].put({1 - rank, 0}, {1, 0, 0}, data.data(), sizeBytes).isOk());
    EXPECT_TRUE(world[rank].signal({1 - rank, 0}, {1, 0, 1}).isOk());
    EXPECT_EQ(world[rank].flush(0).message(), "");
    while (!landings[rank].cell(0, 0, 1 - rank).hasReached(1))
      ASSERT_EQ(world[rank].progress().message(), "");
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  EXPECT_EQ(std::memcmp(landings[0].data(), data.data(), sizeBytes), 0);
  EXPECT_EQ(std::memcmp(landings[1].data(), data.data(), sizeBytes), 0);
}

TEST_P(Contract, EarlySignalsAreCountedWhenTheAgreementIsRegistered) {
  ConnectedRanks world(GetParam(), 2);
  for (uint64_t count = 1; count <= 5; ++count)
    ASSERT_TRUE(world[0].signal({1, 0}, {1, 2, count}).isOk());
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(world[1].progress().isOk());
  Landing landing(16, 2);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 2, 0).hasReached(5); }));
}

TEST_P(Contract, SmallEarlyPutsOfManyPeersArriveOnceTheAgreementIsRegistered) {
  constexpr int numRanks = 8;
  for (bool sleeps : {false, true}) {
    ConnectedRanks world(GetParam(), numRanks);
    std::vector<std::byte> data = makeData(64, 9);
    for (int rank = 1; rank < numRanks; ++rank) {
      ASSERT_TRUE(world[rank].put({0, 0}, {2, 0, 0}, data.data(), data.size()).isOk());
      ASSERT_TRUE(world[rank].signal({0, 0}, {1, 0, 1}).isOk()); // of an agreement of its own
    }
    for (int i = 0; i < 100; ++i) // all of it is in the receiver's memory then
      ASSERT_TRUE(world[0].progress().isOk());
    Landing landing(data.size(), numRanks), cells(16, numRanks);
    ASSERT_TRUE(world[0].registerMemory(cells.registration(1)).isOk());
    ASSERT_TRUE(world[0].registerMemory(landing.registration(2)).isOk());
    std::jthread senders([&] {
      for (int rank = 1; rank < numRanks; ++rank)
        EXPECT_EQ(world[rank].flush(0).message(), "");
    });
    for (int rank = 1; rank < numRanks; ++rank) {
      Cell &cell = cells.cell(0, 0, rank);
      for (Clock::time_point end = Clock::now() + std::chrono::seconds(10); !cell.hasReached(1) && Clock::now() < end;)
        ASSERT_TRUE((sleeps ? world[0].idle(cell, 1, end) : world[0].progress()).isOk());
      EXPECT_TRUE(cell.hasReached(1));
    }
    EXPECT_EQ(std::memcmp(landing.data(), data.data(), data.size()), 0);
  }
}

TEST_P(Contract, EarlyPutsWaitAndTheirReceiverSleepsMeanwhile) {
  ConnectedRanks world(GetParam(), 2);
  std::vector<std::byte> data = makeData(100'000, 9);
  ASSERT_TRUE(world[0].put({1, 0}, {2, 0, 0}, data.data(), data.size()).isOk());
  ASSERT_TRUE(world[0].signal({1, 0}, {2, 0, 1}).isOk());
  const Counter none = {};
  Clock::time_point start = Clock::now();
  rusage before = {}, after = {};
  getrusage(RUSAGE_THREAD, &before);
  while (Clock::now() < start + std::chrono::milliseconds(200))
    ASSERT_TRUE(world[1].idle(none, 1, start + std::chrono::milliseconds(200)).isOk());
  getrusage(RUSAGE_THREAD, &after);
  EXPECT_LT(after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec - before.ru_stime.tv_usec +
                1'000'000 *
                    (after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec - before.ru_stime.tv_sec),
            100'000);
  Landing landing(data.size(), 2);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(2)).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 0).hasReached(1); }));
  EXPECT_EQ(std::memcmp(landing.data(), data.data(), data.size()), 0);
}

TEST_P(Contract, MoreEarlySignalsThanAreKeptAreNotLost) {
  constexpr uint32_t many = 3000;
  ConnectedRanks world(GetParam(), 2);
  for (uint32_t semaphore = 0; semaphore < many; ++semaphore)
    ASSERT_TRUE(world[0].signal({1, 0}, {1, semaphore, 1}).isOk());
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(world[1].progress().isOk());
  std::vector<Cell> cells(2 * many);
  Registration registration{1, {}, {true, true}, cells.data(), 1, many};
  ASSERT_TRUE(world[1].registerMemory(registration).isOk());
  ASSERT_TRUE(world.runUntil(
      [&] { return std::ranges::count_if(cells, [](const Cell &cell) { return cell.hasReached(1); }) == many; }));
}

TEST_P(Contract, EverySleeperWakesAlthoughAnotherThreadReceives) {
  constexpr uint64_t rounds = 300;
  ConnectedRanks world(GetParam(), 2);
  Landing landing(16, 2);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
  std::atomic<uint64_t> numSeen = 0;
  auto sleep = [&](uint32_t lane) {
    for (uint64_t round = 1; round <= rounds; ++round) {
      Cell &cell = landing.cell(lane, 0, 0);
      while (!cell.hasReached(round))
        ASSERT_TRUE(world[1].idle(cell, round, Clock::now() + std::chrono::seconds(15)).isOk());
      ++numSeen;
    }
  };
  Clock::time_point start = Clock::now();
  std::vector<std::thread> sleepers;
  for (uint32_t lane = 0; lane < 3; ++lane)
    sleepers.emplace_back(sleep, lane);
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (uint32_t lane = 0; lane < 3; ++lane)
      ASSERT_TRUE(world[0].signal({1, lane}, {1, 0, round}).isOk());
    while (numSeen < 3 * round) {
      ASSERT_TRUE(world[0].progress().isOk());
      std::this_thread::yield();
    }
  }
  for (std::thread &sleeper : sleepers)
    sleeper.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(14)); // one lost wake-up takes 15 s
}

TEST_P(Contract, LanesOfDifferentThreadsTalkAtTheSameTime) {
  constexpr uint64_t rounds = 200;
  constexpr size_t sizeBytes = 3000;
  ConnectedRanks world(GetParam(), 2);
  Landing landings[2] = {Landing(4 * sizeBytes, 2), Landing(4 * sizeBytes, 2)};
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_TRUE(world[rank].registerMemory(landings[rank].registration(1)).isOk());
  std::atomic<int> numWrong = 0;
  auto run = [&](int rank, uint32_t lane) {
    std::vector<std::byte> data(sizeBytes);
    Cell &cell = landings[rank].cell(lane, 1, 1 - rank);
    for (uint64_t round = 1; round <= rounds; ++round) {
      std::ranges::fill(data, static_cast<std::byte>(round + 10 * lane + static_cast<uint64_t>(rank)));
      bool isOk = world[rank].put({1 - rank, lane}, {1, 0, lane * sizeBytes}, data.data(), sizeBytes).isOk() &&
                  world[rank].signal({1 - rank, lane}, {1, 1, round}).isOk() && world[rank].flush(lane).isOk();
      while (isOk && !cell.hasReached(round))
        isOk = world[rank].idle(cell, round, Clock::now() + std::chrono::milliseconds(50)).isOk();
      auto expected = static_cast<std::byte>(round + 10 * lane + static_cast<uint64_t>(1 - rank));
      std::byte *got = landings[rank].data() + lane * sizeBytes;
      numWrong += !isOk || got[0] != expected || std::memcmp(got, got + 1, sizeBytes - 1) != 0;
      // The peer's next put may come once this rank has said that it has read this one.
      isOk = world[rank].signal({1 - rank, lane}, {1, 2, round}).isOk();
      Cell &credit = landings[rank].cell(lane, 2, 1 - rank);
      while (isOk && !credit.hasReached(round))
        isOk = world[rank].idle(credit, round, Clock::now() + std::chrono::milliseconds(50)).isOk();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    for (uint32_t lane = 0; lane < 4; ++lane)
      threads.emplace_back(run, rank, lane);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(numWrong, 0);
}

TEST_P(Contract, WhatDoesNotFitIsStoredNowhereAndEndsTheConnectionOfItsSenderAlone) {
  struct Case {
    const char *name, *message;
    RemotePlace place;
    uint64_t sizeBytes;
    RemoteSignal signal;
    uint32_t lane = 0;
  };
  constexpr uint64_t huge = uint64_t(1) << 63;
  const Case cases[] = {
      {"end", "65 bytes at offset 0", {1, 0, 0}, 65, {1, 0, 1}},
      {"offset", "1 bytes at offset 64", {1, 0, 64}, 1, {1, 0, 1}},
      {"overflow", "offset 9223372036854775808", {1, 0, huge}, 8, {1, 0, 1}},
      {"wrap", "offset 18446744073709551615", {1, 0, UINT64_MAX}, 2, {1, 0, 1}},
      {"agreement", "agreement 77", {77, 0, 0}, 8, {77, 0, 1}},
      {"role", "role 1", {1, 1, 0}, 8, {1, 0, 1}},
      {"large role", "role 4294967295", {1, UINT32_MAX, 0}, 8, {1, 0, 1}},
      {"semaphore", "semaphore 4", {1, 0, 0}, 8, {1, 4, 1}},
      {"lane", "lane 5", {1, 0, 0}, 8, {1, 0, 1}, 5},
      {"large semaphore", "semaphore 4294967295", {}, 0, {1, UINT32_MAX, 1}},
      {"agreement of a signal", "agreement 99", {}, 0, {99, 0, 1}},
  };
  for (const Case &each : cases) {
    ConnectedRanks world(GetParam(), 3);
    Landing landing(64, 3);
    ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
    std::vector<std::byte> data = makeData(128, 6);
    ASSERT_TRUE(world[1].put({0, each.lane}, each.place, data.data(), each.sizeBytes).isOk());
    ASSERT_TRUE(world[1].signal({0, each.lane}, each.signal).isOk());
    EXPECT_EQ(expectStatus(world.failureOf(0), StatusCode::Mismatch, 1, each.message), "") << each.name;
    bool putFits = each.place.agreement == 1 && each.sizeBytes > 0 && each.signal.agreement == 1 &&
                   (each.lane > 3 || each.signal.semaphore > 3);
    EXPECT_TRUE(landing.isUntouched() || (GetParam().isOneSided && putFits)) << each.name;
    EXPECT_FALSE(landing.cell(0, 0, 1).hasReached(1)) << each.name;
    EXPECT_EQ(expectStatus(world.failureOf(1), StatusCode::PeerLost, 0, "rank 0"), "") << each.name;
    EXPECT_EQ(world[0].stateOf(1).code(), StatusCode::Mismatch);
    EXPECT_TRUE(world[0].stateOf(2).isOk());
    ASSERT_TRUE(world[2].put({0, 0}, {1, 0, 0}, data.data(), 64).isOk());
    ASSERT_TRUE(world[2].signal({0, 0}, {1, 0, 1}).isOk());
    ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 2).hasReached(1); }));
    EXPECT_EQ(std::memcmp(landing.data(), data.data(), 64), 0);
  }
}

TEST_P(Contract, OnlyTheSendersOfARegistrationMayWrite) {
  ConnectedRanks world(GetParam(), 3);
  Landing landing(64, 3);
  Registration registration = landing.registration(1);
  registration.senders = {false, false, true};
  ASSERT_TRUE(world[0].registerMemory(registration).isOk());
  std::vector<std::byte> data = makeData(64, 6);
  ASSERT_TRUE(world[1].put({0, 0}, {1, 0, 0}, data.data(), 64).isOk());
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 1}).isOk());
  EXPECT_EQ(expectStatus(world.failureOf(0), StatusCode::Mismatch, 1, "has no part"), "");
  EXPECT_TRUE(landing.isUntouched());
}

/// Cells of some ranks alone, in an agreement with others between them.
TEST_P(Contract, ASenderRaisesItsOwnCellWhereFewHaveSome) {
  ConnectedRanks world(GetParam(), 5);
  Landing landing(16, 2);
  Registration few = landing.registration(1);
  few.regions.clear();
  few.senders = {false, true, false, false, true};
  few.cellOwners = {1, 4};
  ASSERT_EQ(world[0].registerMemory(few).message(), "");
  for (uint32_t lane : {0, 3})
    for (uint32_t semaphore : {0, 2})
      for (int sender : few.cellOwners) {
        const uint64_t count = 10 * lane + 3 * semaphore + static_cast<uint64_t>(sender);
        ASSERT_TRUE(world[sender].signal({0, lane}, {1, semaphore, count}).isOk());
        Cell &cell = landing.cell(lane, semaphore, sender == 4 ? 1 : 0);
        ASSERT_TRUE(world.runUntil([&] { return cell.hasReached(count); })) << sender;
        EXPECT_FALSE(cell.hasReached(count + 1));
      }
  ASSERT_TRUE(world[3].signal({0, 0}, {1, 0, 1}).isOk());
  EXPECT_EQ(world.failureOf(0).code(), StatusCode::Mismatch);
}

TEST_P(Contract, CountsOnlyGrow) {
  ConnectedRanks world(GetParam(), 2);
  Landing landing(64, 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 2}).isOk());
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 2}).isOk());
  EXPECT_EQ(expectStatus(world.failureOf(0), StatusCode::Mismatch, 1, "not a larger count"), "");
  EXPECT_TRUE(landing.cell(0, 0, 1).hasReached(2));
}

TEST_P(Contract, NothingIsWrittenAfterTheRelease) {
  ConnectedRanks world(GetParam(), 2);
  std::vector<std::byte> data = makeData(8 << 20, 6);
  Landing landing(data.size(), 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  world[0].release(1);
  ASSERT_TRUE(world[1].put({0, 0}, {1, 0, 0}, data.data(), data.size()).isOk());
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 1}).isOk());
  EXPECT_EQ(expectStatus(world.failureOf(0), StatusCode::Mismatch, 1, "agreement 1, which this rank does not have"),
            "");
  EXPECT_TRUE(landing.isUntouched());
}

TEST_P(Contract, AReleaseInTheMiddleOfAPutEndsItsConnection) {
  if (GetParam().isOneSided)
    GTEST_SKIP() << "the receiver does not see puts; FabricTest.cpp shows that the memory is not written";
  ConnectedRanks world(GetParam(), 2);
  std::vector<std::byte> data = makeData(64 << 20, 6);
  Landing landing(data.size(), 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[1].put({0, 0}, {1, 0, 0}, data.data(), data.size()).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.data()[0] == data[0]; }));
  world[0].release(1);
  EXPECT_EQ(expectStatus(world[0].progress(), StatusCode::Mismatch, 1, "still puts data of agreement 1"), "");
  std::vector<std::byte> before(landing.data(), landing.data() + data.size());
  for (int i = 0; i < 100; ++i)
    (void)world[0].progress(), (void)world[1].progress();
  EXPECT_EQ(std::memcmp(before.data(), landing.data(), before.size()), 0);
}

TEST_P(Contract, WhatCanNeverWorkIsRefusedAtOnce) {
  ConnectedRanks world(GetParam(), 2);
  std::byte byte{};
  for (int peer : {-1, 0, 2})
    EXPECT_EQ(world[0].put({peer, 0}, {1, 0, 0}, &byte, 1).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(world[0].signal({1, 0}, {1, 0, 0}).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(world[0].signal({1, 0}, {1, 0, endOfCounts}).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(world[0].put({1, 0}, {1, 0, 0}, &byte, maxPutBytes + 1).code(), StatusCode::InvalidArgument);
  Landing landing(16, 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(3)).isOk());
  EXPECT_EQ(world[0].registerMemory(landing.registration(3)).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(world[0].registerMemory(landing.registration(2)).code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(world[0].progress().isOk());
}

} // namespace
} // namespace kolo::test
