// Devices on several hosts, which KOLO_HOSTID makes of processes of one: what kernels send to other hosts takes the
// network.
#include "device/Graph.h"
#include "device/HostArrangements.h"
#include "standin/Kernel.h"

#include <algorithm>
#include <cctype>
#include <sstream>

using namespace kolo::test;

namespace {

/// Of all memory of devices, and of the host for them, in this process.
size_t bytesOfMemory() {
  auto list = driverFunction<int64_t(StandInMemory *, int64_t)>("standInListMemory");
  std::vector<StandInMemory> memories(static_cast<size_t>(list(nullptr, 0)));
  list(memories.data(), static_cast<int64_t>(memories.size()));
  size_t sum = 0;
  for (const StandInMemory &memory : memories)
    sum += memory.sizeBytes;
  return sum;
}

/// What each rank has for calls of a program, each rank on a host of its own. Says what is wrong on a rank instead.
size_t bytesForCalls(const char *program, int numRanks, int64_t count) {
  std::string said = onDevices({"a host each", numRanks, alone}, [&](Communicator &host) -> std::string {
    Member member(host, {program, count, numRanks}, {.internalBytes = littleMemory});
    const size_t before = bytesOfMemory();
    std::string wrong = member.run(2);
    return wrong.empty() ? std::to_string(bytesOfMemory() - before) : wrong;
  });
  size_t most = 0;
  std::istringstream lines(said);
  for (int rank = 0; rank < numRanks; ++rank) {
    std::string word, number, bytes;
    lines >> word >> number >> bytes;
    const bool isNumber = !bytes.empty() && std::ranges::all_of(bytes, [](char digit) { return std::isdigit(digit); });
    EXPECT_TRUE(isNumber) << said;
    most = std::max<size_t>(most, isNumber ? std::stoul(bytes) : 0);
  }
  return most;
}

} // namespace

TEST(DeviceHosts, KernelsSendToOtherHostsByTheNetwork) {
  for (const Arrangement &ranks : arrangements)
    for (const char *program : {"networkAllGather", "networkAllReduce", "networkRing"})
      EXPECT_EQ(
          onDevices(ranks, [&](Communicator &host) { return Member(host, {program, 1000, ranks.numRanks}).run(4); }),
          "")
          << program << " on " << ranks.name;
}

/// The table of places has 4 bytes for each rank. Dense counters and cells would take 4 KiB for each, dense
/// addresses 56.
TEST(DeviceHosts, ARankHasCellsAndCountersForThoseItTalksToAlone) {
  const int few = 4, many = 12;
  const size_t ofFew = bytesForCalls("networkRing", few, 100), ofMany = bytesForCalls("networkRing", many, 100);
  EXPECT_LE(ofMany, ofFew + (many - few) * 8);
}

TEST(DeviceHosts, SizesAroundThoseOfChunksAreRight) {
  EXPECT_EQ(onDevices(twoHosts,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllGather", 0, 2}, smallOptions);
                        std::string wrong = member.run(2);
                        for (int64_t count : {1L, 2L, 2 * chunkElements - 1, 2 * chunkElements, 2 * chunkElements + 1,
                                              2 * chunkElements + 3, 8 * chunkElements, 8 * chunkElements + 1,
                                              23 * chunkElements + 5}) {
                          member.changeJob({"networkAllGather", count, 2});
                          if (std::string found = member.run(2); !found.empty())
                            wrong += "count " + std::to_string(count) + ": " + found;
                        }
                        return wrong;
                      }),
            "");
}

TEST(DeviceHosts, CallsOfManyShapesGrowWhatTheyNeed) {
  EXPECT_EQ(onDevices(pairsOfRanks,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllReduce", 1, 4}, smallOptions);
                        std::string wrong;
                        for (int64_t count = 1; count < 300000 && wrong.empty(); count = count * 3 + 1) {
                          member.changeJob({count % 2 ? "networkAllReduce" : "networkAllGather", count, 4});
                          wrong = member.run(2);
                        }
                        member.changeJob({"networkAllReduce", 1, 4});
                        return wrong + member.run(1);
                      }),
            "");
}

