// Connections that are made when first used: also from both sides at once, to peers that leave, and to dead ones.
#include "Support.h"

#include "network/tcp/SocketAddress.h"
#include "network/tcp/SocketOptions.h"
#include "network/tcp/TcpTransport.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

namespace kolo::test {
namespace {

using tcp::listenAtHost;
using tcp::TcpTransport;

/// Ranks of which nobody is connected, each with registered memory of `numRanks` bytes.
struct Strangers {
  /// `other`: an endpoint instead of that of rank 0.
  explicit Strangers(int numRanks, bool hasKey = false, int timeoutMs = 20'000, const Endpoint &other = {}) {
    std::vector<Endpoint> endpoints;
    for (int rank = 0; rank < numRanks; ++rank) {
      tcp::TcpOptions options;
      options.rank = rank;
      options.numRanks = numRanks;
      options.timeoutMs = timeoutMs;
      options.world.fill(std::byte(7));
      options.listenAt = "127.0.0.1";
      options.receiveMail = [this](int, std::span<const std::byte>) {
        ++numMails;
        return Status();
      };
      if (hasKey)
        options.key = Key::ofSecret("a secret of the tests");
      Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(options);
      ranks.push_back(std::move(made).value());
      endpoints.push_back(ranks.back()->endpoint());
      landings.push_back(std::make_unique<Landing>(static_cast<size_t>(numRanks), numRanks));
    }
    if (other != Endpoint())
      endpoints[0] = other;
    for (int rank = 0; rank < numRanks; ++rank) {
      EXPECT_EQ(at(rank).connect(endpoints, std::vector<bool>(endpoints.size(), false), false).message(), "");
      EXPECT_TRUE(at(rank).registerMemory(landing(rank).registration(1)).isOk());
    }
  }
  TcpTransport &at(int rank) { return *ranks[static_cast<size_t>(rank)]; }
  Landing &landing(int rank) { return *landings[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks.size()); }

  /// Writes one byte to the peer, and signals it.
  Status tell(int rank, int peer, std::byte *byte) {
    *byte = static_cast<std::byte>(100 + rank);
    if (Status status = at(rank).put({peer, 0}, {1, 0, static_cast<uint64_t>(rank)}, byte, 1); !status.isOk())
      return status;
    return at(rank).signal({peer, 0}, {1, 0, 1});
  }
  bool hasHeard(int rank, int peer) { return landing(rank).cell(0, 0, peer).hasReached(1); }

