// How two ranks meet when one of them first writes to the other.
#include "FabricSupport.h"
#include "standin/StandIn.h"

#include "network/fabric/ControlMessage.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

namespace kolo::test {
namespace {

using namespace fabric;

/// The messages that ranks got.
class HeardMessages {
public:
  void note(int sender, int receiver, ControlKind kind) {
    std::scoped_lock lock(mutex);
    ++numbers[{sender, receiver, kind}];
  }
  int number(int sender, int receiver, ControlKind kind) const {
    std::scoped_lock lock(mutex);
    auto found = numbers.find({sender, receiver, kind});
    return found == numbers.end() ? 0 : found->second;
  }
  /// Whose messages a rank got, and who got its messages.
  std::set<int> partnersOf(int rank) const {
    std::scoped_lock lock(mutex);
    std::set<int> found;
    for (const auto &[key, count] : numbers) {
      auto [sender, receiver, kind] = key;
      if (sender == rank || receiver == rank)
        found.insert(sender == rank ? receiver : sender);
    }
    return found;
  }

private:
  mutable std::mutex mutex;
  std::map<std::tuple<int, int, ControlKind>, int> numbers;
};

/// Ranks with registered memory, of which nobody has written to another.
struct Unmet {
  Unmet(const FabricKind &kind, int numRanks, int timeoutMs = 20'000)
      : Unmet(std::vector<FabricKind>(static_cast<size_t>(numRanks), kind), timeoutMs) {}
  /// One kind for each rank.
  explicit Unmet(std::vector<FabricKind> kinds, int timeoutMs = 20'000) {
    for (FabricKind &kind : kinds) {
      kind.seeControlMessage = [this](int sender, int receiver, ControlKind message) {
        messages.note(sender, receiver, message);
      };
    }
    auto numRanks = static_cast<int>(kinds.size());
    Kind made = fabricKind("meeting", kinds.front());
    made.make = [kinds](const RankPlace &place) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(
          std::move(FabricRank::create(place, kinds[static_cast<size_t>(place.rank)])).value());
    };
    ranks = std::make_unique<ConnectedRanks>(made, numRanks, timeoutMs);
    for (int rank = 0; rank < numRanks; ++rank) {
      landings.push_back(std::make_unique<Landing>(data.size(), numRanks));
      EXPECT_EQ(at(rank).registerMemory(landing(rank).registration(1)).message(), "");
    }
  }
  Transport &at(int rank) { return (*ranks)[rank]; }
  Landing &landing(int rank) { return *landings[static_cast<size_t>(rank)]; }
  size_t numConnections(int rank) { return fabricOf(at(rank)).numConnections(); }

  /// Puts and signals. Nothing moves before the next progress.
  Status tell(int rank, int peer) {
    Status status = at(rank).put({peer, 0}, {1, 0, 0}, data.data(), data.size());
    return status.isOk() ? at(rank).signal({peer, 0}, {1, 0, 1}) : status;
  }
  bool hasHeard(int rank, int peer) { return landing(rank).cell(0, 0, peer).hasReached(1); }
  bool isRight(int rank) { return std::memcmp(landing(rank).data(), data.data(), data.size()) == 0; }
  /// Whether no rank is in the middle of a meeting.
  bool isQuiet() {
    for (int rank = 0; rank < ranks->size(); ++rank)
      for (int peer = 0; peer < ranks->size(); ++peer)
        if (!fabricOf(at(rank)).troubleWith(peer).isOk())
          return false;
    return true;
  }
  /// All ranks make progress.
  bool runUntil(const std::function<bool()> &isDone) { return ranks->runUntil(isDone); }
  void step() {
    for (int rank = 0; rank < ranks->size(); ++rank)
      (void)at(rank).progress();
  }
  /// The rank leaves while others make progress. How long it takes.
  std::chrono::milliseconds leave(int rank, const std::vector<int> &others) {
    std::atomic<bool> isGone = false;
    Clock::time_point start = Clock::now();
    std::thread leaver([&] {
      ranks->leave(rank);
      isGone = true;
    });
    while (!isGone)
      for (int other : others)
        (void)at(other).progress();
    leaver.join();
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  }