TEST(DeviceHosts, RanksMayWaitLongForAnyRankOfTheirOwnHostOrAnother) {
  EXPECT_EQ(onDevices(pairsOfRanks,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllReduce", 1000, 4});
                        for (int late = 0; late < 4; ++late) {
                          if (late == rankOf(member))
                            std::this_thread::sleep_for(std::chrono::milliseconds(1000)); // peers then ask about it
                          DeviceBuffer window = std::move(*member.communicator.allocate(rankOf(member), 4096));
                          void *memory = window.data();
                          Status status = member.communicator.registerWindow({&memory, 1}, 4096);
                          std::string wrong = status.isOk() ? member.run(2) : status.message();
                          if (status.isOk())
                            wrong += member.communicator.deregisterWindow({&memory, 1}).message();
                          if (!wrong.empty())
                            return "rank " + std::to_string(late) + " is late: " + wrong;
                        }
                        return "";
                      }),
            "");
}

TEST(DeviceHosts, CallsBackToBackNeedNoWaitingBetweenThem) {
  EXPECT_EQ(onDevices(pairsOfRanks,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllGather", 500, 4});
                        std::vector<OtherCall> calls;
                        for (int turn = 0; turn < 6; ++turn)
                          calls.emplace_back(member, Job{turn % 2 ? "networkAllGather" : "networkAllReduce", 700, 4},
                                             turn);
                        for (int again = 0; again < 10; ++again)
                          for (const OtherCall &call : calls) {
                            if (again % 4 == rankOf(member))
                              std::this_thread::sleep_for(std::chrono::milliseconds(1));
                            if (Status status = call.start(member, member.stream.handle()); !status.isOk())
                              return status.message();
                          }
                        std::string wrong = member.communicator.synchronize().message();
                        for (const OtherCall &call : calls)
                          wrong += call.check();
                        return wrong;
                      }),
            "");
}

TEST(DeviceHosts, GraphsCrossTheNetworkWithoutACallOfTheHost) {
  EXPECT_EQ(onDevices(pairsOfRanks,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllReduce", 3000, 4});
                        std::string wrong;
                        Graph graph(
                            member.stream.handle(), [&] { wrong += member.start().message(); },
                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
                        for (int turn = 0; turn < 6; ++turn) {
                          member.rank.fill(turn);
                          if (turn == rankOf(member)) // longer than the network is looked at without a pause
                            std::this_thread::sleep_for(std::chrono::milliseconds(20));
                          graph.launchAndWait(member.stream);
                          wrong += member.rank.check(turn);
                        }
                        return wrong + member.run(1);
                      }),
            "");
}

TEST(DeviceOneHost, AProgramForNetworksNeedsNoneInOneProcess) {
  for (int number : {1, 2, 4})
    EXPECT_EQ(LocalRanks(std::vector<int>(size_t(number), 0), {"networkAllReduce", 1000, number}).run(3), "");
  EXPECT_EQ(LocalRanks({0, 1}, {"networkAllGather", 1000, 2}).run(3), "");
}

class DeviceOneHostKinds : public testing::TestWithParam<Launch> {};

TEST_P(DeviceOneHostKinds, AProgramForNetworksNeedsNone) {
  auto body = [](Communicator &host) -> std::string {
    const int64_t before = liveHandles();
    std::string wrong;
    {
      Member member(host, jobOf("networkAllGather", 2000), smallOptions);
      wrong = member.run(3);
      member.changeJob(jobOf("networkAllReduce", 50000));
      wrong += member.run(2);
    }
    if (GetParam() != Launch::Threads && liveHandles() != before)
      wrong += "something is left";
    return wrong;
  };
  EXPECT_EQ(inAll(GetParam(), body), "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceOneHostKinds,
                         testing::Values(Launch::Threads, Launch::Forked, Launch::Environment),
                         testing::PrintToStringParamName());

/// Processes of one machine may be as on several hosts.
TEST(DeviceHosts, RanksOfSeveralHostsThatShareADeviceCountTogether) {
  ScopedVariable small("KOLO_STANDIN_RESIDENT", "16");
  EXPECT_EQ(onDevices(fourHosts,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllGather", 100, 4}, {.lanes = 9, .internalBytes = littleMemory});
                        return expectFailure(member.start(), StatusCode::InvalidArgument,
                                             {"2 ranks of 9 lanes are 18 blocks", "which holds 16"});
                      }),
            "");
}
