// A repeated call uses a plan, and all ranks notice what changes between calls. Only time shows that a call used a
// plan, so these tests check that it never uses a wrong one.
#include "Ranks.h"
#include "TestPlugin.h"
#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

/// What a rank contributes to a call, and what the sum over all ranks is.
int32_t repeatedValue(int rank, int64_t i, int call) {
  return static_cast<int32_t>(rank * 1009 + i * 3 + call * 17 + 1);
}
int32_t sumOf(int numRanks, int64_t i, int call) {
  int32_t sum = 0;
  for (int rank = 0; rank < numRanks; ++rank)
    sum += repeatedValue(rank, i, call);
  return sum;
}

/// An all-reduce at memory of the caller's choice, checked.
struct Job {
  const char *program = "scratchAllReduce";
  int64_t count = 16;
  int32_t *input = nullptr;
  int32_t *output = nullptr;

  Status run(Communicator &communicator) const {
    CallArguments arguments{program, *Mesh::parse("rank=" + std::to_string(communicator.size())), count, DataType::I32};
    arguments.input = input;
    arguments.output = output;
    return communicator.run(testPlugin(), arguments);
  }

  std::string runChecked(Communicator &communicator, int call) const {
    for (int64_t i = 0; i < count; ++i) {
      if (input != output)
        output[i] = -1;
      input[i] = repeatedValue(communicator.rank(), i, call);
    }
    if (Status status = run(communicator); !status.isOk())
      return "call " + std::to_string(call) + ": " + status.message() + "; ";
    for (int64_t i = 0; i < count; ++i)
      if (output[i] != sumOf(communicator.size(), i, call))
        return "call " + std::to_string(call) + ": element " + std::to_string(i) + " is " + std::to_string(output[i]) +
               "; ";
    return {};
  }
};

/// An input and an output, in windows or on the heap.
class Memory {
public:
  Memory(Communicator &communicator, bool inWindows, int64_t count) {
    auto elements = static_cast<size_t>(count);
    if (!inWindows) {
      heap.resize(2 * elements);
      return;
    }
    windows.push_back(std::move(communicator.allocate(elements * sizeof(int32_t))).value());
    windows.push_back(std::move(communicator.allocate(elements * sizeof(int32_t))).value());
  }
  Job job(const char *program, int64_t count) {
    if (windows.empty())
      return {program, count, heap.data(), heap.data() + heap.size() / 2};
    return {program, count, static_cast<int32_t *>(windows[0].data()), static_cast<int32_t *>(windows[1].data())};
  }

private:
  std::vector<int32_t> heap;
  std::vector<Window> windows;
};

std::string onEveryLaunch(int numRanks, const RankBody &body) {
  (void)testPlugin(); // before the fork
  std::string said;
  for (Launch kind : {Launch::Threads, Launch::Forked})
    for (int lanes : {1, 2})
      said += runRanks(kind, numRanks, {15000, lanes}, body);
  return said;
}

constexpr const char *programs[] = {"scratchAllReduce", "pullAllReduce"};

} // namespace

TEST(Repeat, OfSeveralCallsInTurnGivesTheRightResults) {
  EXPECT_EQ(
      onEveryLaunch(3,
                    [](Communicator &communicator) {
                      std::string said;
                      Memory windows(communicator, true, 4000), heap(communicator, false, 4000);
                      for (int call = 0; call < 300 && said.empty(); ++call) {
                        Memory &memory = call / 2 % 2 ? windows : heap;
                        said += memory.job(programs[call % 2], 1 + call / 4 % 3 * 1300).runChecked(communicator, call);
                        if (call % 50 == 49)
                          said += expectStatus(communicator.barrier(), StatusCode::Ok);
                      }
                      return said;
                    }),
      "");
}

/// More different calls in turn than are remembered.
TEST(Repeat, OfMoreCallsThanAreRememberedGivesTheRightResults) {
  EXPECT_EQ(onEveryLaunch(2,
                          [](Communicator &communicator) {
                            std::string said;
                            Memory memory(communicator, true, 40);
                            for (int call = 0; call < 200 && said.empty(); ++call)
                              said += memory.job(programs[0], 1 + call % 37).runChecked(communicator, call);
                            return said;
                          }),
            "");
}

/// Every rank changes its buffers when it likes, and is out of step with the others.
TEST(Repeat, WithBuffersThatEachRankChangesByItself) {
  EXPECT_EQ(onEveryLaunch(3,
                          [](Communicator &communicator) {
                            std::minstd_rand random(static_cast<unsigned>(communicator.rank() + 7));
                            std::vector<std::unique_ptr<Memory>> memories;
                            for (int index = 0; index < 4; ++index)
                              memories.push_back(std::make_unique<Memory>(communicator, index % 2 == 0, 500));
                            std::string said;
                            size_t index = 0;
                            for (int call = 0; call < 400 && said.empty(); ++call) {
                              if (random() % 4 == 0)
                                index = random() % memories.size();
                              said += memories[index]->job(programs[call / 40 % 2], 500).runChecked(communicator, call);
                            }
                            return said;
                          }),
            "");
}

TEST(Repeat, WhereOnlyOneRankChangesItsBuffers) {
  EXPECT_EQ(onEveryLaunch(3,
                          [](Communicator &communicator) {
                            std::string said;
                            Memory first(communicator, true, 64), second(communicator, true, 64);
                            for (int call = 0; call < 100 && said.empty(); ++call) {
                              bool isOther = communicator.rank() == 1 && call % 10 >= 5;
                              said +=
                                  (isOther ? second : first).job("pullAllReduce", 64).runChecked(communicator, call);
                            }
                            return said;
                          }),
            "");
}

