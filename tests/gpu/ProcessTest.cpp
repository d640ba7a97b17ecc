// One rank per process, on as many devices as there are: memory is mapped across processes, and a rank that is killed
// or does not call is missed.
#include "Member.h"

#include <gtest/gtest.h>

#include <csignal>

using namespace kolo::test;
using kolo::runtime::DeviceMemoryKind;

namespace {

constexpr int numRanks = 4;
constexpr int64_t count = 5000;

/// What every rank said, each in a process that touched no device before; nothing where there is none.
std::vector<std::string> inProcesses(const std::function<std::string(int rank, Communicator host)> &body) {
  auto forked = kolo::runtime::ForkedRanks::create(numRanks);
  return runProcesses(numRanks, [&](int rank) -> std::string {
    if (std::string why = whyNoDevice(); !why.empty())
      return "no device: " + why;
    return guarded([&] {
      auto host = Communicator::createForked(*forked, rank, {.timeoutMs = 15000});
      return host.isOk() ? body(rank, std::move(*host)) : host.status().message();
    });
  });
}

} // namespace

#define SKIP_WITHOUT_DEVICE(said)                                                                                      \
  if ((said)[0].starts_with("no device"))                                                                              \
  GTEST_SKIP() << (said)[0]

TEST(DeviceProcesses, RanksReachEachOthersMemoryUntilOneIsKilled) {
  DeviceAlgorithm algorithm("ringAllGather", "bulk", "sm_70");
  std::vector<std::string> said = inProcesses([&](int rank, Communicator host) {
    Member member(std::move(host), algorithm, count);
    std::string wrong;
    for (uint64_t turn = 0; turn < 5; ++turn)
      wrong += member.run(turn);
    // Whoever begins another call has seen all others end theirs; that one may end before it is missed that somebody is
    // gone.
    Status status = member.start();
    if (rank == 2)
      raise(SIGKILL);
    for (int call = 0; call < 3 && status.isOk(); ++call) {
      status = member.finish();
      if (status.isOk())
        status = member.start();
    }
    bool isKnown = status.code() == StatusCode::PeerLost || status.code() == StatusCode::Aborted;
    return wrong +
           (isKnown && status.message().find("rank 2") != std::string::npos ? "" : "not missed: " + status.message());
  });
  SKIP_WITHOUT_DEVICE(said);
  EXPECT_EQ(said, (std::vector<std::string>{"", "", "killed by signal 9", ""}));
}

TEST(DeviceProcesses, RanksReachMemoryOfTheVirtualMemoryInterface) {
  DeviceAlgorithm algorithm("ringAllReduce", "bulk", "sm_70");
  std::vector<std::string> said = inProcesses([&](int, Communicator host) {
    Member member(std::move(host), algorithm, count, {.lanes = 4}, DeviceMemoryKind::Virtual);
    return member.run(0) + member.run(1);
  });
  SKIP_WITHOUT_DEVICE(said);
  EXPECT_EQ(said, std::vector<std::string>(numRanks));
}

TEST(DeviceProcesses, CallsWithSkewNeedNoWaitingBetweenThem) {
  DeviceAlgorithm algorithm("ringAllReduce", "bulk", "sm_70");
  std::vector<std::string> said = inProcesses([&](int rank, Communicator host) {
    Member member(std::move(host), algorithm, count);
    return runWithSkew(member, rank, numRanks, 10);
  });
  SKIP_WITHOUT_DEVICE(said);
  EXPECT_EQ(said, std::vector<std::string>(numRanks));
}

TEST(DeviceProcesses, ARankThatDoesNotCallIsMissed) {
  DeviceAlgorithm algorithm("ringAllGather", "bulk", "sm_70");
  int timeoutMs = isStandIn() ? 5 : 500; // its blocks are threads of a machine that may be busy
  std::vector<std::string> said = inProcesses([&](int rank, Communicator host) -> std::string {
    Member member(std::move(host), algorithm, count, {.lanes = 4, .timeoutMs = timeoutMs});
    if (rank != 1) {
      Status status = member.start();
      return expectStatus(status.isOk() ? member.finish() : status, StatusCode::Timeout, {"on device", "timed out"});
    }
    while (member.query().isOk())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return "";
  });
  SKIP_WITHOUT_DEVICE(said);
  EXPECT_EQ(said, std::vector<std::string>(numRanks));
}

TEST(DeviceProcesses, SendLinesUnlessSomeDevicesHaveNoNvlink) {
  if (!isStandIn())
    GTEST_SKIP() << "its devices are made up";
  DeviceAlgorithm algorithm("ringAllGather", "ll128", "sm_70");
  StandInThreads threads(threadsPerLine);
  auto body = [&](int, Communicator host) {
    Member member(std::move(host), algorithm, count);
    std::string wrong = member.run(0);
    return wrong.empty() ? member.run(1) + member.run(2) : wrong;
  };
  EXPECT_EQ(inProcesses(body), std::vector<std::string>(numRanks));
  ScopedVariable none("KOLO_STANDIN_NVLINK", "0");
  std::vector<std::string> said = inProcesses(body);
  for (const std::string &text : said)
    EXPECT_NE(text.find("program 'ringAllGather' uses protocol ll128, whose lines arrive whole only inside a device "
                        "and over NVLink"),
              std::string::npos)
        << text;
}