  std::atomic<int> numMails = 0; // that came to any of them
  std::vector<std::unique_ptr<Landing>> landings;
  std::vector<std::unique_ptr<TcpTransport>> ranks;
};

/// Each rank tells all whom `tells` names, all at once, and waits for all that tell it.
void talk(Strangers &world, const std::function<bool(int rank, int peer)> &tells) {
  std::barrier start(world.size()), end(world.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.size(); ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::byte> bytes(static_cast<size_t>(world.size()));
      start.arrive_and_wait();
      for (int peer = 0; peer < world.size(); ++peer)
        if (peer != rank && tells(rank, peer)) {
          EXPECT_EQ(world.tell(rank, peer, &bytes[static_cast<size_t>(peer)]).message(), "");
        }
      EXPECT_EQ(world.at(rank).flush(0).message(), "");
      Clock::time_point until = Clock::now() + std::chrono::seconds(20);
      for (int peer = 0; peer < world.size(); ++peer)
        while (peer != rank && tells(peer, rank) && !world.hasHeard(rank, peer) && Clock::now() < until)
          EXPECT_EQ(world.at(rank).idle(world.landing(rank).cell(0, 0, peer), 1, until).message(), "");
      end.arrive_and_wait();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int rank = 0; rank < world.size(); ++rank)
    for (int peer = 0; peer < world.size(); ++peer) {
      bool isTold = peer != rank && tells(peer, rank);
      EXPECT_EQ(world.hasHeard(rank, peer), isTold) << rank << " " << peer;
      EXPECT_EQ(world.landing(rank).data()[peer], isTold ? std::byte(100 + peer) : std::byte(0xa5));
    }
}

/// Makes progress on all ranks until each has so many connections, or for 5 s: mail may be connected after data.
void expectConnections(Strangers &world, size_t number) {
  Clock::time_point until = Clock::now() + std::chrono::seconds(5);
  auto areThere = [&] {
    return std::ranges::all_of(world.ranks, [&](auto &rank) { return rank->numConnected() == number; });
  };
  while (!areThere() && Clock::now() < until)
    for (auto &rank : world.ranks)
      EXPECT_EQ(rank->progress().message(), "");
  for (auto &rank : world.ranks)
    EXPECT_EQ(rank->numConnected(), number);
}

TEST(Later, WhoDoesNotTalkIsNotConnected) {
  Strangers world(6);
  talk(world, [](int rank, int peer) { return peer == (rank + 1) % 6; });
  expectConnections(world, 4); // two with each neighbour: for data and for mail
}

TEST(Later, AllMayBeginAtOnce) {
  for (int round = 0; round < 8; ++round) {
    Strangers world(6, round % 2 == 0 && Key::isSupported());
    talk(world, [](int, int) { return true; });
    expectConnections(world, 10);
  }
}

TEST(Later, EitherRankMayBegin) {
  for (int first : {0, 1}) {
    Strangers world(2);
    talk(world, [&](int rank, int) { return rank == first; });
    expectConnections(world, 2);
  }
}

TEST(Later, WhatAPeerSaidBeforeItLeftArrives) {
  Strangers world(2);
  std::byte byte;
  std::thread leaver([&] {
    EXPECT_EQ(world.tell(1, 0, &byte).message(), "");
    EXPECT_EQ(world.at(1).flush(0).message(), "");
    world.ranks[1].reset();
  });
  Clock::time_point until = Clock::now() + std::chrono::seconds(20);
  while (!(world.hasHeard(0, 1) && world.at(0).hasLeft(1)) && Clock::now() < until)
    EXPECT_EQ(world.at(0).progress().message(), "");
  leaver.join();
  EXPECT_TRUE(world.hasHeard(0, 1));
  EXPECT_EQ(world.landing(0).data()[1], std::byte(101));
}

TEST(Later, APeerThatIsGoneIsLost) {
  for (int gone : {0, 1}) {
    Strangers world(3);
    world.ranks[static_cast<size_t>(gone)].reset();
    int rank = 1 - gone;
    std::byte byte;
    EXPECT_EQ(world.tell(rank, gone, &byte).message(), "");
    EXPECT_EQ(expectStatus(world.at(rank).flush(0), StatusCode::PeerLost, gone, "connecting to rank"), "");
    EXPECT_TRUE(world.at(rank).hasFailedWith(gone));
    EXPECT_FALSE(world.at(rank).hasFailedWith(2));
  }
}

TEST(Later, APeerThatDoesNothingIsATimeout) {
  Strangers world(2, false, 200);
  std::byte byte;
  EXPECT_EQ(world.tell(1, 0, &byte).message(), "");
  EXPECT_EQ(expectStatus(world.at(1).flush(0), StatusCode::Timeout, 0, "for rank 0 to take data"), "");
  EXPECT_TRUE(world.at(1).stateOf(0).isOk());
}

TEST(Later, WhatEndsWithoutAnAnswerIsTriedAgain) {
  tcp::HostAddress where;
  std::optional<Socket> listener = std::move(listenAtHost("127.0.0.1", where)).value();
  Strangers world(2, false, 20'000, tcp::write(where));
  std::byte byte;
  EXPECT_EQ(world.tell(1, 0, &byte).message(), "");
  int numClosed = 0; // they cross others, perhaps, or the peer lacks descriptors
  Clock::time_point until = Clock::now() + std::chrono::seconds(5);
  while (numClosed < 6 && Clock::now() < until) {
    EXPECT_EQ(world.at(1).progress().message(), "");
    numClosed += Socket(accept(listener->descriptor(), nullptr, nullptr)).isOpen();
  }
  EXPECT_EQ(numClosed, 6);
  EXPECT_TRUE(world.at(1).stateOf(0).isOk());
  listener.reset();
  EXPECT_EQ(expectStatus(world.at(1).flush(0), StatusCode::PeerLost, 0, "Connection refused"), "");
}

TEST(Later, APortThatAnotherProcessHasIsNotTriedForEver) {
  tcp::HostAddress where;
  Socket listener = std::move(listenAtHost("127.0.0.1", where)).value();
  std::atomic<bool> isOver = false;
  std::thread other([&] {
    while (!isOver)
      if (!Socket(accept(listener.descriptor(), nullptr, nullptr)).isOpen()) {
        std::vector<pollfd> entries{{listener.descriptor(), POLLIN, 0}};
        waitForAny(entries, Clock::now() + std::chrono::milliseconds(50));
      }
  });
  Strangers world(2, false, 20'000, tcp::write(where));
  std::byte byte;
  Clock::time_point start = Clock::now();
  EXPECT_EQ(world.tell(1, 0, &byte).message(), "");
  EXPECT_EQ(expectStatus(world.at(1).flush(0), StatusCode::PeerLost, 0, "another process has its port"), "");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  isOver = true;
  other.join();
}

TEST(Later, WhatThisRankLacksIsItsOwnErrorAndMayPass) {
  Strangers world(2, false, 400);
  std::byte byte;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(world.tell(1, 0, &byte).message(), "");
  Status status = world.at(1).flush(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(expectStatus(status, StatusCode::SystemError, 1, "connecting to rank 0: Too many open files"), "");
  EXPECT_FALSE(world.at(1).hasFailedWith(0));
  Clock::time_point until = Clock::now() + std::chrono::seconds(5);
  while (!world.hasHeard(0, 1) && Clock::now() < until)
    for (auto &rank : world.ranks)
      EXPECT_EQ(rank->progress().message(), "");
  EXPECT_TRUE(world.hasHeard(0, 1));
}

/// A program may lower its limit below what it has open. The kernel then refuses to wait for all connections at once.
TEST(Later, DataArrivesWhereTheKernelRefusesToWaitForSoMany) {
  Strangers world(2);
  std::byte first = {}, second = {};
  EXPECT_EQ(world.tell(1, 0, &first).message(), "");
  auto isConnected = [&] { return world.hasHeard(0, 1) && world.at(1).isWhole(0); };
  for (Clock::time_point until = Clock::now() + std::chrono::seconds(5); !isConnected() && Clock::now() < until;)
    for (auto &rank : world.ranks)
      ASSERT_EQ(rank->progress().message(), "");
  ASSERT_TRUE(isConnected());
  Cell &cell = world.landing(0).cell(0, 0, 1);
  EXPECT_EQ(world.at(0).idle(cell, 2, Clock::now()).message(), ""); // makes the descriptor that wakes it
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(world.at(1).put({0, 0}, {1, 0, 1}, &second, 1).message(), "");
  EXPECT_EQ(world.at(1).signal({0, 0}, {1, 0, 2}).message(), "");
  for (Clock::time_point until = Clock::now() + std::chrono::seconds(5); !cell.hasReached(2) && Clock::now() < until;)
    EXPECT_EQ(world.at(0).idle(cell, 2, until).message(), "");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(cell.hasReached(2));
}

TEST(Later, TheLimitOfDescriptorsIsRaisedAsFarAsNeeded) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(STDERR_FILENO);
  close(next);
  rlimit few = {static_cast<rlim_t>(next) + 8, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    Strangers world(6);
    talk(world, [](int rank, int peer) { return rank != peer; });
    rlimit after = {};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
    EXPECT_GT(after.rlim_cur, few.rlim_cur);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Later, MailsThatWaitGoBeforeTheGoodbye) {
  Strangers world(2);
  const std::vector<std::byte> mail(16 << 10);
  constexpr int numMails = 1000; // more than the kernel takes
  world.at(1).ask(0);
  while (!world.at(1).isWhole(0))
    for (auto &rank : world.ranks)
      EXPECT_EQ(rank->progress().message(), "");
  for (int i = 0; i < numMails; ++i)
    EXPECT_EQ(world.at(1).mail(0, mail).message(), "");
  EXPECT_FALSE(world.at(1).hasSentMails(0));
  std::thread leaver([&] { world.ranks[1].reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Clock::time_point until = Clock::now() + std::chrono::seconds(20);
  while (!world.at(0).hasLeft(1) && Clock::now() < until)
    ASSERT_EQ(world.at(0).progress().message(), "");
  leaver.join();
  EXPECT_EQ(world.numMails, numMails);
}

TEST(Later, APatientRankMayBeSlowToReadItsMail) {
  constexpr int timeoutMs = 1000;
  Strangers world(2, false, timeoutMs);
  const std::vector<std::byte> mail(16 << 10);
  world.at(1).ask(0);
  while (!world.at(1).isWhole(0))
    for (auto &rank : world.ranks)
      EXPECT_EQ(rank->progress().message(), "");
  world.at(1).setPatience(0, true);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(world.at(1).mail(0, mail).message(), "");
  Clock::time_point until = Clock::now() + std::chrono::milliseconds(tcp::mailTimeoutMs(timeoutMs) + 1500);
  for (; Clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    ASSERT_EQ(world.at(1).progress().message(), "");
  until = Clock::now() + std::chrono::seconds(20);
  while (world.numMails < 1000 && Clock::now() < until)
    for (auto &rank : world.ranks)
      ASSERT_EQ(rank->progress().message(), "");
  EXPECT_EQ(world.numMails, 1000);
}

TEST(Later, AForkedChildKeepsNobodyWaitingForARankThatLeft) {
  Strangers world(2, false, 2000);
  ChildRank child([] { pause(); }); // it has the listeners, too
  world.ranks[0].reset();
  std::byte byte;
  EXPECT_EQ(world.tell(1, 0, &byte).message(), "");
  EXPECT_EQ(expectStatus(world.at(1).flush(0), StatusCode::PeerLost, 0, "Connection refused"), "");
}

TEST(Later, WhoCannotStartCanTellThoseWhomItHasMet) {
  std::atomic<int> numMails = 0;
  std::vector<std::unique_ptr<TcpTransport>> ranks;
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < 3; ++rank) {
    tcp::TcpOptions options;
    options.rank = rank;
    options.numRanks = 3;
    options.listenAt = "127.0.0.1";
    options.receiveMail = [&](int, std::span<const std::byte>) {
      ++numMails;
      return Status();
    };
    ranks.push_back(std::move(TcpTransport::create(options)).value());
    endpoints.push_back(ranks.back()->endpoint());
  }
  std::thread other([&] {
    EXPECT_EQ(ranks[0]->connect(endpoints, {false, false, true}, false).message(), "");
    ranks[1].reset(); // it never answered
  });
  Status status = ranks[2]->connect(endpoints, {true, true, false}, false);
  other.join();
  EXPECT_EQ(expectStatus(status, StatusCode::PeerLost, 1, "Connection refused"), "");
  EXPECT_EQ(ranks[2]->mail(0, std::vector<std::byte>(8)).message(), "");
  EXPECT_EQ(ranks[2]->put({0, 0}, {}, nullptr, 1).code(), StatusCode::InvalidArgument);
  Clock::time_point until = Clock::now() + std::chrono::seconds(5);
  while (numMails == 0 && Clock::now() < until)
    EXPECT_EQ(ranks[0]->progress().message(), "");
  EXPECT_EQ(numMails, 1);
}

} // namespace
} // namespace kolo::test
