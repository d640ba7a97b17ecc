// Calls that return before their peers call: hosts and streams that are late and out of step, graphs, groups of calls
// by one thread, and internal memory that must grow.
#include "device/Graph.h"
#include "device/Member.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

using namespace kolo::test;

namespace {

using std::chrono::milliseconds;

/// Other threads may call what a capture forbids.
constexpr CUstreamCaptureMode perThread = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

/// A number that all ranks see, be they threads or forked processes.
class SharedNumber {
public:
  std::atomic<int> &operator*() const { return *number; }
  ~SharedNumber() { munmap(number, sizeof(*number)); }
  SharedNumber() = default;
  SharedNumber(const SharedNumber &) = delete;
  SharedNumber &operator=(const SharedNumber &) = delete;

private:
  std::atomic<int> *number = static_cast<std::atomic<int> *>(
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
};

/// Different calls, each after a delay of the host, on two streams; all are checked at the end.
std::string runLate(Communicator &host, int numCalls, int mostDelayMs) {
  std::minstd_rand random(static_cast<unsigned>(host.rank() + 1));
  Member member(host, jobOf("ringAllGather"), smallOptions);
  DeviceStream second = std::move(*member.communicator.createStream(member.communicator.ranks().front()));
  std::vector<OtherCall> calls;
  for (int call = 0; call < numCalls; ++call) // equal on all ranks: 20,000 elements go in pieces
    calls.emplace_back(member, jobOf(programs[call % 3], call % 2 ? 100 + call % 4 : 20000), call);
  for (const OtherCall &call : calls) {
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution<int>(0, mostDelayMs)(random)));
    if (Status status = call.start(member, (call.turn / 2 % 2 ? second : member.stream).handle()); !status.isOk())
      return status.message();
  }
  std::string wrong = member.communicator.synchronize().message();
  for (const OtherCall &call : calls)
    wrong += call.check();
  return wrong;
}

/// The ranks of a device have more streams than the 8 queues that it has unless a program asks for more.
std::string runAllLate(Launch launch, int numCalls, int mostDelayMs) {
  ScopedVariable queues("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  return inAll(launch, [&](Communicator &host) { return runLate(host, numCalls, mostDelayMs); });
}

} // namespace

class Enqueue : public testing::TestWithParam<Launch> {};

TEST_P(Enqueue, ACallReturnsBeforeItsPeersCall) {
  SharedNumber turn; // the number of the rank that may call
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"), {.lanes = 2}); // has room for all, so no rank waits
                    std::vector<OtherCall> calls;
                    for (const char *program : programs)
                      for (int64_t count : {0, 17, 1000, 300000}) // new calls, and such that go in pieces
                        calls.emplace_back(member, jobOf(program, count), int(count));
                    while (*turn != member.communicator.ranks().front())
                      std::this_thread::yield();
                    for (const OtherCall &call : calls)
                      if (Status status = call.start(member, member.stream.handle()); !status.isOk())
                        return status.message();
                    ++*turn;
                    std::string wrong = member.communicator.synchronize().message();
                    for (const OtherCall &call : calls)
                      wrong += call.check();
                    return wrong;
                  }),
            "");
}

/// 600 calls of each rank, which are all new: more than twice as many as it keeps. The ranks start theirs one after
/// another.
std::string runManyCalls(Communicator &host, std::atomic<int> &turn, bool inWindows) {
  Member member(host, jobOf("ringAllGather", 4));
  DeviceBuffer outputs = std::move(*member.communicator.allocate(member.communicator.ranks().front(), 600 * 64));
  CallArguments arguments = member.job.arguments();
  arguments.input = member.rank.buffers().input;
  void *input = const_cast<void *>(arguments.input), *output = outputs.data();
  if (inWindows)
    for (const Status &status : {member.communicator.registerWindow({&input, 1}, 4 * sizeof(int32_t)),
                                 member.communicator.registerWindow({&output, 1}, outputs.sizeBytes())})
      if (!status.isOk())
        return status.message();
  member.rank.fill(1);
  while (turn != member.communicator.ranks().front())
    std::this_thread::yield();
  for (size_t call = 0; call < 600; ++call) { // each is new, because its output is
    arguments.output = static_cast<std::byte *>(outputs.data()) + call * 64;
    Status status = member.communicator.run(member.plugin, arguments, member.stream.handle());
    if (!status.isOk())
      return status.message();
  }
  ++turn;
  std::string wrong = member.communicator.synchronize().message();
  std::vector<int32_t> found(outputs.sizeBytes() / sizeof(int32_t));
  wrong += outputs.read(0, found.data(), outputs.sizeBytes()).message();
  for (size_t call = 0; call < 600; ++call)
    for (int64_t index = 0; index < 4 * numRanks; ++index)
      if (found[call * 16 + size_t(index)] != elementOf(int(index / 4), index % 4, 1))
        return "call " + std::to_string(call) + " is wrong";
  return wrong;
}

