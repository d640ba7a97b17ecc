// Communicators of several hosts, which KOLO_HOSTID makes of processes of one: data between them takes the network.
#include "Ranks.h"
#include "TestPlugin.h"

#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

using namespace kolo::test;
using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

std::string uneven(int rank) { return rank == 2 ? "b" : "a"; }

CallArguments callOf(const char *program, int numRanks, int64_t count) {
  CallArguments arguments;
  arguments.program = program;
  arguments.mesh = std::move(Mesh::parse("rank=" + std::to_string(numRanks))).value();
  arguments.count = count;
  arguments.type = DataType::I32;
  return arguments;
}

std::string gather(Communicator &communicator, const Plugin &plugin, int64_t count, int call) {
  int size = communicator.size();
  std::vector<int> input(static_cast<size_t>(count)), output(static_cast<size_t>(count * size), -1);
  for (int64_t i = 0; i < count; ++i)
    input[static_cast<size_t>(i)] = valueAt(communicator.rank(), i, call);
  CallArguments arguments = callOf("ringAllGather", size, count);
  arguments.input = input.data();
  arguments.output = output.data();
  if (Status status = communicator.run(plugin, arguments); !status.isOk())
    return status.message();
  for (int rank = 0; rank < size; ++rank)
    for (int64_t i = 0; i < count; ++i)
      if (output[static_cast<size_t>(rank * count + i)] != valueAt(rank, i, call))
        return "wrong element " + std::to_string(i) + " of rank " + std::to_string(rank);
  return "";
}

std::string reduce(Communicator &communicator, const Plugin &plugin, int64_t count, int call) {
  int size = communicator.size();
  std::vector<int> input(static_cast<size_t>(count)), output(static_cast<size_t>(count), -1);
  for (int64_t i = 0; i < count; ++i)
    input[static_cast<size_t>(i)] = valueAt(communicator.rank(), i, call);
  CallArguments arguments = callOf("scratchAllReduce", size, count);
  arguments.input = input.data();
  arguments.output = output.data();
  if (Status status = communicator.run(plugin, arguments); !status.isOk())
    return status.message();
  for (int64_t i = 0; i < count; ++i) {
    int sum = 0;
    for (int rank = 0; rank < size; ++rank)
      sum += valueAt(rank, i, call);
    if (output[static_cast<size_t>(i)] != sum)
      return "wrong element " + std::to_string(i);
  }
  return "";
}