  HeardMessages messages;
  const std::vector<std::byte> data = makeData(1000, 3);
  std::vector<std::unique_ptr<Landing>> landings;
  std::unique_ptr<ConnectedRanks> ranks; // ends first
};

/// The same, but mails are connected when they are first used.
FabricKind withoutMails(FabricKind kind) {
  kind.connectsMails = false;
  return kind;
}

/// The stand-in's providers, and libfabric's own with each order.
std::vector<FabricKind> someKinds() {
  std::vector<FabricKind> kinds;
  for (const char *name : {"cxi", "verbs", "efa"})
    kinds.push_back({rulesOf(name), true});
  for (SignalOrder order : {SignalOrder::Ordered, SignalOrder::Counted, SignalOrder::Acknowledged})
    kinds.push_back({withOrder("tcp;ofi_rxm", order)});
  return kinds;
}

std::string describe(const FabricKind &kind) { return std::string(kind.rules.name) + " " + toString(kind.rules.order); }

TEST(Meeting, NothingIsSentOrKeptForAPeerThatNobodyWritesTo) {
  uint64_t before = control().numTargets;
  Unmet world(withoutMails({rulesOf("efa"), true}), 4);
  EXPECT_EQ(control().numTargets - before, 4U); // one region of each rank; counted signals need none for cells
  Clock::time_point until = Clock::now() + std::chrono::milliseconds(50);
  EXPECT_TRUE(world.runUntil([&] { return Clock::now() >= until; }));
  EXPECT_EQ(control().numTargets - before, 4U);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(world.messages.partnersOf(rank), std::set<int>());
    EXPECT_EQ(world.numConnections(rank), 0U);
    EXPECT_EQ(world.at(rank).flush(0).message(), "");
  }
}

TEST(Meeting, ARankMeetsThoseAloneThatItTalksTo) {
  constexpr int numRanks = 16;
  for (const FabricKind &kind : someKinds()) {
    Unmet world(withoutMails(kind), numRanks);
    for (int rank = 0; rank < numRanks; ++rank)
      ASSERT_EQ(world.tell(rank, (rank + 1) % numRanks).message(), "");
    auto haveAllHeard = [&] {
      for (int rank = 0; rank < numRanks; ++rank)
        if (!world.hasHeard((rank + 1) % numRanks, rank))
          return false;
      return world.isQuiet();
    };
    ASSERT_TRUE(world.runUntil(haveAllHeard)) << describe(kind);
    for (int rank = 0; rank < numRanks; ++rank) {
      int next = (rank + 1) % numRanks, previous = (rank + numRanks - 1) % numRanks;
      EXPECT_TRUE(world.isRight(rank)) << describe(kind);
      EXPECT_EQ(world.messages.partnersOf(rank), (std::set<int>{next, previous})) << describe(kind);
      EXPECT_LE(world.numConnections(rank),
                4U); // with each of the two one for data, which is not used, and one for mail
      for (int peer : {next, previous}) {
        EXPECT_EQ(world.messages.number(rank, peer, ControlKind::Address), 1);
        EXPECT_EQ(world.messages.number(rank, peer, ControlKind::Registered), 1);
        EXPECT_EQ(world.messages.number(rank, peer, ControlKind::Ready), kind.rules.targetKnowsInitiator ? 1 : 0);
      }
    }
  }
}

TEST(Meeting, MemoryOfTheSelfTestIsThereOnlyWhileItRuns) {
  for (const char *name : {"cxi", "verbs", "efa"}) {
    Unmet world({rulesOf(name), true}, 3);
    uint64_t ofUsers = control().numTargets, most = 0;
    ASSERT_EQ(world.tell(0, 1).message(), "");
    ASSERT_TRUE(world.runUntil([&] {
      most = std::max(most, control().numTargets.load());
      return world.hasHeard(1, 0) && control().numTargets == ofUsers;
    })) << name;
    EXPECT_EQ(most, ofUsers + 2) << name;
  }
}

TEST(Meeting, RanksThatAskMeetAndThenNeedNothingOfEachOther) {
  for (const FabricKind &kind : someKinds())
    for (int asks : {0, 1}) {
      Unmet world(kind, 3, 2000);
      fabricOf(world.at(asks)).ask(1 - asks);
      int first = -1; // of the two to have met the other
      ASSERT_TRUE(world.runUntil([&] {
        for (int rank : {0, 1})
          first = first < 0 && fabricOf(world.at(rank)).hasMet(1 - rank) ? rank : first;
        return first >= 0;
      })) << describe(kind);
      FabricRank &other = fabricOf(world.at(1 - first));
      for (Clock::time_point end = Clock::now() + std::chrono::seconds(5); !other.hasMet(first) && Clock::now() < end;)
        EXPECT_EQ(other.progress().message(), ""); // alone
      EXPECT_TRUE(other.hasMet(first)) << describe(kind);
      EXPECT_FALSE(other.hasMet(2));
      if (fabricKind("", kind).flushNeedsPeer)
        continue;
      EXPECT_EQ(world.tell(1 - first, first).message(), "");
      EXPECT_EQ(other.flush(0).message(), "") << describe(kind);
      EXPECT_TRUE(world.runUntil([&] { return world.hasHeard(first, 1 - first); }));
    }
}

TEST(Meeting, WhoHasMetAPeerMayLeaveAtOnce) {
  for (const FabricKind &kind : someKinds()) {
    Unmet world(kind, 2);
    fabricOf(world.at(1)).ask(0);
    int first = -1;
    ASSERT_TRUE(world.runUntil([&] {
      for (int rank : {1, 0})
        first = first < 0 && fabricOf(world.at(rank)).hasMet(1 - rank) ? rank : first;
      return first >= 0;
    })) << describe(kind);
    std::atomic<bool> isGone = false;
    std::thread leaver([&] {
      world.ranks->leave(first);
      isGone = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // its message is there before the other goes on
    FabricRank &other = fabricOf(world.at(1 - first));
    while (!isGone)
      (void)other.progress();
    leaver.join();
    EXPECT_TRUE(other.hasMet(first)) << describe(kind);
  }
}

TEST(Meeting, NothingElseIsWrittenBeforeThePeerHasFoundTheSelfTestRight) {
  for (const char *name : {"cxi", "verbs"}) { // which write on while the peer does nothing
    Unmet world({rulesOf(name), true}, 2);
    ASSERT_EQ(world.tell(0, 1).message(), "");
    auto isTesting = [&] {
      return fabricOf(world.at(1)).troubleWith(0).message().find("the self-test of provider") != std::string::npos;
    };
    ASSERT_TRUE(world.runUntil(isTesting)) << name;
    for (int i = 0; i < 1000; ++i) // takes all that rank 1 has put
      ASSERT_EQ(world.at(0).progress().message(), "");
    EXPECT_FALSE(fabricOf(world.at(0)).hasMet(1)) << name;
    ASSERT_TRUE(world.runUntil([&] { return world.hasHeard(1, 0); })) << name;
    EXPECT_EQ(world.messages.number(1, 0, ControlKind::Passed), 1);
    EXPECT_TRUE(world.isRight(1)) << name;
  }
}

TEST(Meeting, BothMayBeginAtOnce) {
  for (const FabricKind &kind : someKinds())
    for (int round = 0; round < 5; ++round) {
      Unmet world(round % 2 == 0 ? kind : withoutMails(kind), 2);
      std::barrier start(2);
      auto run = [&](int rank) {
        start.arrive_and_wait();
        EXPECT_EQ(world.tell(rank, 1 - rank).message(), "");
        EXPECT_EQ(world.at(rank).flush(0).message(), "") << describe(kind);
        Cell &cell = world.landing(rank).cell(0, 0, 1 - rank);
        for (Clock::time_point end = Clock::now() + std::chrono::seconds(20);
             !cell.hasReached(1) && Clock::now() < end;)
          EXPECT_EQ(world.at(rank).idle(cell, 1, end).message(), "");
      };
      std::thread other([&] { run(1); });
      run(0);
      other.join();
      for (int rank : {0, 1}) {
        EXPECT_TRUE(world.hasHeard(rank, 1 - rank) && world.isRight(rank)) << describe(kind);
        EXPECT_EQ(world.messages.number(rank, 1 - rank, ControlKind::Address), 1);
      }
    }
}

TEST(Meeting, WhatIsWrittenBeforeThePeerIsConnectedWaitsForIt) {
  for (const FabricKind &kind : someKinds()) {
    std::vector<std::byte> data = makeData(100'000, 4);
    Landing landing(data.size(), 2);
    std::unique_ptr<FabricRank> ranks[2];
    for (int rank : {0, 1})
      ranks[rank] = std::move(FabricRank::create({rank, 2, 20'000}, withoutMails(kind))).value();
    std::array<Endpoint, 2> endpoints{ranks[0]->endpoint(), ranks[1]->endpoint()};
    ASSERT_EQ(ranks[0]->connect(endpoints).message(), ""); // waits for nobody
    ASSERT_EQ(ranks[0]->put({1, 0}, {1, 0, 0}, data.data(), data.size()).message(), "");
    ASSERT_EQ(ranks[0]->signal({1, 0}, {1, 0, 1}).message(), "");
    for (Clock::time_point end = Clock::now() + std::chrono::milliseconds(30); Clock::now() < end;)
      ASSERT_EQ(ranks[0]->progress().message(), "");
    EXPECT_EQ(expectStatus(ranks[0]->troubleWith(1), StatusCode::Timeout, 1, "the address of rank 1 has not come"), "");
    ASSERT_EQ(ranks[1]->connect(endpoints).message(), "");
    ASSERT_EQ(ranks[1]->registerMemory(landing.registration(1)).message(), "");
    Cell &cell = landing.cell(0, 0, 0);
    for (Clock::time_point end = Clock::now() + std::chrono::seconds(20); !cell.hasReached(1) && Clock::now() < end;)
      for (int rank : {0, 1})
        ASSERT_EQ(ranks[rank]->progress().message(), "");
    EXPECT_EQ(std::memcmp(landing.data(), data.data(), data.size()), 0) << describe(kind);
    std::thread other([&] { ranks[1].reset(); }); // both leave at the same time
    ranks[0].reset();
    other.join();
  }
}

TEST(Meeting, AFlushWaitsForNoPeerThatItsRankHasNotWrittenTo) {
  for (const char *name : {"cxi", "verbs", "efa"}) {
    Unmet world({rulesOf(name), true}, 2, shortMs);
    ASSERT_EQ(world.tell(0, 1).message(), "");
    ASSERT_TRUE(world.runUntil([&] { return !fabricOf(world.at(1)).troubleWith(0).isOk(); })); // rank 1 was asked
    EXPECT_EQ(world.at(1).flush(0).message(), "") << name;
    EXPECT_NE(fabricOf(world.at(1)).troubleWith(0).message(), "") << name; // it still meets
  }
}

TEST(Meeting, RanksThatDifferAreNamedByBothAtFirstUse) {
  struct Case {
    FabricKind ours, theirs;
    std::string ourText, theirText;
  };
  const FabricKind cxi{rulesOf("cxi"), true}, verbs{rulesOf("verbs"), true};
  const FabricKind acknowledged{withOrder("cxi", SignalOrder::Acknowledged), true};
  const Case cases[] = {
      {cxi, verbs, "uses provider verbs (ordered), this rank cxi (ordered)",
       "uses provider cxi (ordered), this rank verbs (ordered)"},
      {cxi, acknowledged, "uses provider cxi (acknowledged), this rank cxi (ordered)",
       "uses provider cxi (ordered), this rank cxi (acknowledged)"},
  };
  for (const Case &each : cases)
    for (int first : {0, 1}) {
      Unmet world({each.ours, each.theirs, each.ours});
      uint64_t numBefore = control().numDelivered;
      EXPECT_EQ(world.tell(first, 1 - first).message(), "");
      for (int rank : {1 - first, first}) {
        const std::string &text = rank == 0 ? each.ourText : each.theirText;
        auto isRight = [&](const Status &status) {
          EXPECT_EQ(expectStatus(status, StatusCode::Mismatch, 1 - rank, text), "");
        };
        isRight(world.ranks->failureOf(rank));
        isRight(world.at(rank).stateOf(1 - rank));
        isRight(world.at(rank).signal({1 - rank, 0}, {1, 0, 2}));
        isRight(world.at(rank).put({1 - rank, 0}, {1, 0, 0}, world.data.data(), 1));
      }
      EXPECT_EQ(world.at(first).flush(0).code(), StatusCode::Mismatch);
      EXPECT_EQ(control().numDelivered, numBefore);
      EXPECT_EQ(world.tell(0, 2).message(), ""); // who is alike goes on
      EXPECT_TRUE(world.runUntil([&] { return world.hasHeard(2, 0); }));
      EXPECT_EQ(world.at(0).stateOf(2).message(), "");
      (void)world.leave(1, {0, 2}); // the cause stays
      for (int i = 0; i < 1000; ++i)
        (void)world.at(0).progress();
      EXPECT_EQ(world.at(0).stateOf(1).code(), StatusCode::Mismatch);
    }
}

TEST(Meeting, WhoCannotEvenBeginTellsItsPeer) {
  for (int first : {0, 1}) {
    Unmet world({rulesOf("cxi"), true}, 2);
    std::byte memory[64] = {};
    std::vector<Cell> cells(2);
    Status status;
    for (uint64_t number = 2; status.isOk(); ++number) // until no key is left
      status = world.at(0).registerMemory({number, {{memory, 64}}, {true, true}, cells.data(), 1, 1});
    EXPECT_EQ(status.code(), StatusCode::OutOfMemory);
    EXPECT_EQ(world.tell(first, 1 - first).message(), "");
    const char *text = "rank 0 cannot meet rank 1: provider cxi: all 256 keys for memory of this rank are in use";
    EXPECT_EQ(expectStatus(world.ranks->failureOf(0), StatusCode::OutOfMemory, 1, text), "");
    EXPECT_EQ(expectStatus(world.ranks->failureOf(1), StatusCode::SystemError, 0, text), "");
  }
}

TEST(Meeting, ARankMayLeaveInTheMiddle) {
  for (const FabricKind &kind : someKinds())
    for (int leaver : {0, 1})
      for (int numSteps = 0; numSteps < 12; numSteps += kind.usesStandIn ? 1 : 5) { // libfabric begins slowly
        control().numClosedInUse = 0;
        {
          Unmet world(numSteps % 2 == 0 ? kind : withoutMails(kind), 2);
          EXPECT_EQ(world.tell(0, 1).message(), "");
          for (int i = 0; i < numSteps * numSteps; ++i)
            world.step();
          int other = 1 - leaver;
          EXPECT_LT(world.leave(leaver, {other}), std::chrono::milliseconds(1000)) << describe(kind) << numSteps;
          (void)world.tell(other, leaver); // it may know already
          Status status = world.at(other).flush(0);
          status = status.isOk() ? world.at(other).stateOf(leaver) : status;
          EXPECT_EQ(expectStatus(status, StatusCode::PeerLost, leaver, "rank"), "")
              << describe(kind) << " " << numSteps;
        }
        EXPECT_EQ(control().numClosedInUse, 0U) << describe(kind) << numSteps;
      }
}

TEST(Meeting, WhoMeetsARankThatIsLeavingHearsSo) {
  Unmet world({rulesOf("cxi"), true}, 3);
  ASSERT_EQ(world.tell(1, 0).message(), "");
  ASSERT_TRUE(world.runUntil([&] { return world.hasHeard(0, 1) && world.isQuiet(); }));
  std::thread leaver([&] { world.ranks->leave(0); }); // rank 1 may write to it, and says no farewell
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Clock::time_point start = Clock::now();
  EXPECT_EQ(world.tell(2, 0).message(), "");
  EXPECT_EQ(expectStatus(world.at(2).flush(0), StatusCode::PeerLost, 0, "rank 0 has left"), "");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  leaver.join();
}

TEST(Meeting, ControlMessagesThatNobodySendsEndTheConnection) {
  ControlMessage ready, address;
  address.kind = ControlKind::Address;
  address.provider = "cxi";
  address.address = makeData(8, 1);
  struct Case {
    std::vector<ControlMessage> messages;
    const char *text;
  };
  for (const Case &each :
       {Case{{ready}, "sent a message before its address"}, Case{{address, address}, "tells its address twice"}}) {
    Unmet world({rulesOf("cxi"), true}, 2);
    for (const ControlMessage &message : each.messages)
      EXPECT_EQ(fabricOf(world.at(0)).mail(1, write(message)).message(), "");
    EXPECT_TRUE(world.runUntil([&] { return world.at(1).stateOf(0).code() == StatusCode::Mismatch; })) << each.text;
    EXPECT_TRUE(world.runUntil([&] { return !world.at(0).stateOf(1).isOk(); }));
  }
}

/// Rank 0 has written to rank 1.
struct WrittenPair : Pair<FabricRank> {
  WrittenPair(const FabricKind &kind, int timeoutMs, const std::function<void(FabricRank &)> &body)
      : Pair(std::move(FabricRank::create({0, 2, timeoutMs}, kind)).value(),
             std::move(FabricRank::create({1, 2, 20'000}, kind)).value(), body) {
    EXPECT_EQ(here->put({1, 0}, {1, 0, 0}, data.data(), data.size()).message(), "");
  }
  const std::vector<std::byte> data = makeData(1000, 5);
};

/// Goes on until it was asked to meet rank 0.
void awaitMeeting(FabricRank &rank) {
  while (rank.troubleWith(0).isOk())
    (void)rank.progress();
}

TEST(Meeting, APeerThatDiesMeanwhileIsLost) {
  for (bool hasBegun : {false, true})
    for (bool areMailsConnected : {false, true}) {
      const FabricKind kind{rulesOf("tcp;ofi_rxm")};
      WrittenPair pair(areMailsConnected ? kind : withoutMails(kind), 20'000, [&](FabricRank &there) {
        if (hasBegun)
          awaitMeeting(there);
        _exit(0); // no goodbye
      });
      Clock::time_point start = Clock::now();
      EXPECT_EQ(expectStatus(pair.here->flush(0), StatusCode::PeerLost, 1, "rank 1"), "");
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
      EXPECT_EQ(pair.here->stateOf(1).code(), StatusCode::PeerLost);
    }
}

TEST(Meeting, APeerThatIsSilentIsATimeoutThatSaysWhatIsMissing) {
  for (bool hasBegun : {false, true}) {
    WrittenPair pair({rulesOf("tcp;ofi_rxm")}, shortMs, [&](FabricRank &there) {
      if (hasBegun)
        awaitMeeting(there);
      raise(SIGSTOP);
    });
    const char *text = hasBegun ? "rank 0 waited 1000 ms for rank 1 to take data: timed out; the self-test of provider "
                                  "tcp;ofi_rxm with rank 1 is not over; KOLO_NETWORK=tcp needs none"
                                : "rank 0 waited 1000 ms for rank 1 to take data: timed out; the address of rank 1 has "
                                  "not come";
    EXPECT_EQ(expectStatus(pair.here->flush(0), StatusCode::Timeout, 1, text), "");
    EXPECT_EQ(pair.here->stateOf(1).message(), "");
  }
}

} // namespace
} // namespace kolo::test
