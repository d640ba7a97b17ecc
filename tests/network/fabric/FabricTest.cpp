// What is peculiar to the transport by libfabric.
#include "FabricSupport.h"

#include "network/fabric/Arrivals.h"
#include "network/fabric/ControlMessage.h"
#include "network/fabric/Providers.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

namespace kolo::test {
namespace {

using namespace fabric;

TEST(Arrivals, ASignalIsDueWhenItsIntervalAndAllEarlierOnesAreComplete) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    struct Step {
      bool isSignal;
      uint64_t interval;
    };
    constexpr uint64_t numIntervals = 40;
    std::vector<Step> steps;
    std::vector<uint64_t> numPuts(numIntervals), numArrived(numIntervals);
    for (uint64_t interval = 0; interval < numIntervals; ++interval) {
      numPuts[interval] = random() % 4;
      steps.insert(steps.end(), numPuts[interval], {false, interval});
      steps.push_back({true, interval});
    }
    std::ranges::shuffle(steps, random); // all at once: fewer than mostOpenIntervals
    uint64_t numRaised = 0;
    Arrivals arrivals;
    auto raise = [&](uint32_t lane, const RemoteSignal &signal) {
      EXPECT_EQ(lane, 5U);
      EXPECT_EQ(signal.count, ++numRaised);
      for (uint64_t interval = 0; interval < signal.count; ++interval)
        EXPECT_EQ(numArrived[interval], numPuts[interval]);
    };
    for (const Step &step : steps)
      if (step.isSignal) {
        arrivals.noteSignal({5, step.interval, numPuts[step.interval], {1, 0, step.interval + 1}}, raise);
      } else {
        ++numArrived[step.interval];
        arrivals.notePut(markOf(3, 5, step.interval), raise);
      }
    EXPECT_EQ(numRaised, numIntervals);
  }
}

TEST(Arrivals, IntervalsGoOnBeyondTheirEightBits) {
  Arrivals arrivals;
  uint64_t numRaised = 0;
  auto raise = [&](uint32_t, const RemoteSignal &signal) { EXPECT_EQ(signal.count, ++numRaised); };
  for (uint64_t interval = 0; interval < 1000; ++interval) {
    arrivals.noteSignal({0, interval, 1, {1, 0, interval + 1}}, raise);
    if (interval >= mostOpenIntervals - 1)
      arrivals.notePut(markOf(0, 0, interval - (mostOpenIntervals - 1)), raise);
  }
  EXPECT_EQ(numRaised, 1000 - (mostOpenIntervals - 1));
}

ControlMessage sample(ControlKind kind) {
  ControlMessage message;
  message.kind = kind;
  message.provider = "cxi";
  message.order = SignalOrder::Counted;
  message.address = makeData(28, 1);
  message.agreement = 77;
  message.registered = {{{1, 2, 3}, {}, {7, UINT64_MAX, 9}}, {4, 5, 6}, 4, 12, 5, 6, true};
  message.device = {7, 3, 12, "stand-in"};
  message.question = {true, true, 3, {}, 0, {9, 4, 11}};
  message.lastCounts = {{2, {5, 6, 7}}, {UINT32_MAX, {8, 9, 1}}};
  message.isLast = true;
  message.testKey = 13;
  message.testAddress = UINT64_MAX - 1;
  message.reason = "it did not arrive";
  return message;
}

TEST(FabricControlMessage, IsReadAsItWasWritten) {
  Result<ControlMessage> address = parseControlMessage(write(sample(ControlKind::Address)));
  ASSERT_TRUE(address.isOk());
  EXPECT_EQ(address->provider, "cxi");
  EXPECT_EQ(address->order, SignalOrder::Counted);
  EXPECT_EQ(address->address, makeData(28, 1));
  EXPECT_EQ(address->device, sample(ControlKind::Address).device);
  EXPECT_EQ(address->testKey, 13U);
  EXPECT_EQ(address->testAddress, UINT64_MAX - 1);
  Result<ControlMessage> registered = parseControlMessage(write(sample(ControlKind::Registered)));
  ASSERT_TRUE(registered.isOk());
  EXPECT_EQ(registered->agreement, 77U);
  ASSERT_EQ(registered->registered.regions.size(), 3U);
  EXPECT_EQ(registered->registered.regions[2].address, UINT64_MAX);
  EXPECT_EQ(registered->registered.cells.key, 4U);
  EXPECT_EQ(registered->registered.numSemaphores, 12U);
  EXPECT_EQ(registered->registered.place, 5U);
  EXPECT_EQ(registered->registered.numPlaces, 6U);
  EXPECT_TRUE(registered->registered.isBySender);
  EXPECT_FALSE(registered->registered.isRaisedThere);
  ControlMessage raised = sample(ControlKind::Registered);
  raised.registered.isBySender = false;
  raised.registered.isRaisedThere = true;
  registered = parseControlMessage(write(raised));
  EXPECT_FALSE(registered->registered.isBySender);
  EXPECT_TRUE(registered->registered.isRaisedThere);
  Result<ControlMessage> question = parseControlMessage(write(sample(ControlKind::Question)));
  ASSERT_TRUE(question.isOk());
  EXPECT_TRUE(question->question.isOld);
  EXPECT_EQ(question->question.signal.semaphore, 4U);
  EXPECT_EQ(question->question.signal.count, 11U);
  EXPECT_EQ(parseControlMessage(write(sample(ControlKind::Released)))->agreement, 77U);
  EXPECT_TRUE(parseControlMessage(write(sample(ControlKind::Ready))).isOk());
  EXPECT_TRUE(parseControlMessage(write(sample(ControlKind::Farewell))).isOk());
  EXPECT_EQ(parseControlMessage(write(sample(ControlKind::Passed)))->kind, ControlKind::Passed);
  Result<ControlMessage> leaving = parseControlMessage(write(sample(ControlKind::Leaving)));
  ASSERT_TRUE(leaving.isOk());
  EXPECT_TRUE(leaving->isLast);
  ASSERT_EQ(leaving->lastCounts.size(), 2U);
  EXPECT_EQ(leaving->lastCounts[1].lane, UINT32_MAX);
  EXPECT_EQ(leaving->lastCounts[0].signal.agreement, 5U);
  EXPECT_EQ(leaving->lastCounts[0].signal.semaphore, 6U);
  EXPECT_EQ(leaving->lastCounts[0].signal.count, 7U);
  EXPECT_EQ(parseControlMessage(write(sample(ControlKind::Failed)))->reason, "it did not arrive");
  ControlMessage longer = sample(ControlKind::Failed);
  longer.reason.assign(2 * maxReasonBytes, 'x');
  EXPECT_EQ(parseControlMessage(write(longer))->reason, std::string(maxReasonBytes, 'x'));
}

