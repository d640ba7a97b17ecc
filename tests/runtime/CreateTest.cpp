// Communicators from the caller's own all-gather: threads, processes and both, groups of every kind, and refusals.
#include "Board.h"
#include "Ranks.h"
#include "TestPlugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

/// Sums the ranks' numbers; "" if it went well.
std::string sumRanks(Communicator &communicator) {
  int32_t in[16], out[16] = {};
  std::fill_n(in, 16, communicator.rank() + 1);
  CallArguments arguments{"scratchAllReduce", *Mesh::parse("rank=" + std::to_string(communicator.size())), 16,
                          DataType::I32};
  arguments.input = in;
  arguments.output = out;
  std::string said = expectStatus(communicator.run(testPlugin(), arguments), StatusCode::Ok);
  int32_t sum = communicator.size() * (communicator.size() + 1) / 2;
  return said + (std::count(out, out + 16, sum) == 16 ? "" : "wrong sum");
}

std::string joinAndSum(int rank, int size, const AllGather &exchange) {
  auto created = Communicator::create(rank, size, exchange, {15000, 1});
  return created.isOk() ? sumRanks(*created) : created.status().message();
}

std::string onThreads(int numThreads, const ProcessBody &body) {
  std::vector<std::string> said(static_cast<size_t>(numThreads));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < numThreads; ++thread)
    threads.emplace_back([&, thread] { said[static_cast<size_t>(thread)] = body(thread); });
  for (std::thread &thread : threads)
    thread.join();
  std::string all;
  for (const std::string &each : said)
    all += each;
  return all;
}

std::string onProcesses(int numProcesses, const ProcessBody &body) {
  (void)testPlugin(); // before the fork
  std::string all;
  for (const std::string &each : runProcesses(numProcesses, body))
    all += each;
  return all;
}

} // namespace

TEST(Create, JoinsThreads) {
  for (int size : {1, 2, 4}) {
    Board board(size);
    EXPECT_EQ(onThreads(size, [&](int rank) { return joinAndSum(rank, size, board.allGather(rank)); }), "");
  }
}

TEST(Create, JoinsProcesses) {
  for (int size : {1, 2, 4}) {
    Board board(size);
    EXPECT_EQ(onProcesses(size, [&](int rank) { return joinAndSum(rank, size, board.allGather(rank)); }), "");
  }
}

TEST(Create, JoinsProcessesOfSeveralThreads) {
  Board board(4);
  EXPECT_EQ(onProcesses(2,
                        [&](int process) {
                          return onThreads(2, [&](int thread) {
                            int rank = 2 * process + thread;
                            return joinAndSum(rank, 4, board.allGather(rank));
                          });
                        }),
            "");
}

// Communicators share what watches the processes, and close what all have mapped.
TEST(Create, ManyCommunicatorsHoldNoMoreDescriptorsThanOne) {
  constexpr int numCommunicators = 60;
  std::vector<std::unique_ptr<Board>> boards;
  for (int index = 0; index < numCommunicators; ++index)
    boards.push_back(std::make_unique<Board>(4));
  EXPECT_EQ(onProcesses(4,
                        [&](int rank) -> std::string {
                          std::vector<Communicator> own;
                          int first = 0;
                          for (const std::unique_ptr<Board> &board : boards) {
                            auto created = Communicator::create(rank, 4, board->allGather(rank), {15000, 1});
                            if (!created.isOk())
                              return created.status().message();
                            own.push_back(std::move(created).value());
                            if (std::string wrong = sumRanks(own.back()); !wrong.empty())
                              return wrong;
                            if (first == 0)
                              first = countDescriptors();
                          }
                          int last = countDescriptors();
                          own.erase(own.begin(), own.begin() + numCommunicators / 2); // what they share lives on
                          std::string said;
                          for (Communicator &communicator : own)
                            said += sumRanks(communicator) + expectStatus(communicator.barrier(), StatusCode::Ok);
                          return last <= first ? said : std::to_string(first) + " grew to " + std::to_string(last);
                        }),
            "");
}

// Every process is in four groups at a time, makes them anew and destroys them in an order of its own.
TEST(Create, GroupsComeAndGoInAnyOrderAndLeaveNothing) {
  const std::vector<std::vector<int>> groups = {{0, 1, 2, 3}, {0, 1}, {2, 3}, {3, 0, 2}, {1, 3}, {2, 0}, {3, 2, 1, 0}};
  std::vector<std::unique_ptr<Board>> boards;
  for (const std::vector<int> &group : groups)
    boards.push_back(std::make_unique<Board>(static_cast<int>(group.size())));
  EXPECT_EQ(onProcesses(4,
                        [&](int process) {
                          std::string said;
                          std::mt19937 random(static_cast<unsigned>(process));
                          int descriptors = countDescriptors(), mappings = countMappings();
                          for (int time = 0; time < 10; ++time) {
                            std::vector<Communicator> own;
                            for (size_t index = 0; index < groups.size(); ++index) {
                              auto place = std::find(groups[index].begin(), groups[index].end(), process);
                              if (place == groups[index].end())
                                continue;
                              auto rank = static_cast<int>(place - groups[index].begin());
                              auto created = Communicator::create(rank, static_cast<int>(groups[index].size()),
                                                                  boards[index]->allGather(rank), {15000, 1});
                              if (!created.isOk())
                                return created.status().message();
                              own.push_back(std::move(created).value());
                            }
                            for (Communicator &communicator : own)
                              said += sumRanks(communicator);
                            for (Communicator &communicator : own) // nobody leaves while others use a group
                              said += expectStatus(communicator.barrier(), StatusCode::Ok);
                            while (!own.empty()) {
                              std::swap(own[random() % own.size()], own.back());
                              own.pop_back();
                            }
                          }
                          if (countDescriptors() != descriptors || countMappings() != mappings)
                            said += "left descriptors or mappings behind";
                          return said;
                        }),
            "");
}