/// The same call at the same addresses, but in memory that came and went in between; peers map what is there now.
TEST(Repeat, InWindowsThatAreFreedAndMadeAnew) {
  EXPECT_EQ(onEveryLaunch(2,
                          [](Communicator &communicator) {
                            std::string said;
                            for (int call = 0; call < 60 && said.empty();) {
                              Memory memory(communicator, true, 3000);
                              // One rank's stays for longer, so that only its peer changes.
                              int times = communicator.rank() == 0 ? 2 : 4;
                              for (int time = 0; time < times && said.empty(); ++time)
                                said += memory.job("pullAllReduce", 3000).runChecked(communicator, call++);
                            }
                            return said;
                          }),
            "");
}

/// A window that no call used is given back too, though all calls repeat.
TEST(Repeat, TellsThePeersOfFreedWindowsAllTheSame) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) -> std::string {
                       Memory memory(communicator, true, 64);
                       Job job = memory.job("pullAllReduce", 64);
                       std::string said = job.runChecked(communicator, 0);
                       int before = countMappings();
                       {
                         std::vector<Window> windows;
                         for (int i = 0; i < 20; ++i) {
                           windows.push_back(std::move(communicator.allocate(4096)).value());
                           if (auto remote = communicator.exchange(windows.back()); !remote.isOk())
                             return remote.status().message();
                         }
                         if (countMappings() != before + 40)
                           return std::to_string(countMappings() - before) + " more mappings, not 40";
                         said += job.runChecked(communicator, 1); // agreed again: only that windows go can end it now
                       }
                       for (int call = 2; call < 8; ++call)
                         said += job.runChecked(communicator, call);
                       return said +
                              (countMappings() == before ? "" : std::to_string(countMappings() - before) + " too many");
                     }),
            "");
}

/// Calls that the ranks disagree on after they agreed on both many times.
TEST(Repeat, NoticesThatRanksDisagree) {
  EXPECT_EQ(
      onEveryLaunch(3,
                    [](Communicator &communicator) {
                      std::string said;
                      Memory memory(communicator, true, 64);
                      Job one = memory.job("scratchAllReduce", 64), other = memory.job("scratchAllReduce", 32);
                      int call = 0;
                      for (int round = 0; round < 20 && said.empty(); ++round) {
                        for (int time = 0; time < 3; ++time) {
                          said += one.runChecked(communicator, ++call);
                          said += other.runChecked(communicator, ++call);
                        }
                        bool isOdd = communicator.rank() == round % 3;
                        said += expectStatus((isOdd ? other : one).run(communicator), StatusCode::Mismatch,
                                             {"disagree on count"});
                        said += expectStatus(isOdd ? communicator.barrier() : one.run(communicator),
                                             StatusCode::Mismatch, {"disagree on the operation", "barrier", "run"});
                        Job wrong = one;
                        wrong.output = isOdd ? nullptr : one.output;
                        said += expectStatus(wrong.run(communicator), StatusCode::InvalidArgument, {"output is null"});
                      }
                      return said;
                    }),
      "");
}

/// Two loads of one file are the same plugin to the ranks, but their code lies elsewhere.
TEST(Repeat, WithAPluginThatIsLoadedAgain) {
  (void)testPlugin();
  for (Launch kind : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(runRanks(kind, 2, {},
                       [](Communicator &communicator) -> std::string {
                         std::vector<int32_t> in(8, communicator.rank() + 1), out(8);
                         for (int round = 0; round < 10; ++round) {
                           auto plugin = Plugin::load(KOLO_TEST_PLUGIN);
                           if (!plugin.isOk())
                             return plugin.status().message();
                           CallArguments arguments{"scratchAllReduce", *Mesh::parse("rank=2"), 8, DataType::I32};
                           arguments.input = in.data();
                           arguments.output = out.data();
                           for (int time = 0; time < 3; ++time) {
                             std::fill(out.begin(), out.end(), -1);
                             if (Status status = communicator.run(*plugin, arguments); !status.isOk())
                               return status.message();
                             if (out != std::vector<int32_t>(8, 3))
                               return "wrong result";
                           }
                         }
                         return {};
                       }),
              "");
}

TEST(Repeat, ARankKilledBetweenEqualCallsIsLostToTheOthers) {
  (void)testPlugin();
  auto forked = ForkedRanks::create(3);
  auto said = runProcesses(
      3,
      [&](int rank) -> std::string {
        auto communicator = Communicator::createForked(*forked, rank, {15000, 1});
        if (!communicator.isOk())
          return communicator.status().message();
        Memory memory(*communicator, true, 64);
        Job job = memory.job("scratchAllReduce", 64);
        auto start = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - start < std::chrono::seconds(10))
          if (Status status = job.run(*communicator); !status.isOk())
            return expectFailure(status, StatusCode::PeerLost, {"rank 1 "}) +
                   expectStatus(job.run(*communicator), StatusCode::Aborted, {"rank 1 "});
        return "was never told";
      },
      [](const std::vector<int> &pids) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        kill(pids[1], SIGKILL);
      });
  EXPECT_EQ(said, (std::vector<std::string>{"", "killed by signal 9", ""}));
}
