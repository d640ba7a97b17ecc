// How ranks join, and the errors of those that do not.
#include "Ranks.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

using namespace kolo::test;
using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char *placeNames[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

std::string expectFailure(Result<Communicator> created, StatusCode code, const std::vector<std::string> &texts) {
  return expectStatus(created.status(), code, texts);
}

int connectLocally(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  for (int attempt = 0; attempt < 200; ++attempt) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0)
      return fd;
    close(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return -1;
}

int listenLocally(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  bool listens = bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0 && listen(fd, 8) == 0;
  return listens ? fd : -1;
}

} // namespace

TEST(Options, OutOfRangeAreRefused) {
  EXPECT_EQ(expectStatus(Communicator::createThreads(0).status(), StatusCode::InvalidArgument, {"not 0"}), "");
  EXPECT_EQ(
      expectStatus(Communicator::createThreads(maxRanksOfHost + 1).status(), StatusCode::InvalidArgument, {"not 4097"}),
      "");
  EXPECT_EQ(expectStatus(Communicator::createThreads(2, {0, 1}).status(), StatusCode::InvalidArgument, {"timeoutMs"}),
            "");
  EXPECT_EQ(expectStatus(Communicator::createThreads(2, {1, 0}).status(), StatusCode::InvalidArgument, {"lanes"}), "");
  EXPECT_EQ(expectStatus(ForkedRanks::create(-1).status(), StatusCode::InvalidArgument, {"not -1"}), "");
}

TEST(Options, BadVariablesAreNamed) {
  for (const char *value : {" ", "0", "-3", "1s", "99999999999999"}) {
    ScopedVariable variable("KOLO_TIMEOUT_MS", value);
    EXPECT_EQ(expectStatus(Communicator::createThreads(1).status(), StatusCode::InvalidArgument, {"KOLO_TIMEOUT_MS"}),
              "");
  }
  for (const char *value : {"0", "16M", "2000000"}) {
    ScopedVariable variable("KOLO_MEMORY_MIB", value);
    EXPECT_EQ(expectStatus(Communicator::createThreads(1).status(), StatusCode::InvalidArgument,
                           {"KOLO_MEMORY_MIB", value, "from 1 to 1048576"}),
              "");
  }
  for (const char *name : {"KOLO_WAIT", "KOLO_ORDINARY_MEMORY"}) {
    ScopedVariable variable(name, "quickly");
    EXPECT_EQ(expectStatus(Communicator::createThreads(1).status(), StatusCode::InvalidArgument, {name, "quickly"}),
              "");
  }
}