std::string runAll(Communicator &communicator) {
  Plugin plugin = loadTestPlugin();
  for (int call = 0; call < 3; ++call)
    for (int64_t count : {int64_t(0), int64_t(1), int64_t(1000), int64_t(300'000)}) {
      if (std::string wrong = gather(communicator, plugin, count, call); !wrong.empty())
        return "all-gather of " + std::to_string(count) + ": " + wrong;
      if (std::string wrong = reduce(communicator, plugin, count, call); !wrong.empty())
        return "all-reduce of " + std::to_string(count) + ": " + wrong;
    }
  return "";
}

} // namespace

TEST(Hosts, RanksMeetAndCollectivesGiveTheRightBytes) {
  EXPECT_EQ(onHosts(4, pairs, {20000, 1}, runAll), "");
  EXPECT_EQ(onHosts(3, uneven, {20000, 1}, runAll), "");
  EXPECT_EQ(onHosts(3, alone, {20000, 1}, runAll), "");
}

TEST(Hosts, SeveralLanesGiveTheRightBytes) { EXPECT_EQ(onHosts(4, pairs, {20000, 3}, runAll), ""); }

TEST(Hosts, AllWaysToWaitAndAllMemoryGiveTheRightBytes) {
  for (const char *wait : {"sleep", "yield"})
    for (const char *memory : {"staged", "auto"}) {
      ScopedVariable waits("KOLO_WAIT", wait), ordinary("KOLO_ORDINARY_MEMORY", memory);
      EXPECT_EQ(onHosts(3, uneven, {20000, 1}, runAll), "") << wait << " " << memory;
    }
}

TEST(Hosts, ManyBarriersAgree) {
  EXPECT_EQ(onHosts(4, pairs, {20000, 1},
                    [](Communicator &communicator) -> std::string {
                      for (int i = 0; i < 200; ++i)
                        if (Status status = communicator.barrier(); !status.isOk())
                          return status.message();
                      return "";
                    }),
            "");
}

TEST(Hosts, ManyDifferentCallsAgree) {
  EXPECT_EQ(onHosts(3, uneven, {20000, 1},
                    [](Communicator &communicator) -> std::string {
                      Plugin plugin = loadTestPlugin();
                      for (int call = 0; call < 60; ++call)
                        if (std::string wrong = reduce(communicator, plugin, 1 + call * 37 % 40 * 100, call);
                            !wrong.empty())
                          return wrong;
                      return "";
                    }),
            "");
}

TEST(Hosts, AProgramThatNeedsSharedMemoryIsRefusedByAll) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(64), output(64);
    CallArguments arguments = callOf("pullAllReduce", communicator.size(), 64);
    arguments.input = input.data();
    arguments.output = output.data();
    std::string refused = expectStatus(communicator.run(plugin, arguments), StatusCode::UnsupportedMesh,
                                       {"pullAllReduce", "along dimension rank", "host0", "host1", "--network rank"});
    return refused.empty() ? gather(communicator, plugin, 10, 0) : refused; // the communicator stays usable
  };
  EXPECT_EQ(onHosts(4, pairs, {20000, 1}, body), "");
}

TEST(Hosts, ChannelsReachOtherHosts) {
  auto body = [](Communicator &communicator) -> std::string {
    auto window = communicator.allocate(1 << 20);
    if (!window.isOk())
      return window.status().message();
    auto windows = communicator.exchange(*window);
    if (!windows.isOk())
      return windows.status().message();
    int self = communicator.rank(), size = communicator.size(), next = (self + 1) % size;
    int previous = (self + size - 1) % size;
    if ((next / 2 != self / 2) != ((*windows)[static_cast<size_t>(next)].data() == nullptr))
      return "an address of memory on another host";
    for (int turn = 0; turn < 50; ++turn) {
      std::vector<unsigned char> data(1 << 16, static_cast<unsigned char>(self * 50 + turn));
      Channel to = communicator.channel(next, 3), from = communicator.channel(previous, 3);
      Status status = to.put((*windows)[static_cast<size_t>(next)], 4096, data.data(), data.size());
      if (status.isOk())
        status = to.signal();
      if (status.isOk())
        status = from.wait();
      if (!status.isOk())
        return status.message();
      const auto *arrived = static_cast<const unsigned char *>(window->data()) + 4096;
      for (size_t i = 0; i < data.size(); ++i)
        if (arrived[i] != static_cast<unsigned char>(previous * 50 + turn))
          return "wrong byte " + std::to_string(i);
      if (Status met = communicator.barrier(); !met.isOk())
        return met.message();
    }
    return "";
  };
  EXPECT_EQ(onHosts(4, pairs, {20000, 1}, body), "");
}

TEST(Hosts, AChannelNeedsNoPeerThatIsInACall) {
  auto body = [](Communicator &communicator) -> std::string {
    auto window = communicator.allocate(4096);
    auto windows = communicator.exchange(*window);
    if (!windows.isOk())
      return windows.status().message();
    int data = 7, self = communicator.rank();
    auto start = Clock::now();
    if (self == 1) { // the two have nothing else to say to each other
      Channel to = communicator.channel(3, 0);
      Status status = to.put((*windows)[3], 8, &data, sizeof(data));
      status = status.isOk() ? to.signal() : status;
      if (!status.isOk() || Clock::now() - start > std::chrono::seconds(1))
        return "put and signal waited for rank 3, or: " + status.message();
    }
    if (self == 3) {
      std::this_thread::sleep_for(std::chrono::seconds(2)); // computes
      if (Status status = communicator.channel(1, 0).wait(); !status.isOk())
        return status.message();
      std::memcpy(&data, static_cast<std::byte *>(window->data()) + 8, sizeof(data));
    }
    return data == 7 ? "" : "wrong data";
  };
  EXPECT_EQ(onHosts(4, pairs, {20000, 1}, body), "");
}