TEST(FabricControlMessage, WhatNobodyWritesIsRefusedWhateverItsLength) {
  std::mt19937 random(8);
  for (ControlKind kind :
       {ControlKind::Address, ControlKind::Ready, ControlKind::Registered, ControlKind::Released, ControlKind::Question,
        ControlKind::Leaving, ControlKind::Farewell, ControlKind::Passed, ControlKind::Failed}) {
    std::vector<std::byte> bytes = write(sample(kind));
    for (size_t length = 0; length < bytes.size(); ++length) {
      bool mayEnd =
          kind == ControlKind::Address && length > 8 + 16 + 32 + 64 + 16; // its address is as long as the message says
      EXPECT_EQ(parseControlMessage(std::span(bytes).first(length)).isOk(), mayEnd) << length;
    }
    for (int i = 0; i < 2000; ++i) { // never reads beyond its bytes: the sanitizers see that
      std::vector<std::byte> other = bytes;
      for (int change = 0; change < 3; ++change)
        other[random() % other.size()] = static_cast<std::byte>(random());
      (void)parseControlMessage(other);
    }
  }
  std::vector<std::byte> many = write(sample(ControlKind::Registered));
  many[8 + 8 + 3] = std::byte(0x80); // 2^31 regions
  EXPECT_FALSE(parseControlMessage(many).isOk());
  ControlMessage behind = sample(ControlKind::Registered);
  behind.registered.place = behind.registered.numPlaces;
  EXPECT_FALSE(parseControlMessage(write(behind)).isOk());
}

TEST(Providers, WithoutRulesARefusalNamesTheProvider) {
  Result<const Library *> library = Library::open();
  ASSERT_TRUE(library.isOk()) << library.status().message();
  EXPECT_EQ(expectStatus(rulesFor(**library, "sockets").status(), StatusCode::InvalidArgument, -1,
                         "KOLO_NETWORK=sockets: libfabric has this provider, but Kolo has no rules for it; it has "
                         "rules for cxi, verbs, efa, tcp;ofi_rxm"),
            "");
  EXPECT_EQ(expectStatus(rulesFor(**library, "quantum").status(), StatusCode::InvalidArgument, -1,
                         "KOLO_NETWORK=quantum: this is neither auto, nor tcp, nor a provider that Kolo has rules for"),
            "");
  EXPECT_EQ(expectStatus(findProvider(**library, *findProviderRules("cxi"), {}).status(), StatusCode::SystemError, -1,
                         "KOLO_NETWORK=cxi: libfabric.so.1 finds no such provider on this host"),
            "");
}

TEST(Providers, AnAddressChoosesTheDeviceWhereTheRulesSaySo) {
  Result<const Library *> library = Library::open();
  ASSERT_TRUE(library.isOk()) << library.status().message();
  Result<Info> info = findProvider(**library, rulesOf("tcp;ofi_rxm"), {"127.0.0.2"});
  ASSERT_TRUE(info.isOk()) << info.status().message();
  ASSERT_NE((*info)->src_addr, nullptr);
  sockaddr_in expected = {};
  inet_pton(AF_INET, "127.0.0.2", &expected.sin_addr);
  EXPECT_EQ(static_cast<const sockaddr_in *>((*info)->src_addr)->sin_addr.s_addr, expected.sin_addr.s_addr);
}