TEST(Create, RefusalsOfOneRankReachAll) {
  Board board(3);
  auto create = [&](int rank, const CommunicatorOptions &options, const AllGather &exchange) {
    return Communicator::create(rank, 3, exchange, options).status();
  };
  EXPECT_EQ(onThreads(3,
                      [&](int rank) {
                        return expectStatus(create(rank, {rank == 1 ? 0 : 9000, 1}, board.allGather(rank)),
                                            StatusCode::InvalidArgument, {"rank 1", "timeoutMs"});
                      }),
            "");
  EXPECT_EQ(onThreads(3,
                      [&](int rank) {
                        return expectStatus(create(rank, {9000, rank == 2 ? 2 : 1}, board.allGather(rank)),
                                            StatusCode::Mismatch, {"lanes", "rank 2 has 2"});
                      }),
            "");
  EXPECT_EQ(onThreads(3,
                      [&](int rank) { // one rank's exchange numbers the ranks in another way
                        return expectStatus(create(rank, {9000, 1}, board.allGather(2 - rank)), StatusCode::Mismatch,
                                            {"exchange gave rank 2 of 3 at the place of rank 0"});
                      }),
            "");
}

TEST(Create, RanksOfSeveralHostsMeet) {
  for (const HostOf &hostOf : {HostOf(pairs), HostOf(alone)}) {
    Board board(4);
    EXPECT_EQ(onProcesses(4,
                          [&](int rank) -> std::string {
                            setenv("KOLO_HOSTID", hostOf(rank).c_str(), 1);
                            auto created = Communicator::create(rank, 4, board.allGather(rank), {15000, 1});
                            if (!created.isOk())
                              return created.status().message();
                            return sumRanks(*created) + (created->traffic().connections > 0 ? "" : "no connections");
                          }),
              "");
  }
}

TEST(Create, AllRanksOfSeveralHostsKnowWhatTheyCarry) {
  Board board(4);
  EXPECT_EQ(onProcesses(4,
                        [&](int rank) -> std::string {
                          setenv("KOLO_HOSTID", pairs(rank).c_str(), 1);
                          auto created = Communicator::create(rank, 4, board.allGather(rank), {15000, 1});
                          if (!created.isOk())
                            return created.status().message();
                          std::vector<Mesh> meshes = created->meshes();
                          if (meshes.size() != 2 || meshes[0].toString() != "node=2,gpu=2" ||
                              meshes[1].toString() != "rank=4")
                            return "other meshes";
                          CallArguments call{"scratchAllReduce", meshes[1], 16, DataType::I32};
                          std::string said = expectStatus(created->carries(testPlugin(), call), StatusCode::Ok);
                          call.program = "pullAllReduce";
                          return said + expectStatus(created->carries(testPlugin(), call), StatusCode::UnsupportedMesh,
                                                     {"along dimension rank", "host0", "host1", "--network rank"});
                        }),
            "");
}

TEST(Create, WhatKeepsHostsApartIsNamedByAll) {
  struct Case {
    const char *variable, *value;
    StatusCode code;
    std::vector<std::string> says;
  };
  std::vector<Case> cases = {
      {"KOLO_NETWORK_INTERFACE", "nosuch", StatusCode::InvalidArgument, {"rank 1", "'nosuch' is no network interface"}},
      {"KOLO_SECRET", "short", StatusCode::InvalidArgument, {"rank 1", "KOLO_SECRET"}},
      {"KOLO_TIMEOUT_MS", "9000", StatusCode::Mismatch, {"rank 0 has 15000 ms, rank 1 has 9000 ms"}}};
  ScopedVariable secret("KOLO_SECRET", "a secret of the tests");
  if (isSecretSet().isOk()) // with libsodium
    for (const char *other : {"another secret of them", ""})
      cases.push_back({"KOLO_SECRET",
                       other,
                       StatusCode::Mismatch,
                       {"ranks disagree on KOLO_SECRET", *other ? "rank 1 has another one" : "rank 1 has none"}});
  for (const Case &each : cases) {
    Board board(3);
    EXPECT_EQ(onProcesses(3,
                          [&](int rank) {
                            setenv("KOLO_HOSTID", alone(rank).c_str(), 1);
                            if (std::string_view(each.variable) != "KOLO_SECRET" || each.says[0] == "rank 1")
                              unsetenv("KOLO_SECRET");
                            if (rank == 1 && *each.value)
                              setenv(each.variable, each.value, 1);
                            else if (rank == 1)
                              unsetenv(each.variable);
                            auto created = Communicator::create(rank, 3, board.allGather(rank), {15000, 1});
                            return expectStatus(created.status(), each.code, each.says);
                          }),
              "")
        << each.variable << "=" << each.value;
  }
}

TEST(Create, WrongPlacesAndFailedExchangesEndAtOnce) {
  auto fails = [](const void *, size_t, void *) { return Status(StatusCode::SystemError, "no network"); };
  EXPECT_EQ(expectStatus(Communicator::create(0, 2, fails).status(), StatusCode::SystemError, {"no network"}), "");
  EXPECT_EQ(expectStatus(Communicator::create(2, 2, fails).status(), StatusCode::InvalidArgument, {"rank 2"}), "");
  EXPECT_EQ(
      expectStatus(Communicator::create(0, maxRanks + 1, fails).status(), StatusCode::InvalidArgument, {"131073"}), "");
  EXPECT_EQ(expectStatus(Communicator::create(-1, 2, fails).status(), StatusCode::InvalidArgument, {"rank -1"}), "");
}