TEST(Forked, ARankThatDoesNotJoinIsNamed) {
  auto forked = ForkedRanks::create(3);
  auto said = runProcesses(2, [&](int rank) {
    auto status = Communicator::createForked(*forked, rank, {300, 1}).status();
    return expectStatus(status, StatusCode::Timeout, {"for rank 2 to join", "timed out"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST(Forked, ARankThatJoinsTwiceIsRefused) {
  auto forked = ForkedRanks::create(2);
  EXPECT_EQ(expectFailure(Communicator::createForked(*forked, 2), StatusCode::InvalidArgument, {"rank 2"}), "");
  auto said = runProcesses(3, [&](int process) -> std::string {
    if (process == 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    auto communicator = Communicator::createForked(*forked, process % 2, {5000, 1});
    if (process == 2)
      return expectStatus(communicator.status(), StatusCode::Mismatch, {"rank 0 has joined already"});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return communicator.isOk() ? expectStatus(communicator->barrier(), StatusCode::Ok)
                               : communicator.status().message();
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
}

TEST(Forked, DifferentSettingsAreNamed) {
  auto forked = ForkedRanks::create(2);
  auto said = runProcesses(2, [&](int rank) {
    return expectFailure(Communicator::createForked(*forked, rank, {5000, rank + 1}), StatusCode::Mismatch,
                         {"disagree on lanes: rank 0 has 1, rank 1 has 2"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
  auto second = ForkedRanks::create(2);
  said = runProcesses(2, [&](int rank) {
    setenv("KOLO_ORDINARY_MEMORY", rank ? "staged" : "auto", 1);
    return expectFailure(Communicator::createForked(*second, rank), StatusCode::Mismatch,
                         {"KOLO_ORDINARY_MEMORY: rank 0 has auto, rank 1 has staged"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
  auto third = ForkedRanks::create(2);
  said = runProcesses(2, [&](int rank) {
    return expectFailure(Communicator::createForked(*third, rank, {5000 + rank}), StatusCode::Mismatch,
                         {"the timeout (KOLO_TIMEOUT_MS): rank 0 has 5000 ms, rank 1 has 5001 ms"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST(Environment, EveryMissingOrBadVariableIsNamed) {
  for (const char *name : placeNames)
    unsetenv(name);
  EXPECT_EQ(
      expectFailure(Communicator::createFromEnvironment(), StatusCode::InvalidArgument,
                    {"RANK is not set", "WORLD_SIZE is not set", "MASTER_ADDR is not set", "MASTER_PORT is not set"}),
      "");
  auto said = runProcesses(1, [](int) {
    setRankEnvironment(0, 2, 70000);
    setenv("RANK", "one", 1);
    setenv("WORLD_SIZE", "0", 1);
    std::string wrong = expectFailure(Communicator::createFromEnvironment(), StatusCode::InvalidArgument,
                                      {"RANK='one'", "WORLD_SIZE='0'", "MASTER_PORT='70000'"});
    setRankEnvironment(3, 2, 1);
    return wrong + expectFailure(Communicator::createFromEnvironment(), StatusCode::InvalidArgument,
                                 {"RANK=3 is not below WORLD_SIZE=2"});
  });
  EXPECT_EQ(said, std::vector<std::string>(1));
}

TEST(Environment, AnAbsentRankIsNamedByAll) {
  int port = freePort();
  auto said = runProcesses(2, [&](int rank) {
    setRankEnvironment(rank, 4, port);
    return expectFailure(Communicator::createFromEnvironment({500, 1}), StatusCode::Timeout,
                         rank == 0 ? std::vector<std::string>{"for rank 2, 3", "timed out"}
                                   : std::vector<std::string>{"timed out"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST(Environment, AnAbsentRankZeroIsATimeout) {
  int port = freePort();
  auto said = runProcesses(2, [&](int process) {
    setRankEnvironment(process + 1, 3, port);
    return expectFailure(Communicator::createFromEnvironment({300, 1}), StatusCode::Timeout,
                         {"for rank 0 at 127.0.0.1:" + std::to_string(port), "Connection refused"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST(Environment, TwoProcessesWithOneRankAreToldApart) {
  int port = freePort();
  auto said = runProcesses(3, [&](int process) {
    setRankEnvironment(process == 2 ? 1 : process, 3, port);
    return expectFailure(Communicator::createFromEnvironment({3000, 1}), StatusCode::Mismatch,
                         {"two processes have RANK=1"});
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
}

TEST(Environment, ASecondProcessWithARankIsRefusedAndTheWorldStarts) {
  for (bool hosts : {false, true}) {
    int port = freePort();
    auto said = runProcesses(4, [&](int process) -> std::string {
      if (process >= 2) // the second one with rank 1, and then the last rank
        std::this_thread::sleep_for(std::chrono::milliseconds(process == 3 ? 300 : 1000));
      const int rank = process == 3 ? 1 : process;
      setRankEnvironment(rank, 3, port);
      if (hosts)
        setenv("KOLO_HOSTID", alone(rank).c_str(), 1);
      auto begin = Clock::now();
      auto communicator = Communicator::createFromEnvironment({10000, 1});
      if (process != 3)
        return expectStatus(communicator.isOk() ? communicator->barrier() : communicator.status(), StatusCode::Ok);
      if (Clock::now() - begin > std::chrono::milliseconds(500))
        return "was refused late";
      return expectFailure(std::move(communicator), StatusCode::Mismatch,
                           {"two processes have RANK=1", "which came first", "may be a stranger"});
    });
    EXPECT_EQ(said, std::vector<std::string>(4)) << hosts;
  }
}

TEST(Environment, ARankThatEndsBeforeTheStartMakesRoom) {
  int port = freePort();
  auto said = runProcesses(4, [&](int process) -> std::string {
    setRankEnvironment(process == 3 ? 1 : process, 3, port);
    if (process == 3) { // its connection ends with it
      auto communicator = Communicator::createFromEnvironment({200, 1});
      return communicator.isOk() ? "joined" : "";
    }
    if (process > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(500 * process));
    auto communicator = Communicator::createFromEnvironment({10000, 1});
    return expectStatus(communicator.isOk() ? communicator->barrier() : communicator.status(), StatusCode::Ok);
  });
  EXPECT_EQ(said, std::vector<std::string>(4));
}

TEST(Environment, DifferentWorldSizesAreNamedOnAllRanks) {
  int port = freePort();
  auto start = Clock::now();
  auto said = runProcesses(3, [&](int rank) {
    if (rank == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(300)); // too late to hear it with the others
    setRankEnvironment(rank, rank == 2 ? 4 : 3, port);
    return expectFailure(Communicator::createFromEnvironment({10000, 1}), StatusCode::Mismatch,
                         {"WORLD_SIZE: rank 0 has 3, rank 2 has 4"});
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(Environment, RanksBeyondRankZerosWorldSizeAreNamed) {
  int port = freePort();
  auto said = runProcesses(3, [&](int process) {
    setRankEnvironment(process == 0 ? 0 : process + 1, process == 0 ? 2 : 4, port);
    return expectFailure(Communicator::createFromEnvironment({10000, 1}), StatusCode::Mismatch,
                         {"WORLD_SIZE: rank 0 has 2, rank ", " has 4"});
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
}

TEST(Environment, ASilentProcessAtThePortIsLeftForRankZero) {
  int port = freePort();
  auto said = runProcesses(3, [&](int process) -> std::string {
    if (process == 2) { // holds the port, and then leaves it to rank 0 while its connection stays
      int listener = listenLocally(port), guest = accept(listener, nullptr, nullptr);
      close(listener);
      char bytes[256];
      while (read(guest, bytes, sizeof(bytes)) > 0)
        continue;
      return guest >= 0 ? "" : "nobody came";
    }
    if (process == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    setRankEnvironment(process, 2, port);
    auto communicator = Communicator::createFromEnvironment({15000, 1});
    return communicator.isOk() ? expectStatus(communicator->barrier(), StatusCode::Ok)
                               : communicator.status().message();
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
}

TEST(Environment, ALateRankZeroIsWaitedFor) {
  int port = freePort();
  auto said = runProcesses(2, [&](int rank) {
    if (rank == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    setRankEnvironment(rank, 2, port);
    auto communicator = Communicator::createFromEnvironment({5000, 1});
    return communicator.isOk() ? expectStatus(communicator->barrier(), StatusCode::Ok)
                               : communicator.status().message();
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST(Environment, StrangersOnThePortDoNoHarm) {
  int port = freePort();
  auto said = runProcesses(4, [&](int process) -> std::string {
    if (process >= 2) {
      int fd = connectLocally(port);
      std::string text = process == 2 ? "GET / HTTP/1.0\r\n\r\n" : "KO";
      if (fd >= 0 && write(fd, text.data(), text.size()) < 0)
        return "cannot write";
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      return "";
    }
    if (process == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    setRankEnvironment(process, 2, port);
    auto communicator = Communicator::createFromEnvironment({5000, 1});
    return communicator.isOk() ? expectStatus(communicator->barrier(), StatusCode::Ok)
                               : communicator.status().message();
  });
  EXPECT_EQ(said, std::vector<std::string>(4));
}

TEST(Environment, AnotherHostIsReachedByNetwork) {
  int port = freePort();
  auto said = runProcesses(2, [&](int rank) -> std::string {
    setRankEnvironment(rank, 2, port);
    if (rank == 1 && unshare(CLONE_NEWPID) != 0)
      return "not permitted";
    if (rank == 1) // a new process namespace begins with the next child, and is as far away as another host
      return runProcesses(1, [](int) {
        auto communicator = Communicator::createFromEnvironment({5000, 1});
        return communicator.isOk() ? expectStatus(communicator->barrier(), StatusCode::Ok)
                                   : communicator.status().message();
      })[0];
    auto communicator = Communicator::createFromEnvironment({5000, 1});
    return communicator.isOk() ? expectStatus(communicator->barrier(), StatusCode::Ok)
                               : communicator.status().message();
  });
  if (said[1] == "not permitted")
    GTEST_SKIP() << "needs the right to make a process namespace";
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST(Environment, AForeignServerIsRecognised) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), bytes), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&address), &bytes), 0);
  int port = ntohs(address.sin_port);
  auto said = runProcesses(
      2,
      [&](int rank) {
        setRankEnvironment(rank, 2, port);
        return rank == 0 ? expectFailure(Communicator::createFromEnvironment({3000, 1}), StatusCode::SystemError,
                                         {std::to_string(port), "in use"})
                         : expectFailure(Communicator::createFromEnvironment({3000, 1}), StatusCode::Mismatch,
                                         {"does not speak Kolo's protocol"});
      },
      [&](const std::vector<int> &) {
        int fd = accept(listener, nullptr, nullptr);
        EXPECT_GT(write(fd, "SSH-2.0-OpenSSH\r\n", 17), 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        close(fd);
      });
  close(listener);
  EXPECT_EQ(said, std::vector<std::string>(2));
}
