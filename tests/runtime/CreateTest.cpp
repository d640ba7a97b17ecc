// Communicators from the caller's own all-gather: threads, processes and both, groups of every kind, and refusals.
#include "Board.h"
#include "Ranks.h"
#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

const Plugin &testPlugin() {
  static const auto plugin = Plugin::load(KOLO_TEST_PLUGIN);
  return *plugin;
}

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

TEST(Create, RanksOnOtherHostsAreRefused) {
  Board board(2);
  EXPECT_EQ(onProcesses(2,
                        [&](int rank) {
                          auto elsewhere = [&](const void *own, size_t sizeBytes, void *all) -> Status {
                            Status status = board.allGather(rank)(own, sizeBytes, all);
                            auto *second = static_cast<char *>(all) + sizeBytes;
                            std::string boot;
                            std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
                            char *found = std::search(second, second + sizeBytes, boot.begin(), boot.end());
                            if (found != second + sizeBytes)
                              ++*found;
                            return status;
                          };
                          return expectStatus(Communicator::create(rank, 2, elsewhere).status(),
                                              StatusCode::SystemError, {"rank 1", "another host"});
                        }),
            "");
}

TEST(Create, WrongPlacesAndFailedExchangesEndAtOnce) {
  auto fails = [](const void *, size_t, void *) { return Status(StatusCode::SystemError, "no network"); };
  EXPECT_EQ(expectStatus(Communicator::create(0, 2, fails).status(), StatusCode::SystemError, {"no network"}), "");
  EXPECT_EQ(expectStatus(Communicator::create(2, 2, fails).status(), StatusCode::InvalidArgument, {"rank 2"}), "");
  EXPECT_EQ(expectStatus(Communicator::create(0, maxRanks + 1, fails).status(), StatusCode::InvalidArgument, {"4097"}),
            "");
  EXPECT_EQ(expectStatus(Communicator::create(-1, 2, fails).status(), StatusCode::InvalidArgument, {"rank -1"}), "");
}
