// Ranks that die, leave, do not call or misbehave: all others return an error soon, and nothing remains.
#include "Ranks.h"
#include "TestPlugin.h"

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

/// Where all ranks meet, threads or forked processes, without the runtime. A failure also ends calls in progress, so
/// nobody may leave or die between two calls while another is still in the first.
class Meeting {
public:
  Meeting() : arrived(new (memory()) std::atomic<int>(0)) {}
  ~Meeting() { munmap(arrived, sizeof(*arrived)); }
  Meeting(const Meeting &) = delete;
  Meeting &operator=(const Meeting &) = delete;
  void waitForAll(int numRanks) {
    arrived->fetch_add(1);
    while (arrived->load() < numRanks)
      sched_yield();
  }

private:
  static void *memory() {
    return mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  std::atomic<int> *arrived;
};

Status runProgram(Communicator &communicator, const char *program, int root = 0) {
  std::vector<int32_t> in(16), out(64);
  CallArguments arguments{program, *Mesh::parse("rank=" + std::to_string(communicator.size())), 16, DataType::I32};
  arguments.root = root;
  arguments.input = in.data();
  arguments.output = out.data();
  return communicator.run(testPlugin(), arguments);
}

int64_t elapsedMs(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
}

} // namespace

TEST(Failure, ARankKilledInTheMiddleIsLostToTheOthers) {
  (void)testPlugin();
  for (int lanes : {1, 3}) {
    auto forked = ForkedRanks::create(3);
    ASSERT_TRUE(forked.isOk());
    auto said = runProcesses(
        3,
        [&](int rank) -> std::string {
          auto communicator = Communicator::createForked(*forked, rank, {15000, lanes});
          if (!communicator.isOk())
            return communicator.status().message();
          std::string wrong;
          for (int i = 0; i < 5; ++i)
            wrong += expectStatus(runProgram(*communicator, "ringAllGather"), StatusCode::Ok);
          auto start = Clock::now();
          wrong += expectStatus(runProgram(*communicator, "hang"), StatusCode::PeerLost,
                                {"for rank 2", "hang.cpp:10 send from last", "has ended"});
          if (elapsedMs(start) > 5000)
            wrong += "took " + std::to_string(elapsedMs(start)) + " ms";
          return wrong + expectStatus(communicator->barrier(), StatusCode::Aborted, {"was aborted", "rank 2"}) +
                 expectStatus(runProgram(*communicator, "ringAllGather"), StatusCode::Aborted, {"rank 2"});
        },
        [](const std::vector<int> &pids) {
          std::this_thread::sleep_for(milliseconds(400));
          kill(pids[2], SIGKILL);
        });
    EXPECT_EQ(said, (std::vector<std::string>{"", "", "killed by signal 9"}));
  }
}

TEST(Failure, ARankKilledBetweenCallsIsLostToTheOthers) {
  (void)testPlugin();
  Meeting meeting;
  auto forked = ForkedRanks::create(3);
  auto said = runProcesses(3, [&](int rank) -> std::string {
    auto communicator = Communicator::createForked(*forked, rank, {15000, 1});
    std::string wrong = expectStatus(runProgram(*communicator, "ringAllGather"), StatusCode::Ok);
    meeting.waitForAll(3);
    if (rank == 1)
      raise(SIGKILL);
    auto start = Clock::now();
    wrong +=
        expectFailure(runProgram(*communicator, "ringAllGather"), StatusCode::PeerLost, {"rank 1 has ended or left"});
    return wrong + (elapsedMs(start) > 5000 ? "too late" : "");
  });
  EXPECT_EQ(said, (std::vector<std::string>{"", "killed by signal 9", ""}));
}

