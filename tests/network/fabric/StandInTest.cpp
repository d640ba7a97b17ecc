// The rules for hardware, on a stand-in for libfabric that is stricter than it: each rule is needed, and all together
// are enough.
#include "standin/StandIn.h"
#include "FabricSupport.h"

#include "network/fabric/Library.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace kolo::test {
namespace {

using namespace fabric;

constexpr uint64_t kibibyte = 1024, smallLimit = 64 * kibibyte;

/// Memory that nobody has touched yet.
class FreshMemory {
public:
  explicit FreshMemory(size_t numBytes)
      : sizeBytes(numBytes), memory(static_cast<std::byte *>(mmap(nullptr, numBytes, PROT_READ | PROT_WRITE,
                                                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~FreshMemory() { munmap(memory, sizeBytes); }
  FreshMemory(const FreshMemory &) = delete;
  FreshMemory &operator=(const FreshMemory &) = delete;
  std::byte *data() { return memory; }

private:
  size_t sizeBytes;
  std::byte *memory;
};

/// Two connected ranks, and what they find wrong.
class Exercise {
public:
  Exercise(const FabricKind &kind, int mostMs) : patienceMs(mostMs) {
    control().numSlowKeys = control().numClosedInUse = 0;
    Kind made = fabricKind("exercise", kind);
    std::vector<Endpoint> endpoints;
    for (int rank = 0; rank < 2; ++rank) {
      Result<std::unique_ptr<Transport>> one = made.make({rank, 2, patienceMs});
      ranks.push_back(std::move(one).value());
      endpoints.push_back(ranks.back()->endpoint());
    }
    std::vector<Status> statuses(2);
    std::thread other([&] { statuses[1] = ranks[1]->connect(endpoints); });
    statuses[0] = ranks[0]->connect(endpoints);
    other.join();
    for (const Status &status : statuses)
      wrong += status.message(); // the first to fail ends the other's connections
  }

  /// "" if all went well.
  std::string run() {
    for (auto step :
         {&Exercise::putFromUsersMemory, &Exercise::putMoreThanTheLimit, &Exercise::putOften, &Exercise::registerOften})
      if (wrong.empty())
        (this->*step)();
    ranks.clear();
    if (wrong.empty() && control().numRegions != 0)
      wrong = "memory is still registered";
    if (wrong.empty() && control().numClosedInUse != 0)
      wrong = "something was closed that was in use";
    if (wrong.empty() && control().numSlowKeys != 0)
      wrong = "a key was chosen that costs more";
    return wrong;
  }

private:
  void note(const Status &status) {
    if (wrong.empty() && !status.isOk())
      wrong = status.message();
  }

  /// Both ranks make progress until the cell has the count.
  void await(Cell &cell, uint64_t count) {
    for (Clock::time_point end = Clock::now() + std::chrono::milliseconds(patienceMs);
         wrong.empty() && !cell.hasReached(count);) {
      note(ranks[0]->progress());
      note(ranks[1]->progress());
      if (Clock::now() > end)
        wrong = "a signal did not come";
    }
  }

  void flush() {
    std::atomic<bool> isDone = false;
    std::thread other([&] {
      while (!isDone)
        (void)ranks[1]->progress();
    });
    note(ranks[0]->flush(0));
    isDone = true;
    other.join();
  }

  void compare(const std::byte *found, const std::vector<std::byte> &expected, const char *what) {
    if (wrong.empty() && std::memcmp(found, expected.data(), expected.size()) != 0)
      wrong = std::string(what) + " had not arrived when the signal came";
  }

  /// From and to memory that was not registered before, and sources that are used again after the flush.
  void putFromUsersMemory() {
    FreshMemory target(100 * kibibyte);
    std::vector<Cell> cells(2);
    note(ranks[1]->registerMemory({1, {{target.data(), 100 * kibibyte}}, {true, true}, cells.data(), 1, 1}));
    for (uint64_t count = 1; count <= 5 && wrong.empty(); ++count) {
      std::vector<std::byte> data = makeData(20'000 * count, static_cast<unsigned>(count)), kept = data;
      note(ranks[0]->put({1, 0}, {1, 0, 0}, data.data(), data.size()));
      note(ranks[0]->signal({1, 0}, {1, 0, count}));
      flush();
      std::ranges::fill(data, std::byte(0));
      await(cells[0], count);
      compare(target.data(), kept, "a put from memory that is used again");
    }
    ranks[1]->release(1);
  }

  void putMoreThanTheLimit() {
    control().maxMessageBytes = smallLimit;
    std::vector<std::byte> target(5 * smallLimit + 3), data = makeData(target.size(), 3);
    std::vector<Cell> cells(2);
    note(ranks[1]->registerMemory({2, {{target.data(), target.size()}}, {true, true}, cells.data(), 1, 1}));
    note(ranks[0]->put({1, 0}, {2, 0, 0}, data.data(), data.size()));
    note(ranks[0]->signal({1, 0}, {2, 0, 1}));
    await(cells[0], 1);
    compare(target.data(), data, "a large put");
    ranks[1]->release(2);
    control().maxMessageBytes = 0;
  }

  /// More signals than are under way at a time, while the receiver does nothing.
  void putOften() {
    constexpr uint64_t many = 700, each = 16;
    std::vector<std::byte> target(many * each), data = makeData(target.size(), 4);
    std::vector<Cell> cells(2);
    note(ranks[1]->registerMemory({3, {{target.data(), target.size()}}, {true, true}, cells.data(), 1, 1}));
    for (uint64_t i = 0; i < many && wrong.empty(); ++i) {
      note(ranks[0]->put({1, 0}, {3, 0, i * each}, data.data() + i * each, each));
      note(ranks[0]->signal({1, 0}, {3, 0, i + 1}));
      note(ranks[0]->progress());
    }
    for (uint64_t i = 0; i < many && wrong.empty(); ++i) {
      await(cells[0], i + 1);
      if (wrong.empty() && std::memcmp(target.data() + i * each, data.data() + i * each, each) != 0)
        wrong = "a small put had not arrived when the signal came";
    }
    ranks[1]->release(3);
  }

  void registerOften() {
    std::byte memory[64] = {};
    std::vector<Cell> cells(2);
    for (uint64_t number = 10; number < 200 && wrong.empty(); ++number) {
      note(ranks[1]->registerMemory({number, {{memory, 64}}, {true, true}, cells.data(), 1, 1}));
      ranks[1]->release(number);
    }
  }

  const int patienceMs;
  std::vector<std::unique_ptr<Transport>> ranks;
  std::string wrong;
};

ProviderRules smallRules(std::string_view name) {
  ProviderRules rules = rulesOf(name);
  rules.maxPutBytes = smallLimit; // stands for the real limit
  return rules;
}

/// Rank 0 writes first, and takes the other's address late.
std::string exercise(const ProviderRules &rules, int patienceMs) {
  FabricKind kind{rules, true};
  kind.seeControlMessage = [](int, int receiver, ControlKind message) {
    if (receiver == 0 && message == ControlKind::Address)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  return Exercise(kind, patienceMs).run();
}
constexpr int longMs = 20'000, briefMs = 500; // where it is to succeed, and where it must fail

TEST(StandIn, TheRulesOfEachProviderAreEnough) {
  for (const char *name : {"cxi", "verbs", "efa"})
    EXPECT_EQ(exercise(smallRules(name), longMs), "") << name;
  ProviderRules acknowledged = smallRules("cxi");
  acknowledged.order = SignalOrder::Acknowledged;
  EXPECT_EQ(exercise(acknowledged, longMs), "");
  acknowledged = smallRules("efa");
  acknowledged.order = SignalOrder::Acknowledged;
  EXPECT_EQ(exercise(acknowledged, longMs), "");
  EXPECT_FALSE(control().wasUsedByTwoThreads);
  EXPECT_GT(control().numDelivered, 0U);
}

TEST(StandIn, EachRuleIsNeeded) {
  struct Mutant {
    const char *provider, *rule;
    void (*change)(ProviderRules &rules);
  };
  const Mutant mutants[] = {
      {"cxi", "the order: it does not carry data with writes", [](auto &rules) { rules.order = SignalOrder::Counted; }},
      {"efa", "the order: it keeps none", [](auto &rules) { rules.order = SignalOrder::Ordered; }},
      {"cxi", "FI_MR_ENDPOINT", [](auto &rules) { rules.memoryModes &= ~uint64_t(FI_MR_ENDPOINT); }},
      {"cxi", "FI_MR_ALLOCATED", [](auto &rules) { rules.memoryModes &= ~uint64_t(FI_MR_ALLOCATED); }},
      {"verbs", "FI_MR_VIRT_ADDR", [](auto &rules) { rules.memoryModes &= ~uint64_t(FI_MR_VIRT_ADDR); }},
      {"verbs", "FI_MR_PROV_KEY", [](auto &rules) { rules.memoryModes &= ~uint64_t(FI_MR_PROV_KEY); }},
      {"verbs", "FI_MR_LOCAL", [](auto &rules) { rules.memoryModes &= ~uint64_t(FI_MR_LOCAL); }},
      {"efa", "FI_MR_ALLOCATED", [](auto &rules) { rules.memoryModes &= ~uint64_t(FI_MR_ALLOCATED); }},
      {"efa", "FI_MR_LOCAL", [](auto &rules) { rules.memoryModes &= ~uint64_t(FI_MR_LOCAL); }},
      {"cxi", "the keys that cost less", [](auto &rules) { rules.keys.numFast = 0; }},
      {"cxi", "the largest put", [](auto &rules) { rules.maxPutBytes = 1 << 30; }},
      {"efa", "no injection", [](auto &rules) { rules.injectBytes = 64; }},
      {"cxi", "progress", [](auto &rules) { rules.progress = FI_PROGRESS_AUTO; }},
      {"cxi", "threads", [](auto &rules) { rules.threads = FI_THREAD_SAFE; }},
      {"cxi", "the completion, of acknowledged puts",
       [](auto &rules) {
         rules.order = SignalOrder::Acknowledged;
         rules.completion = FI_TRANSMIT_COMPLETE;
       }},
      {"efa", "the completion, of counted puts", [](auto &rules) { rules.completion = FI_TRANSMIT_COMPLETE; }},
      {"verbs", "the completion",
       [](auto &rules) {
         rules.order = SignalOrder::Acknowledged;
         rules.completion = FI_DELIVERY_COMPLETE;
       }},
      {"verbs", "the completion of ordered puts", [](auto &rules) { rules.sentCompletion = FI_DELIVERY_COMPLETE; }},
      {"efa", "that the target knows the initiator", [](auto &rules) { rules.targetKnowsInitiator = false; }},
  };
  for (const Mutant &mutant : mutants) {
    ProviderRules rules = smallRules(mutant.provider);
    mutant.change(rules);
    std::string wrong = exercise(rules, briefMs);
    control().maxMessageBytes = 0;
    EXPECT_NE(wrong, "") << mutant.provider << " without " << mutant.rule;
    RecordProperty(std::string(mutant.provider) + " without " + mutant.rule, wrong);
    if (std::getenv("SHOW"))
      printf("%s without %s: %s\n", mutant.provider, mutant.rule, wrong.c_str());
  }
}

TEST(StandIn, EveryKeyThatTheProviderHasIsUsed) {
  ConnectedRanks world(fabricKind("cxi", {rulesOf("cxi"), true}), 2);
  constexpr uint64_t numKeys = 256;
  std::byte memory[64] = {};
  std::vector<Cell> cells(2);
  uint64_t number = 0;
  Status status;
  while (status.isOk() && number < numKeys)
    status = world[0].registerMemory({++number, {{memory, 64}}, {true, true}, cells.data(), 1, 1});
  EXPECT_EQ(expectStatus(status, StatusCode::OutOfMemory, -1, "all 256 keys for memory of this rank are in use"), "");
  EXPECT_EQ(number, numKeys / 2 + 1); // one for the region and one for the cells
  world[0].release(1);
  EXPECT_EQ(world[0].registerMemory({number + 1, {{memory, 64}}, {true, true}, cells.data(), 1, 1}).message(), "");
}

TEST(StandIn, RanksWithDifferentKindsOfDevicesAreRefusedByBoth) {
  for (const char *name : {"cxi", "verbs", "efa"}) {
    control().kindsDiffer = true;
    control().numDelivered = 0;
    ConnectedRanks world(fabricKind(name, {rulesOf(name), true}), 2);
    control().kindsDiffer = false;
    EXPECT_EQ(world[0].signal({1, 0}, {1, 0, 1}).message(), "");
    for (int rank : {1, 0})
      EXPECT_EQ(expectStatus(world.failureOf(rank), StatusCode::Mismatch, 1 - rank,
                             std::string("uses another kind of device of provider ") + name),
                "");
    EXPECT_EQ(control().numDelivered, 0U);
  }
}

TEST(StandIn, AFailedCallEndsItsWritesBeforeItsMemoryIsClosed) {
  static std::atomic<bool> hasFailed = false;
  for (const char *name : {"cxi", "verbs", "efa"}) {
    hasFailed = false;
    control().numClosedInUse = 0;
    std::vector<std::byte> data = makeData(50'000, 3);
    Landing own(data.size(), 2), landing(data.size(), 2);
    FabricKind kind{rulesOf(name), true};
    kind.mustStop = [] { return hasFailed.load(); };
    {
      ConnectedRanks world(fabricKind(name, kind), 2);
      ASSERT_TRUE(world[0].registerMemory(own.registration(1)).isOk());
      ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
      ASSERT_TRUE(world[0].signal({1, 0}, {1, 0, 1}).isOk());
      ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 0).hasReached(1); }));
      ASSERT_TRUE(world[0].put({1, 0}, {1, 0, 0}, own.data(), data.size()).isOk()); // its source is registered
      hasFailed = true;
      world[0].release(1);
      EXPECT_EQ(expectStatus(world[0].put({1, 0}, {1, 0, 0}, own.data(), 8), StatusCode::Aborted, -1, name), "");
    }
    EXPECT_EQ(control().numClosedInUse, 0U) << name;
    EXPECT_EQ(control().numRegions, 0U) << name;
  }
}

TEST(StandIn, ARankThatWaitsSeesThatItsOwnWriteFailed) {
  for (const char *name : {"cxi", "verbs", "efa"}) {
    std::vector<std::byte> data = makeData(1000, 3);
    Landing own(data.size(), 2), landing(data.size(), 2);
    ConnectedRanks world(fabricKind(name, {rulesOf(name), true}), 2);
    ASSERT_TRUE(world[0].registerMemory(own.registration(1)).isOk());
    ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
    ASSERT_TRUE(world[0].signal({1, 0}, {1, 0, 1}).isOk());
    ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 0).hasReached(1); }));
    control().refusesKeys = true;
    std::atomic<bool> isDone = false;
    std::thread peer([&] {
      while (!isDone)
        (void)world[1].progress();
    });
    Clock::time_point start = Clock::now();
    Status status = world[0].put({1, 0}, {1, 0, 0}, data.data(), data.size());
    while (status.isOk() && Clock::now() < start + std::chrono::seconds(10)) // waits for what never comes
      status = world[0].idle(own.cell(0, 0, 1), 1, start + std::chrono::seconds(10));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(2)) << name;
    isDone = true;
    peer.join();
    control().refusesKeys = false;
    EXPECT_EQ(expectStatus(status, StatusCode::SystemError, 1, "rank 0 cannot write to rank 1"), "") << name;
    EXPECT_EQ(expectStatus(world[0].stateOf(1), StatusCode::SystemError, 1, "rank 0 cannot write to rank 1"), "");
  }
}