TEST(Hosts, DifferentCallsAreNamedByAll) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    int64_t count = communicator.rank() == 3 ? 11 : 10;
    std::vector<int> input(64), output(64);
    CallArguments arguments = callOf("ringAllGather", communicator.size(), count);
    arguments.input = input.data();
    arguments.output = output.data();
    std::string wrong =
        expectStatus(communicator.run(plugin, arguments), StatusCode::Mismatch, {"count", "10", "rank 3", "11"});
    return wrong.empty() ? gather(communicator, plugin, 10, 0) : wrong;
  };
  EXPECT_EQ(onHosts(4, pairs, {20000, 1}, body), "");
}

TEST(Hosts, DifferentSettingsAreNamed) {
  int port = freePort();
  auto said = runProcesses(2, [&](int rank) {
    setenv("KOLO_HOSTID", alone(rank).c_str(), 1);
    setRankEnvironment(rank, 2, port);
    return expectStatus(Communicator::createFromEnvironment({5000, rank + 1}).status(), StatusCode::Mismatch,
                        {"disagree on lanes: rank 0 has 1, rank 1 has 2"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
  port = freePort();
  auto start = Clock::now();
  said = runProcesses(3, [&](int rank) {
    setenv("KOLO_HOSTID", pairs(rank).c_str(), 1);
    setRankEnvironment(rank, 3, port);
    setenv("KOLO_TIMEOUT_MS", rank == 2 ? "9000" : "15000", 1);
    return expectStatus(Communicator::createFromEnvironment().status(), StatusCode::Mismatch,
                        {"disagree on the timeout (KOLO_TIMEOUT_MS): rank 0 has 15000 ms, rank 2 has 9000 ms"});
  });
  EXPECT_EQ(said, std::vector<std::string>(3));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5)); // before anybody's timeout
}

TEST(Hosts, BadVariablesAreNamedByAll) {
  int port = freePort();
  auto said = runProcesses(2, [&](int rank) {
    setenv("KOLO_HOSTID", alone(rank).c_str(), 1);
    if (rank == 1)
      setenv("KOLO_NETWORK_INTERFACE", "nosuch", 1);
    setRankEnvironment(rank, 2, port);
    return expectStatus(Communicator::createFromEnvironment({5000, 1}).status(), StatusCode::InvalidArgument,
                        {"KOLO_NETWORK_INTERFACE='nosuch' is no network interface of host1", "lo"});
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
  said = runProcesses(1, [&](int) {
    setenv("KOLO_HOSTID", std::string(64, 'x').c_str(), 1);
    setRankEnvironment(0, 2, port);
    return expectStatus(Communicator::createFromEnvironment({500, 1}).status(), StatusCode::InvalidArgument,
                        {"KOLO_HOSTID has 64 bytes, not between 1 and 63"});
  });
  EXPECT_EQ(said, std::vector<std::string>(1));
}

TEST(Hosts, AnInterfaceIsTakenByItsPrefix) {
  ScopedVariable variable("KOLO_NETWORK_INTERFACE", "lo");
  EXPECT_EQ(onHosts(2, alone, {20000, 1}, runAll), "");
}

TEST(Hosts, AKilledRankIsNamedOnEveryHost) {
  for (int victim : {0, 3}) {
    auto body = [&](Communicator &communicator) -> std::string {
      Plugin plugin = loadTestPlugin();
      auto start = Clock::now();
      for (int call = 0;; ++call) {
        if (communicator.rank() == victim && call == 20)
          raise(SIGKILL);
        std::vector<int> input(1000), output(4000);
        CallArguments arguments = callOf("ringAllGather", 4, 1000);
        arguments.input = input.data();
        arguments.output = output.data();
        Status status = communicator.run(plugin, arguments);
        if (!status.isOk())
          return expectFailure(status, StatusCode::PeerLost, {"rank " + std::to_string(victim), "host"});
        if (Clock::now() - start > std::chrono::seconds(10))
          return "nobody noticed";
      }
    };
    std::string said = onHosts(4, pairs, {15000, 1}, body);
    EXPECT_EQ(said, "rank " + std::to_string(victim) + ": killed by signal 9\n");
  }
}

TEST(Hosts, WhatKeepsARankFromConnectingIsNamed) {
  auto body = [](Communicator &communicator) -> std::string {
    if (communicator.rank() != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(700)); // in no call
      return "";
    }
    int next = dup(STDERR_FILENO);
    close(next);
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(next); // no descriptor is left
    setrlimit(RLIMIT_NOFILE, &limit);
    return expectStatus(communicator.channel(2, 0).wait(), StatusCode::SystemError, // 2 hosts further: no neighbour
                        {"rank 0 (host host0)", "for a signal of rank 2 (host host2) on channel 0: timed out",
                         "connecting to rank 2: Too many open files"});
  };
  EXPECT_EQ(onHosts(6, alone, {500, 1}, body), "");
}

TEST(Hosts, ASpeakerThatStopsIsNamedNotWhomItWaitedFor) {
  // Ranks 0 and 1 are on one host, and rank 0 speaks. It stops while it waits for rank 2, which comes afterwards.
  auto body = [](Communicator &communicator) -> std::string {
    if (communicator.rank() == 0)
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        kill(getpid(), SIGSTOP);
      }).detach();
    if (communicator.rank() != 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(communicator.rank() == 2 ? 700 : 0));
      return communicator.barrier().message();
    }
    return expectStatus(communicator.barrier(), StatusCode::Timeout,
                        {"rank 1 waited", "rank 0 (host host0) to call barrier: timed out"});
  };
  auto end = [](const std::vector<int> &pids) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    kill(pids[0], SIGKILL);
  };
  EXPECT_EQ(onHosts(3, pairs, {1000, 1}, body, end), "rank 0: killed by signal 9\n");
}