TEST(Failure, ARankThatLeavesAfterACallIsNotLostToPacketsOfThatCall) {
  (void)testPlugin();
  for (Launch kind : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(runRanks(kind, 3, {600, 1},
                       [](Communicator &communicator) -> std::string {
                         if (communicator.rank() != 0) // it returns at once, and its communicator is destroyed
                           return expectStatus(runProgram(communicator, "awaitNothing"), StatusCode::Ok);
                         return expectStatus(runProgram(communicator, "awaitNothing"), StatusCode::Timeout,
                                             {"for packets", "packet.cpp:1", "timed out"});
                       }),
              "");
}

TEST(Failure, ARankThatIsKilledIsLostToPackets) {
  (void)testPlugin();
  auto forked = ForkedRanks::create(3);
  int done[2]; // rank 1 lives until rank 2 has returned, which would be told of rank 0's failure otherwise
  ASSERT_EQ(pipe(done), 0);
  auto said = runProcesses(3, [&](int rank) -> std::string {
    auto communicator = Communicator::createForked(*forked, rank, {15000, 1});
    if (rank == 0)
      return expectStatus(runProgram(*communicator, "awaitNothing"), StatusCode::PeerLost,
                          {"for packets", "rank 1 has ended"});
    std::string wrong = expectStatus(runProgram(*communicator, "awaitNothing"), StatusCode::Ok);
    char byte = 0;
    if (rank == 2)
      return write(done[1], &byte, 1) == 1 ? wrong : "rank 2 cannot write";
    if (read(done[0], &byte, 1) == 1)
      raise(SIGKILL);
    return wrong;
  });
  close(done[0]);
  close(done[1]);
  EXPECT_EQ(said, (std::vector<std::string>{"", "killed by signal 9", ""}));
}

TEST(Failure, ARankThatNeverCallsIsNamedAtTheTimeout) {
  (void)testPlugin();
  for (Launch kind : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(runRanks(kind, 3, {300, 1},
                       [](Communicator &communicator) {
                         if (communicator.rank() == 1) {
                           std::this_thread::sleep_for(milliseconds(900));
                           return expectStatus(communicator.barrier(), StatusCode::Aborted, {"for rank 1 to call run"});
                         }
                         auto start = Clock::now();
                         Status status = runProgram(communicator, "ringAllGather");
                         return expectStatus(status, StatusCode::Timeout, {"for rank 1 to call run", "timed out"}) +
                                (status.rank() == 1 ? "" : "wrong rank") +
                                (elapsedMs(start) < 250 || elapsedMs(start) > 850 ? "wrong time" : "");
                       }),
              "");
}

TEST(Failure, ASignalThatNeverComesNamesTheStatement) {
  (void)testPlugin();
  for (int lanes : {1, 2})
    EXPECT_EQ(runRanks(Launch::Threads, 3, {300, lanes},
                       [](Communicator &communicator) {
                         return expectStatus(runProgram(communicator, "hang"), StatusCode::Timeout,
                                             {"hang.cpp:", "semaphore 0", "lane ", "timed out"}) +
                                expectStatus(communicator.barrier(), StatusCode::Aborted, {"hang.cpp:"});
                       }),
              "");
}

TEST(Failure, AThreadThatLeavesIsLostToTheOthers) {
  (void)testPlugin();
  Meeting meeting;
  EXPECT_EQ(runRanks(Launch::Threads, 3, {15000, 1},
                     [&](Communicator &communicator) -> std::string {
                       std::string wrong = expectStatus(runProgram(communicator, "ringAllGather"), StatusCode::Ok);
                       meeting.waitForAll(3);
                       if (communicator.rank() == 0)
                         return wrong; // and its communicator is destroyed
                       return wrong + expectFailure(runProgram(communicator, "ringAllGather"), StatusCode::PeerLost,
                                                    {"rank 0 has ended or left"});
                     }),
            "");
}

TEST(Failure, AProgramThatMisbehavesIsTheReason) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Threads, 2, {2000, 1},
                     [](Communicator &communicator) {
                       return expectStatus(runProgram(communicator, "misbehave", 0), StatusCode::BadPlugin,
                                           {"misbehave returned 5"});
                     }),
            "");
  EXPECT_EQ(runRanks(Launch::Threads, 2, {2000, 1},
                     [](Communicator &communicator) {
                       return expectStatus(runProgram(communicator, "misbehave", 1), StatusCode::BadPlugin,
                                           {"semaphore 0 of rank 1000, which does not exist"});
                     }),
            "");
}

/// A forked child has a copy of the rank's communicator. Its calls are errors, and those of the ranks go on.
TEST(Failure, AForkedChildCannotCallForItsParent) {
  (void)testPlugin();
  for (Launch launch : {Launch::Forked, Launch::Threads, Launch::Environment})
    EXPECT_EQ(runRanks(launch, 2, {15000, 1},
                       [](Communicator &communicator) -> std::string {
                         if (Status status = runProgram(communicator, "scratchAllReduce"); !status.isOk())
                           return status.message();
                         if (communicator.rank() == 0) {
                           pid_t child = fork();
                           if (child == 0) {
                             bool areErrors = true;
                             Channel channel = communicator.channel(1, 0);
                             for (const Status &status :
                                  {communicator.barrier(), runProgram(communicator, "scratchAllReduce"),
                                   channel.signal(), channel.wait()})
                               areErrors &= expectStatus(status, StatusCode::InvalidArgument,
                                                         {"was forked from process", "which is rank 0"})
                                                .empty();
                             _exit(areErrors ? 0 : 1);
                           }
                           int status = 0;
                           if (waitpid(child, &status, 0) != child || status != 0)
                             return "the child ended with " + std::to_string(status);
                         }
                         if (Status status = communicator.barrier(); !status.isOk())
                           return status.message();
                         return runProgram(communicator, "scratchAllReduce").message();
                       }),
              "");
}

TEST(Failure, LeavesNothingBehind) {
  (void)testPlugin();
  int shared = countSharedMemory(), descriptors = countDescriptors();
  for (int round = 0; round < 2; ++round) {
    auto forked = ForkedRanks::create(2);
    Meeting called;
    auto said = runProcesses(
        2,
        [&](int rank) -> std::string {
          int before = countDescriptors();
          {
            auto communicator = Communicator::createForked(*forked, rank, {15000, 2});
            auto window = communicator->allocate(1 << 20);
            auto remote = communicator->exchange(*window);
            std::string wrong = expectStatus(runProgram(*communicator, "scratchAllReduce"), StatusCode::Ok);
            called.waitForAll(3); // with the process that kills
            (void)runProgram(*communicator, "hang");
            if (!wrong.empty())
              return wrong;
          }
          return countDescriptors() == before ? "" : "descriptors leaked";
        },
        [&](const std::vector<int> &pids) {
          called.waitForAll(3);
          std::this_thread::sleep_for(milliseconds(100));
          kill(pids[1], SIGKILL);
        });
    EXPECT_EQ(said[0], "");
  }
  EXPECT_EQ(countDescriptors(), descriptors);
  EXPECT_EQ(countSharedMemory(), shared);
}
