// Ranks that prove a secret to each other before they join.
#include "Ranks.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

constexpr const char *theSecret = "the secret of this test", *another = "another secret of this test";

class Secrets : public testing::Test {
protected:
  void SetUp() override {
    ScopedVariable variable("KOLO_SECRET", theSecret);
    if (!isSecretSet().isOk())
      GTEST_SKIP() << isSecretSet().status().message() << " (Debian: libsodium-dev)";
  }
};

/// Joins as this rank with its secret; `hosts`: every rank has a host of its own.
Status join(int rank, int numRanks, int port, const char *secret, bool hosts, int timeoutMs = 10000) {
  setRankEnvironment(rank, numRanks, port);
  secret ? setenv("KOLO_SECRET", secret, 1) : unsetenv("KOLO_SECRET");
  if (hosts)
    setenv("KOLO_HOSTID", ("host" + std::to_string(rank)).c_str(), 1);
  setenv("KOLO_WAIT", "yield", 1);
  auto communicator = Communicator::createFromEnvironment({timeoutMs, 1});
  return communicator.isOk() ? communicator->barrier() : communicator.status();
}

/// "" if it is a Mismatch with these texts, and holds no part of a secret.
std::string expectMismatch(const Status &status, const std::vector<std::string> &texts) {
  if (status.message().find("of this test") != std::string::npos)
    return "shows a secret: " + status.message();
  return expectStatus(status, StatusCode::Mismatch, texts);
}

} // namespace

TEST_F(Secrets, RanksThatKnowItJoin) {
  for (bool hosts : {false, true}) {
    int port = freePort();
    auto said =
        runProcesses(3, [&](int rank) { return expectStatus(join(rank, 3, port, theSecret, hosts), StatusCode::Ok); });
    EXPECT_EQ(said, std::vector<std::string>(3)) << hosts;
  }
}

TEST_F(Secrets, OnSomeRanksOnlyAreRefusedByAll) {
  for (bool isOnRankZero : {true, false}) {
    int port = freePort();
    auto said = runProcesses(4, [&](int rank) {
      bool isSet = (rank % 2 == 0) == isOnRankZero;
      Status status = join(rank, 4, port, isSet ? theSecret : nullptr, false, 6000);
      std::string own = rank == 1 ? "rank 1 has" : rank == 3 ? "rank 3 has" : "rank 1, 3 has";
      return expectMismatch(status,
                            {"ranks disagree on KOLO_SECRET: rank 0 has " + std::string(isOnRankZero ? "one" : "none"),
                             own + (isOnRankZero ? " none" : " one")});
    });
    EXPECT_EQ(said, std::vector<std::string>(4)) << isOnRankZero;
  }
}

TEST_F(Secrets, AnotherOneIsRefusedByAll) {
  int port = freePort();
  auto said = runProcesses(3, [&](int rank) {
    Status status = join(rank, 3, port, rank == 2 ? another : theSecret, false, 6000);
    return expectMismatch(status, {"ranks disagree on KOLO_SECRET", "rank 2 has another one"});
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
}

TEST_F(Secrets, AWorldWithOneStartsAmongThoseWhoDoNotKnowIt) {
  int port = freePort();
  auto said = runProcesses(4, [&](int process) -> std::string {
    if (process == 3) // comes first, in the name of rank 2
      return expectMismatch(join(2, 3, port, another, false), {"another one than rank 0"});
    if (process == 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return expectStatus(join(process, 3, port, theSecret, false), StatusCode::Ok);
  });
  EXPECT_EQ(said, std::vector<std::string>(4));
}

namespace {

/// Opens connections to a port, of which half are silent and the others say garbage, and keeps the newest ones open.
void disturb(int port, int number) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  std::vector<int> kept(200, -1);
  for (int i = 0, wrong = 0; i < number && wrong < 2000; ++i) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0) {
      close(fd); // rank 0 does not listen yet, or any more
      ++wrong, --i;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::string text(static_cast<size_t>(i % 7) * 40, static_cast<char>(i));
    if (i % 3 == 0)
      text = "KOLOOPEN" + std::string(300, '\xff');
    if (i % 2 == 0)
      (void)!send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    close(std::exchange(kept[static_cast<size_t>(i) % kept.size()], fd));
  }
}

} // namespace

TEST(Environment, TenThousandStrangersDoNoHarm) {
  int port = freePort();
  auto said = runProcesses(2, [&](int rank) -> std::string {
    if (rank == 1) // comes after them; the last 200 are still there
      disturb(port, 10'000);
    std::atomic<bool> hasJoined = false;
    int before = countDescriptors(), most = 0;
    std::thread watch([&] {
      while (rank == 0 && !hasJoined)
        most = std::max(most, countDescriptors() - before);
    });
    Status status = join(rank, 2, port, nullptr, false, 15000);
    hasJoined = true;
    watch.join();
    return most < 64 + 20 ? expectStatus(status, StatusCode::Ok) : std::to_string(most) + " descriptors";
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}