TEST(FabricTransport, MemoryOfAFailedCallIsNotWrittenByAPutThatHadBegun) {
  static std::atomic<bool> hasFailed = false;
  FabricKind kind{rulesOf("tcp;ofi_rxm")};
  kind.mustStop = [] { return hasFailed.load(); };
  ConnectedRanks world(fabricKind("stops", kind), 2);
  std::vector<std::byte> data = makeData(64 << 20, 6);
  Landing landing(data.size(), 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[1].put({0, 0}, {1, 0, 0}, data.data(), data.size()).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.data()[0] == data[0]; }));
  hasFailed = true;
  world[0].release(1);
  EXPECT_EQ(expectStatus(world[0].put({1, 0}, {1, 0, 0}, data.data(), 8), StatusCode::Aborted, -1, "closed provider"),
            "");
  EXPECT_EQ(world[0].signal({1, 0}, {1, 0, 1}).code(), StatusCode::Aborted);
  std::vector<std::byte> before(landing.data(), landing.data() + data.size());
  ASSERT_NE(std::memcmp(before.data(), data.data(), data.size()), 0) << "the put was over before the release";
  for (int i = 0; i < 100; ++i)
    (void)world[0].progress(), (void)world[1].progress();
  EXPECT_EQ(std::memcmp(before.data(), landing.data(), before.size()), 0);
  EXPECT_EQ(world[0].registerMemory(landing.registration(2)).code(), StatusCode::Aborted);
}

TEST(FabricTransport, AFailedWriteToAPeerThatHasLeftEndsNothing) {
  for (bool usesStandIn : {false, true}) {
    FabricKind kind{rulesOf(usesStandIn ? "cxi" : "tcp;ofi_rxm"), usesStandIn};
    ConnectedRanks world(fabricKind("leaves", kind), 3, 2000);
    std::vector<std::byte> data = makeData(20 << 20, 2);
    Landing own(64, 3), left(data.size(), 3), other(data.size(), 3);
    ASSERT_TRUE(world[0].registerMemory(own.registration(1)).isOk());
    ASSERT_TRUE(world[1].registerMemory(left.registration(1)).isOk());
    ASSERT_TRUE(world[2].registerMemory(other.registration(1)).isOk());
    ASSERT_TRUE(world[0].put({1, 0}, {1, 0, 0}, data.data(), data.size()).isOk());
    ASSERT_TRUE(world.runUntil([&] { return left.data()[0] == data[0]; }));
    world.leave(1); // nobody answers: it goes after the timeout, in the middle of the put
    while (world[0].stateOf(1).isOk())
      ASSERT_EQ(world[0].progress().message(), "");
    for (Clock::time_point end = Clock::now() + std::chrono::milliseconds(400); Clock::now() < end;)
      ASSERT_EQ(world[0].progress().message(), "");
    world[0].release(1);
    ASSERT_EQ(world[0].put({2, 0}, {1, 0, 0}, data.data(), 1000).message(), "");
    ASSERT_EQ(world[0].signal({2, 0}, {1, 0, 1}).message(), "");
    Clock::time_point end = Clock::now() + std::chrono::seconds(20);
    while (!other.cell(0, 0, 0).hasReached(1) && Clock::now() < end)
      (void)world[0].progress(), (void)world[2].progress();
    EXPECT_EQ(std::memcmp(other.data(), data.data(), 1000), 0);
  }
}

TEST(FabricTransport, AFlushGoesOnWhileAPeerThatLeavesTakesItsData) {
  ConnectedRanks world(fabricKind("leaves", {rulesOf("tcp;ofi_rxm")}), 2);
  std::vector<std::byte> data = makeData(64 << 20, 4);
  Landing landing(data.size(), 2);
  ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
  ASSERT_EQ(world[0].put({1, 0}, {1, 0, 0}, data.data(), data.size()).message(), "");
  ASSERT_EQ(world[0].signal({1, 0}, {1, 0, 1}).message(), "");
  ASSERT_TRUE(world.runUntil([&] { return landing.data()[0] == data[0]; }));
  std::thread leaver([&] { world.leave(1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200)); // its message comes before the put is complete
  EXPECT_EQ(world[0].flush(0).message(), "");
  leaver.join();
}

TEST(FabricModule, SaysWhichProvidersOfAutoAreHere) {
  const FabricModule &module = *koloFabricModule();
  EXPECT_EQ(module.version, fabricModuleVersion);
  setenv("KOLO_LIBFABRIC", STAND_IN, 1);
  EXPECT_EQ(*module.present(), 7U);
  setenv("STAND_IN_WITHOUT", "cxi verbs;ofi_rxm", 1);
  EXPECT_EQ(*module.present(), 4U);
  EXPECT_EQ(expectStatus(module.check("cxi", ""), StatusCode::SystemError, -1, "finds no such provider"), "");
  unsetenv("STAND_IN_WITHOUT");
  EXPECT_EQ(module.check("efa", "").message(), "");
  setenv("KOLO_LIBFABRIC", "/nowhere.so", 1);
  EXPECT_EQ(expectStatus(module.present().status(), StatusCode::SystemError, -1, "cannot open libfabric"), "");
  unsetenv("KOLO_LIBFABRIC");
}

} // namespace
} // namespace kolo::test