TEST_P(Enqueue, MoreCallsThanARankKeepsWaitForNothing) {
  for (bool inWindows : {false, true}) {
    SharedNumber turn;
    EXPECT_EQ(inAll(GetParam(), [&](Communicator &host) { return runManyCalls(host, *turn, inWindows); }), "");
  }
}

TEST_P(Enqueue, HostsAndStreamsMayBeLate) {
  ScopedVariable late("KOLO_STANDIN_LATE_US", "3000");
  EXPECT_EQ(runAllLate(GetParam(), 12, 50), "");
}

TEST_P(Enqueue, AHostMayBeLateByASecond) { EXPECT_EQ(runAllLate(GetParam(), 2, 1000), ""); }

TEST_P(Enqueue, ACallInPlaceIsRightInPieces) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"), smallOptions);
                    std::string wrong;
                    for (const char *program : programs) {
                      member.changeJob(jobOf(program, 9000), true);
                      wrong += member.run(3);
                    }
                    return wrong;
                  }),
            "");
}

TEST_P(Enqueue, CallsMayBeCapturedAndTheirGraphsLaunchedOutOfStep) {
  ScopedVariable late("KOLO_STANDIN_LATE_US", "2000");
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    int number = host.rank();
                    std::string wrong;
                    Member member(host, jobOf("ringAllGather"), smallOptions);
                    for (int64_t count : {100, 5000}) { // the latter in pieces
                      member.changeJob(jobOf("scratchAllReduce", count));
                      Graph graph(member.stream.handle(), [&] { wrong += member.start().message(); }, perThread);
                      for (int turn = 0; turn < 3; ++turn) {
                        member.rank.fill(turn);
                        std::this_thread::sleep_for(milliseconds(number * 10));
                        graph.launchAndWait(member.stream);
                        wrong += member.rank.check(turn);
                      }
                      wrong += member.communicator.query().message();
                    }
                    return wrong;
                  }),
            "");
}

TEST_P(Enqueue, InternalMemoryGrowsWithTheCallsAndIsUsedAgain) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("scratchAllReduce", 300), smallOptions);
                    std::string wrong;
                    Graph graph(member.stream.handle(), [&] { wrong += member.start().message(); }, perThread);
                    OtherCall other(member, jobOf("scratchAllReduce", 700), 0);
                    for (int64_t count = 301; count < 700 && wrong.empty(); ++count) { // more than 64 times 64 KiB
                      other.job.count = count;
                      wrong += other.start(member, member.stream.handle()).message();
                    }
                    other.job.count = 700;
                    wrong += other.start(member, member.stream.handle()).message();
                    wrong += member.communicator.synchronize().message() + other.check();
                    for (int turn = 0; turn < 2; ++turn) {
                      member.rank.fill(turn);
                      graph.launchAndWait(member.stream);
                      wrong += member.rank.check(turn);
                    }
                    return wrong;
                  }),
            "");
}

TEST_P(Enqueue, ARankThatDoesNotComeWhenMemoryMustGrowIsNamed) {
  EXPECT_EQ(inAll(
                GetParam(),
                [&](Communicator &host) -> std::string {
                  // One piece of a program that is not proved needs staging memory of its own.
                  Member member(host, jobOf("hang", 100000), {.lanes = 2, .timeoutMs = 500, .internalBytes = 64 << 10});
                  if (member.communicator.ranks().front() != 1)
                    return expectStatus(member.start(), StatusCode::Timeout, {"for rank 1"});
                  while (member.communicator.query().isOk())
                    std::this_thread::sleep_for(milliseconds(10));
                  return "";
                },
                500),
            "");
}

TEST_P(Enqueue, ARankThatAbortsEndsTheCallsOfTheOthers) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"), smallOptions);
                    const char *text = "rank 1 aborted this communicator";
                    if (member.communicator.ranks().front() != 1) {
                      member.rank.fill(0);
                      return expectStatus(queryUntilFailure(member, member.start()), StatusCode::PeerLost, {text});
                    }
                    std::string wrong = member.run(1); // so all ranks have called
                    member.communicator.abort();
                    return wrong + expectStatus(member.start(), StatusCode::Aborted, {text});
                  }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Enqueue, testing::Values(Launch::Threads, Launch::Forked),
                         testing::PrintToStringParamName());

namespace {

/// Rank 2 is killed after a call; the others do `then`.
void expectLoss(int64_t count, const std::function<std::string(Member &)> &then) {
  (void)devicePlugin();
  auto forked = kolo::runtime::ForkedRanks::create(numRanks);
  ASSERT_TRUE(forked.isOk());
  auto said = runProcesses(numRanks, [&](int rank) -> std::string {
    auto host = Communicator::createForked(*forked, rank, {.timeoutMs = 15000});
    Member member(*host, jobOf("ringAllGather", count), {.lanes = 2, .timeoutMs = 15000});
    std::string wrong = member.run(1);
    if (rank == 2)
      raise(SIGKILL);
    return wrong + then(member);
  });
  EXPECT_EQ(said, (std::vector<std::string>{"", "", "killed by signal 9"}));
}

} // namespace