/// A process that the rank forked lives on, and has copies of all its descriptors.
TEST(Hosts, AKilledRankIsNamedThoughItsChildLives) {
  auto body = [](Communicator &communicator) -> std::string {
    if (Status status = communicator.barrier(); !status.isOk())
      return status.message();
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500)); // who calls after the loss is told of an abort
      if (fork() == 0) {
        sleep(4);
        _exit(0);
      }
      raise(SIGKILL);
    }
    auto start = Clock::now();
    Status status = communicator.barrier();
    if (Clock::now() - start > std::chrono::milliseconds(3500))
      return "nobody noticed for three seconds";
    return expectFailure(status, StatusCode::PeerLost, {"rank 1", "host"});
  };
  EXPECT_EQ(onHosts(3, alone, {15000, 1}, body), "rank 1: killed by signal 9\n");
}

TEST(Hosts, AStoppedRankIsATimeoutOnAllRanks) {
  auto body = [&](Communicator &communicator) -> std::string {
    if (communicator.rank() == 3)
      raise(SIGSTOP);
    return expectStatus(communicator.barrier(), StatusCode::Timeout, {"waited", "(host host", "timed out"});
  };
  auto end = [](const std::vector<int> &pids) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    kill(pids[3], SIGKILL);
  };
  EXPECT_EQ(onHosts(4, pairs, {1000, 1}, body, end), "rank 3: killed by signal 9\n");
}