TEST(StandIn, ARankThatLeavesWaitsForPeersThatAreToHearIt) {
  Landing landing(64, 2);
  ConnectedRanks world(fabricKind("cxi", {rulesOf("cxi"), true}), 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 1}).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 1).hasReached(1); }));
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 2}).isOk());
  ASSERT_EQ(world[1].flush(0).message(), "");
  std::atomic<bool> isGone = false;
  std::thread leaver([&] {
    world.leave(1);
    isGone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(isGone);
  while (!isGone)
    (void)world[0].progress();
  leaver.join();
  EXPECT_TRUE(landing.cell(0, 0, 1).hasReached(2));
}

TEST(StandIn, ARankThatLeavesDoesNotWaitLongForAPeerThatComputes) {
  Landing landing(64, 2);
  ConnectedRanks world(fabricKind("cxi", {rulesOf("cxi"), true}), 2);
  ASSERT_TRUE(world[0].registerMemory(landing.registration(1)).isOk());
  ASSERT_TRUE(world[1].signal({0, 0}, {1, 0, 1}).isOk());
  ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 1).hasReached(1); }));
  Clock::time_point start = Clock::now();
  world.leave(0);
  EXPECT_GT(Clock::now() - start, std::chrono::milliseconds(1900));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(8)); // the timeout is 20 s
}