TEST(EnqueueProcesses, ARankThatIsKilledInACallIsLostToTheOthers) {
  expectLoss(300000, [](Member &member) {
    return expectStatus(member.finish(), StatusCode::PeerLost, {"ring.cpp:", "rank 2 has ended or left"});
  });
}

TEST(EnqueueProcesses, ARankThatIsKilledIsNoticedByQuery) {
  expectLoss(1000, [](Member &member) {
    return expectStatus(queryUntilFailure(member, member.start()), StatusCode::PeerLost, {"rank 2 has ended or left"});
  });
}

namespace {

/// The ranks of several devices, made by a thread each, as ncclCommInitAll does; then one thread has them all.
std::vector<std::unique_ptr<Member>> makeForOneThread(const Job &job, const DeviceOptions &options) {
  auto hosts = Communicator::createThreads(numRanks, {.timeoutMs = 10000});
  std::vector<std::unique_ptr<Member>> members(numRanks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < members.size(); ++rank)
    threads.emplace_back([&, rank] { members[rank] = std::make_unique<Member>((*hosts)[rank], job, options); });
  for (std::thread &thread : threads)
    thread.join();
  return members;
}

void destroyTogether(std::vector<std::unique_ptr<Member>> members) {
  std::vector<std::thread> threads;
  for (std::unique_ptr<Member> &member : members)
    threads.emplace_back([&member] { member.reset(); });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

TEST(EnqueueOneThread, StartsTheCallsOfAllItsRanksOneAfterTheOther) {
  for (int64_t count : {1000, 300000}) {
    auto members = makeForOneThread(jobOf("pullAllReduce", count), {.lanes = 2});
    for (int turn = 0; turn < 3; ++turn) {
      for (auto &member : members)
        member->rank.fill(turn);
      for (auto &member : members)
        ASSERT_EQ(member->start().message(), "");
      for (auto &member : members)
        EXPECT_EQ(member->communicator.synchronize().message() + member->rank.check(turn), "");
    }
    destroyTogether(std::move(members));
  }
}

TEST(EnqueueOneThread, RunsAGroupWhoseCallsNeedMoreInternalMemory) {
  auto members = makeForOneThread(jobOf("scratchAllReduce", 200), smallOptions);
  std::vector<std::vector<OtherCall>> calls(members.size());
  std::vector<kolo::runtime::DeviceCall> group;
  for (int turn = 0; turn < 60; ++turn) // new calls, up to twice what there is at first
    for (size_t rank = 0; rank < members.size(); ++rank)
      calls[rank].emplace_back(*members[rank], jobOf("scratchAllReduce", 150 + turn), turn);
  for (int turn = 0; turn < 60; ++turn)
    for (size_t rank = 0; rank < members.size(); ++rank) {
      const OtherCall &call = calls[rank][size_t(turn)];
      CallArguments arguments = call.job.arguments();
      arguments.input = call.rank.buffers().input;
      arguments.output = call.rank.buffers().output;
      group.push_back({&members[rank]->communicator, &devicePlugin(), arguments, members[rank]->stream.handle()});
    }
  EXPECT_EQ(DeviceCommunicator::runGroup(group).message(), "");
  for (size_t rank = 0; rank < members.size(); ++rank) {
    EXPECT_EQ(members[rank]->communicator.synchronize().message(), "");
    for (const OtherCall &call : calls[rank])
      EXPECT_EQ(call.check(), "");
  }
  group.front().plugin = nullptr;
  EXPECT_EQ(expectStatus(DeviceCommunicator::runGroup(group), StatusCode::InvalidArgument, {"has no plugin"}), "");
  destroyTogether(std::move(members));
}

TEST(EnqueueOneThread, RepeatedCallsAllocateNothingAndLaunchOnce) {
  auto members = makeForOneThread(jobOf("scratchAllReduce", 1000), {.lanes = 2});
  int64_t alive = 0, launches = 0;
  for (int turn = 0; turn < 10; ++turn) {
    if (turn == 1)
      alive = liveHandles(), launches = numLaunches();
    for (auto &member : members)
      member->rank.fill(turn);
    for (auto &member : members)
      ASSERT_EQ(member->start().message(), "");
    for (auto &member : members)
      EXPECT_EQ(member->communicator.synchronize().message() + member->rank.check(turn), "");
  }
  EXPECT_EQ(liveHandles(), alive);
  EXPECT_EQ(numLaunches() - launches, 9 * numRanks);
  destroyTogether(std::move(members));
}

TEST(HeavyEnqueue, HostsAndStreamsMayBeLateByUpToASecondInThreads) {
  ScopedVariable late("KOLO_STANDIN_LATE_US", "20000");
  EXPECT_EQ(runAllLate(Launch::Threads, 8, 1000), "");
}

/// By itself: a process that forks has no other threads.
TEST(HeavyEnqueue, HostsAndStreamsMayBeLateByUpToASecondInProcesses) {
  ScopedVariable late("KOLO_STANDIN_LATE_US", "20000");
  EXPECT_EQ(runAllLate(Launch::Forked, 8, 1000), "");
}
