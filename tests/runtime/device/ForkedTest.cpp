// One rank per process or per thread: each maps memory of its peers, and notices peers that die or do not call.
#include "../../support/Sanitizers.h"
#include "device/Member.h"

#include <csignal>
#include <thread>

using namespace kolo::test;

class DeviceLaunches : public testing::TestWithParam<Launch> {};

TEST_P(DeviceLaunches, RanksReachEachOthersMemory) {
  for (const char *program : {"ringAllGather", "pullAllReduce", "scratchAllReduce"})
    for (int64_t count : {0, 1, 17, 1000})
      EXPECT_EQ(inAll(GetParam(), [&](Communicator &host) { return Member(host, jobOf(program, count)).run(4); }), "")
          << program;
}

TEST_P(DeviceLaunches, ARankThatHasNoDeviceIsToldToAll) {
  for (int again = 0; again < 10; ++again)
    EXPECT_EQ(inAll(GetParam(),
                    [&](Communicator &host) -> std::string {
                      int rank = host.rank();
                      auto made = DeviceCommunicator::create(std::move(host), rank == 1 ? 7 : 0);
                      return expectStatus(made.status(), StatusCode::InvalidArgument, {"cuda device 7", "there are 2"});
                    }),
              "");
}

TEST_P(DeviceLaunches, RanksThatWantDifferentLanesAreTold) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    int lanes = host.rank() == 2 ? 3 : 2;
                    auto made = DeviceCommunicator::create(std::move(host), 0, {.lanes = lanes});
                    return expectStatus(made.status(), StatusCode::Mismatch,
                                        {"ranks disagree on lanes", "rank 2 has 3"});
                  }),
            "");
}

TEST_P(DeviceLaunches, VirtualMemoryIsSharedToo) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) {
                    return Member(host, jobOf("pullAllReduce"), {}, DeviceMemoryKind::Virtual).run(3);
                  }),
            "");
}

TEST_P(DeviceLaunches, CallsWithSkewNeedNoWaitingBetweenThem) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    int rank = host.rank();
                    Member member(host, jobOf("scratchAllReduce"));
                    member.rank.fill(0);
                    for (int call = 0; call < 30; ++call) {
                      if (call % numRanks == rank)
                        std::this_thread::sleep_for(std::chrono::milliseconds(2));
                      if (Status status = member.start(); !status.isOk())
                        return status.message();
                    }
                    Status status = member.communicator.synchronize();
                    return status.message() + member.rank.check(0);
                  }),
            "");
}

TEST_P(DeviceLaunches, ADisagreementEndsTheCallOnAllRanks) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"));
                    member.job.count = member.communicator.ranks().front() == 1 ? 7 : 8;
                    return expectStatus(member.finish(), StatusCode::Mismatch, {"ranks disagree on count", "rank 1"}) +
                           expectStatus(member.start(), StatusCode::Aborted, {"ranks disagree on count"});
                  }),
            "");
}

TEST_P(DeviceLaunches, RanksThatDisagreeOnLanesEndTheCall) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"), {.threads = 64});
                    member.job.lanes = member.communicator.ranks().front() == 1 ? 3 : 4;
                    return expectStatus(member.finish(), StatusCode::Mismatch,
                                        {"ranks disagree on lanes", "rank 1 has 3"});
                  }),
            "");
}

TEST_P(DeviceLaunches, ACollectiveThatOneRankAloneAsksForEndsTheCallOnAllRanks) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"));
                    bool isWrong = member.communicator.ranks().front() == 1;
                    if (isWrong)
                      member.job.collective = kolo::runtime::CollectiveKind::AllReduce;
                    return expectStatus(member.finish(), StatusCode::InvalidArgument,
                                        {isWrong ? "" : "rank 1: ", "program 'ringAllGather' is no all_reduce"});
                  }),
            "");
}

TEST_P(DeviceLaunches, ACallThatAllRanksRefuseLeavesTheCommunicatorUsable) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"));
                    std::string wrong;
                    for (int turn = 0; turn < 3; ++turn) {
                      member.job.collective = kolo::runtime::CollectiveKind::AllReduce;
                      wrong += expectStatus(member.start(), StatusCode::InvalidArgument,
                                            {"program 'ringAllGather' is no all_reduce"});
                      member.job.collective = {};
                      wrong += member.run(2);
                    }
                    return wrong;
                  }),
            "");
}

TEST_P(DeviceLaunches, BuffersThatOneRankAloneChangesMakeAnotherCall) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("pullAllReduce"));
                    int number = member.communicator.ranks().front();
                    Rank other(member.communicator, number, member.job);
                    std::string wrong;
                    for (int call = 0; call < 8 && wrong.empty(); ++call) {
                      if (number == call % numRanks)
                        std::swap(member.rank, other);
                      wrong = member.run(2);
                    }
                    return wrong;
                  }),
            "");
}