TEST(StandIn, AFlushSaysThatPutsToAPeerThatLeftWereDropped) {
  for (const char *name : {"cxi", "verbs", "efa"}) {
    std::vector<std::byte> data = makeData(64, 3);
    ConnectedRanks world(fabricKind(name, {rulesOf(name), true}), 2);
    ASSERT_EQ(world[0].put({1, 0}, {1, 0, 0}, data.data(), data.size()).message(), ""); // waits for agreement 1
    world.leave(1);
    EXPECT_EQ(expectStatus(world[0].flush(0), StatusCode::PeerLost, 1, "left"), "") << name;
    EXPECT_EQ(world[0].flush(0).message(), "") << name; // nothing was written since
  }
}

TEST(StandIn, AProviderThatBreaksItsPromiseFailsTheSelfTest) {
  control().breaksOrder = true;
  std::string wrong = exercise(smallRules("cxi"), briefMs);
  control().breaksOrder = false;
  EXPECT_NE(wrong.find("self-test of provider cxi: the signal of rank"), std::string::npos) << wrong;
}

TEST(StandIn, AFailedWriteOfTheSelfTestIsNamedAndNotTakenForAMistake) {
  control().refusesKeys = true;
  ConnectedRanks world(fabricKind("cxi", {rulesOf("cxi"), true}), 2);
  EXPECT_EQ(world[0].signal({1, 0}, {1, 0, 1}).message(), "");
  for (int rank : {0, 1}) { // each cannot write, and says so to the other
    Status failure = world.failureOf(rank);
    EXPECT_EQ(expectStatus(failure, StatusCode::SystemError, 1 - rank, "self-test of provider cxi: rank"), "");
    EXPECT_NE(failure.message().find("cannot write to rank"), std::string::npos) << failure.message();
  }
  control().refusesKeys = false;
}