TEST_P(DeviceLaunches, APluginThatOneRankLoadsAgainIsTheSameProgramToAll) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("scratchAllReduce"));
                    std::string wrong = member.run(2);
                    if (member.communicator.ranks().front() == 1)
                      member.plugin = std::move(*Plugin::load(KOLO_TEST_DEVICE_PLUGIN));
                    return wrong + member.run(2);
                  }),
            "");
}

TEST_P(DeviceLaunches, ARefusalOnOneRankEndsTheCallOnAllRanks) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"));
                    int rank = member.communicator.ranks().front();
                    CallArguments arguments = member.job.arguments();
                    arguments.input = rank == 2 ? &rank : member.rank.buffers().input;
                    arguments.output = member.rank.buffers().output;
                    Status status = member.communicator.run(devicePlugin(), arguments, member.stream.handle());
                    if (status.isOk())
                      status = member.communicator.synchronize();
                    std::string who = rank == 2 ? "input" : "rank 2: input";
                    return expectStatus(status, StatusCode::InvalidArgument, {who, "is not memory of device"});
                  }),
            "");
}

TEST_P(DeviceLaunches, MoreLanesOfAllRanksThanTheDeviceHoldsAreRefused) {
  ScopedVariable small("KOLO_STANDIN_RESIDENT", "6"); // ranks 0 and 2 share a device
  EXPECT_EQ(
      inAll(GetParam(), [&](Communicator &host) { return Member(host, jobOf("ringAllGather"), {.lanes = 3}).run(1); }),
      "");
  std::string said =
      inAll(GetParam(), [&](Communicator &host) { return Member(host, jobOf("ringAllGather"), {.lanes = 4}).run(1); });
  EXPECT_NE(said.find("2 ranks of 4 lanes are 8 blocks"), std::string::npos) << said;
}

TEST_P(DeviceLaunches, AKernelThatWaitsInVainEndsItForAll) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("hang"), {.lanes = 2, .timeoutMs = 20});
                    Status status = member.start();
                    if (status.isOk())
                      status = member.communicator.synchronize();
                    return expectStatus(status, StatusCode::Timeout, {"program hang, hang.cpp:", "timed out"}) +
                           expectStatus(member.start(), StatusCode::Aborted, {"hang.cpp:"});
                  }),
            "");
}

TEST_P(DeviceLaunches, ARankThatDoesNotCallIsMissed) {
  if (isThreadSanitized && GetParam() == Launch::Threads)
    GTEST_SKIP() << "a call that fails copies its output while a peer may still write: nobody reads it";
  std::string said = inAll(GetParam(), [&](Communicator &host) -> std::string {
    Member member(host, jobOf("ringAllGather"), {.lanes = 2, .timeoutMs = 100});
    if (member.communicator.ranks().front() != 1) // the others wait for each other too
      return expectStatus(member.finish(), StatusCode::Timeout, {"ring.cpp:", "timed out"});
    while (member.communicator.query().isOk())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return "";
  });
  EXPECT_EQ(said, "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceLaunches, testing::Values(Launch::Threads, Launch::Forked, Launch::Environment),
                         testing::PrintToStringParamName());

TEST(DeviceProcesses, ARankThatIsKilledIsLostToTheOthers) {
  (void)devicePlugin();
  auto forked = kolo::runtime::ForkedRanks::create(numRanks);
  ASSERT_TRUE(forked.isOk());
  auto said = runProcesses(numRanks, [&](int rank) -> std::string {
    auto host = Communicator::createForked(*forked, rank, {.timeoutMs = 15000});
    Member member(*host, jobOf("hang"), {.lanes = 2, .timeoutMs = 15000});
    if (Status status = member.start(); !status.isOk())
      return status.message();
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      raise(SIGKILL);
    }
    auto begin = std::chrono::steady_clock::now();
    Status status = member.communicator.synchronize();
    auto elapsed = std::chrono::steady_clock::now() - begin;
    return expectStatus(status, StatusCode::PeerLost, {"hang.cpp:10 send from last", "rank 2 has ended or left"}) +
           (status.rank() == 2 ? "" : "another rank is blamed") + (elapsed < std::chrono::seconds(5) ? "" : "too late");
  });
  EXPECT_EQ(said, (std::vector<std::string>{"", "", "killed by signal 9"}));
}

TEST(DeviceProcesses, MemoryThatComesAgainAtTheSameAddressIsAnother) {
  EXPECT_EQ(inAll(Launch::Forked,
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"));
                    std::string wrong = member.run(2);
                    for (int again = 0; again < 3 && wrong.empty(); ++again) {
                      member.rank = Rank(member.communicator, member.communicator.ranks().front(), member.job);
                      wrong = member.run(2);
                    }
                    return wrong;
                  }),
            "");
}

TEST(DeviceProcesses, MoreDifferentCallsThanAreKeptAreRightToo) {
  EXPECT_EQ(inAll(Launch::Forked,
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("scratchAllReduce", 400));
                    for (int64_t count = 1; count < 300; ++count) {
                      member.job.count = count;
                      if (Status status = member.start(); !status.isOk())
                        return status.message();
                    }
                    member.job.count = 400;
                    return member.communicator.synchronize().message() + member.run(2);
                  }),
            "");
}