TEST(StandIn, ReleasedMemoryIsClosedAndNotWrittenByWhatIsOnItsWay) {
  for (const char *name : {"cxi", "verbs", "efa"}) {
    ConnectedRanks world(fabricKind(name, {rulesOf(name), true}), 2);
    std::vector<std::byte> data = makeData(50'000, 3);
    Landing landing(data.size(), 2);
    uint64_t numBefore = control().numRegions;
    ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
    EXPECT_GT(control().numRegions, numBefore);
    ASSERT_TRUE(world[0].signal({1, 1}, {1, 0, 1}).isOk());
    ASSERT_TRUE(world.runUntil([&] { return landing.cell(1, 0, 0).hasReached(1) && fabricOf(world[1]).hasMet(0); }));
    ASSERT_TRUE(world[0].put({1, 0}, {1, 0, 0}, data.data(), data.size()).isOk());
    ASSERT_TRUE(world.runUntil([&] { return landing.data()[0] == data[0]; })); // the first half of the put
    uint64_t numOpen = control().numRegions;
    world[1].release(1);
    EXPECT_LT(control().numRegions, numOpen);
    std::vector<std::byte> kept(landing.data(), landing.data() + data.size());
    EXPECT_NE(std::memcmp(kept.data(), data.data(), data.size()), 0) << "the put was over before the release";
    ASSERT_TRUE(world[0].signal({1, 0}, {1, 0, 1}).isOk());
    EXPECT_EQ(expectStatus(world.failureOf(1), StatusCode::Mismatch, 0, "agreement 1, which this rank does not have"),
              "")
        << name << ": " << world[0].stateOf(1).message();
    EXPECT_EQ(std::memcmp(landing.data(), kept.data(), kept.size()), 0);
  }
}

TEST(StandIn, ReadOnlyMemoryIsASourceAndNoTarget) {
  for (const char *name : {"cxi", "verbs", "efa"}) {
    ConnectedRanks world(fabricKind(name, {rulesOf(name), true}), 2);
    constexpr size_t sizeBytes = 20'000;
    FreshMemory constant(sizeBytes);
    std::vector<std::byte> data = makeData(sizeBytes, 5);
    std::memcpy(constant.data(), data.data(), sizeBytes);
    ASSERT_EQ(mprotect(constant.data(), sizeBytes, PROT_READ), 0);
    Landing landing(sizeBytes, 2);
    Registration refused = landing.registration(1);
    refused.regions = {{constant.data(), sizeBytes}};
    EXPECT_EQ(expectStatus(world[1].registerMemory(refused), StatusCode::SystemError, -1,
                           std::string("provider ") + name + ": making pages of memory"),
              "");
    ASSERT_EQ(world[1].registerMemory(landing.registration(2)).message(), "");
    ASSERT_EQ(world[0].put({1, 0}, {2, 0, 0}, constant.data(), sizeBytes).message(), "");
    ASSERT_EQ(world[0].signal({1, 0}, {2, 0, 1}).message(), "");
    ASSERT_TRUE(world.runUntil([&] { return landing.cell(0, 0, 0).hasReached(1); })) << name;
    EXPECT_EQ(std::memcmp(landing.data(), data.data(), sizeBytes), 0);
  }
}

TEST(StandIn, DevicesOfTheFirstKindAreListedWithTheirAddresses) {
  setenv("KOLO_LIBFABRIC", STAND_IN, 1);
  auto nics = koloFabricModule()->list("cxi", {});
  ASSERT_TRUE(nics.isOk()) << nics.status().message();
  ASSERT_EQ(nics->size(), 2U);
  for (size_t number = 0; number < 2; ++number) {
    const NicDescription &nic = (*nics)[number];
    EXPECT_EQ(nic.provider, "cxi");
    EXPECT_EQ(nic.name, "device" + std::to_string(number));
    EXPECT_EQ(nic.address, number == 0 ? "fffe:10:00.0" : ""); // which no host has
    EXPECT_TRUE(nic.isNearest);
  }
}

TEST(StandIn, AnOldLibraryAndAMissingOneAreRefused) {
  setenv("KOLO_LIBFABRIC", "/nowhere/libfabric.so", 1);
  EXPECT_EQ(expectStatus(Library::open().status(), StatusCode::SystemError, -1,
                         "cannot open libfabric: /nowhere/libfabric.so"),
            "");
  setenv("KOLO_LIBFABRIC", "libm.so.6", 1);
  EXPECT_EQ(expectStatus(Library::open().status(), StatusCode::SystemError, -1, "libm.so.6 is no libfabric"), "");
}

} // namespace
} // namespace kolo::test
