// Devices on several hosts, which KOLO_HOSTID makes of processes of one: what kernels send to other hosts takes the
// network.
#include "../../support/Sanitizers.h"
#include "device/Graph.h"
#include "device/Member.h"
#include "standin/Kernel.h"

#include <pthread.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <sstream>

using namespace kolo::test;

namespace {

std::string alternating(int rank) { return "host" + std::to_string(rank % 2); }

struct Arrangement {
  const char *name;
  int numRanks;
  HostOf hostOf;
};
const Arrangement twoHosts = {"two hosts", 2, alone}, pairsOfRanks = {"two hosts of two", 4, pairs};
const Arrangement fourHosts = {"four hosts", 4, alone};
const Arrangement arrangements[] = {twoHosts, pairsOfRanks, fourHosts};

std::string onDevices(const Arrangement &ranks, const RankBody &body, int timeoutMs = 15000,
                      const std::function<void(const std::vector<int> &)> &meanwhile = {}) {
  (void)devicePlugin();
  return onHosts(ranks.numRanks, ranks.hostOf, {.timeoutMs = timeoutMs}, guardedBody(body), meanwhile);
}

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

TEST(DeviceHosts, AProgramWithoutCodeForANetworkIsRefusedByAll) {
  EXPECT_EQ(onDevices(twoHosts,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"hostAllGather", 100, 2});
                        std::string wrong =
                            expectStatus(member.start(), StatusCode::UnsupportedMesh,
                                         {"'hostAllGather' has no code for devices that crosses a network",
                                          "compile it with --network rank --network-memory staged"});
                        member.changeJob({"ringAllGather", 100, 2});
                        wrong += expectStatus(member.start(), StatusCode::UnsupportedMesh,
                                              {"rank 0 (host host0) and rank 1 (host host1) share no memory",
                                               "compile it with --network rank --network-memory staged"});
                        member.changeJob({"networkAllGather", 100, 2}); // the communicator stays usable
                        return wrong + member.run(1);
                      }),
            "");
}

TEST(DeviceHosts, AProgramThatCrossesTheNetworkAlongOtherDimensionsIsRefused) {
  auto body = [&](Communicator &host, const StatusCode expected) -> std::string {
    Member member(host, {"networkAllGather", 100, 4});
    member.job.program = "nodesAllGather";
    member.rank.fill(0);
    CallArguments arguments = member.job.arguments();
    arguments.mesh = *kolo::runtime::Mesh::parse("node=2,gpu=2");
    arguments.input = member.rank.buffers().input;
    arguments.output = member.rank.buffers().output;
    Status status = member.communicator.run(member.plugin, arguments, member.stream.handle());
    if (expected != StatusCode::Ok)
      return expectStatus(status, expected, {"along dimension gpu", "--network node,gpu --network-memory staged"});
    return status.message() + member.communicator.synchronize().message() + member.rank.check(0);
  };
  EXPECT_EQ(onDevices(pairsOfRanks, [&](Communicator &host) { return body(host, StatusCode::Ok); }), "");
  EXPECT_EQ(onDevices({"alternating", 4, alternating},
                      [&](Communicator &host) { return body(host, StatusCode::UnsupportedMesh); }),
            "");
}

TEST(DeviceHosts, AKernelThatWaitsInVainNamesTheHost) {
  std::string said = onDevices(
      twoHosts,
      [&](Communicator &host) -> std::string {
        Member member(host, {"networkHang", 10, 2}, {.lanes = 2, .timeoutMs = 300});
        return expectStatus(member.finish(), StatusCode::Timeout, {"program networkHang, far.cpp:", "(host host"}) +
               expectStatus(member.start(), StatusCode::Aborted, {"far.cpp:"});
      },
      300);
  EXPECT_EQ(said, "");
}

TEST(DeviceHosts, ARankThatIsKilledIsLostToTheOthers) {
  auto began = std::chrono::steady_clock::now();
  std::string said = onDevices(pairsOfRanks, [&](Communicator &host) -> std::string {
    Member member(host, {"networkHang", 10, 4}, {.lanes = 1, .timeoutMs = 15000});
    if (Status status = member.start(); !status.isOk())
      return status.message();
    if (rankOf(member) == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      raise(SIGKILL);
    }
    Status status = member.communicator.synchronize();
    return expectStatus(status, StatusCode::PeerLost, {"rank 3"}) + (status.rank() == 3 ? "" : "another is blamed");
  });
  EXPECT_EQ(said, "rank 3: killed by signal 9\n");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8));
}

TEST(DeviceHosts, ARankThatIsKilledEndsGraphsThatNoCallAnnounces) {
  std::string said = onDevices(twoHosts, [&](Communicator &host) -> std::string {
    Member member(host, {"networkHang", 10, 2}, {.lanes = 1, .timeoutMs = 15000});
    std::string wrong;
    Graph graph(
        member.stream.handle(), [&] { wrong += member.start().message(); }, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (rankOf(member) == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      raise(SIGKILL);
    }
    auto began = std::chrono::steady_clock::now();
    graph.launchAndWait(member.stream);
    if (std::chrono::steady_clock::now() - began > std::chrono::seconds(5))
      wrong += "too late";
    return wrong + expectFailure(member.communicator.query(), StatusCode::PeerLost, {"rank 1"});
  });
  EXPECT_EQ(said, "rank 1: killed by signal 9\n");
}

TEST(DeviceHosts, ARankThatIsStoppedIsMissed) {
  for (const char *program : {"networkAllGather", "networkFlood"}) {
    const bool isFull = program == std::string("networkFlood");
    std::string said = onDevices(
        twoHosts,
        [&](Communicator &host) -> std::string {
          Member member(host, {program, chunkElements, 2}, {.lanes = 1, .timeoutMs = 800});
          Status status = member.finish();
          if (rankOf(member) == 1)
            raise(SIGSTOP); // until it is killed
          for (int call = 0; call < 3 && status.isOk(); ++call)
            status = member.finish();
          return expectStatus(
              status, StatusCode::Timeout,
              {"rank 1 (host host1)",
               isFull ? "waited for room for what it sends to rank 1 from device" : "waited for rank 1 on device",
               isFull ? "flood.cpp:5" : "far.cpp:71"});
        },
        2000,
        [](const std::vector<int> &pids) {
          std::this_thread::sleep_for(std::chrono::seconds(3));
          kill(pids[1], SIGKILL);
        });
    EXPECT_EQ(said, "rank 1: killed by signal 9\n") << program;
  }
}

TEST(DeviceHosts, ARankThatAbortsEndsTheCallsOfTheOthers) {
  EXPECT_EQ(onDevices(pairsOfRanks,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkHang", 10, 4}, {.lanes = 1, .timeoutMs = 15000});
                        const char *text = "rank 2 aborted this communicator";
                        Status status = member.start();
                        if (rankOf(member) != 2)
                          return expectFailure(queryUntilFailure(member, status), StatusCode::PeerLost, {text});
                        std::this_thread::sleep_for(std::chrono::milliseconds(200));
                        member.communicator.abort();
                        return expectStatus(member.start(), StatusCode::Aborted, {text});
                      }),
            "");
}

TEST(DeviceHosts, ARankThatLeavesFirstSendsAllThatItsKernelsAskedFor) {
  for (int again = 0; again < 3; ++again)
    EXPECT_EQ(onDevices(twoHosts,
                        [&](Communicator &host) -> std::string {
                          Member member(host, {"networkAllGather", 40 * chunkElements, 2});
                          member.rank.fill(0);
                          if (rankOf(member) == again % 2)
                            std::this_thread::sleep_for(std::chrono::milliseconds(30));
                          if (Status status = member.start(); !status.isOk())
                            return status.message();
                          // The destructor of the communicator waits for the call.
                          return rankOf(member) == again % 2
                                     ? member.communicator.synchronize().message() + member.rank.check(0)
                                     : "";
                        }),
              "");
}

TEST(DeviceHosts, ADisagreementOnOneHostEndsTheCallOnAllRanks) {
  EXPECT_EQ(onDevices(pairsOfRanks,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllGather", 8, 4});
                        member.job.count = rankOf(member) == 1 ? 7 : 8;
                        return expectFailure(member.finish(), StatusCode::Mismatch, {"ranks disagree on count"});
                      }),
            "");
}

TEST(DeviceHosts, ADisagreementBetweenHostsEndsTheCallOnAllRanks) {
  for (const Arrangement &ranks : arrangements) {
    auto body = [&](Communicator &host) -> std::string {
      Member member(host, {"networkAllGather", 801, ranks.numRanks});
      const bool isLast = rankOf(member) >= ranks.numRanks / 2;
      Status status = member.finish(); // already here, a rank that is ahead may end all
      member.job.count = isLast ? 799 : 801;
      if (status.isOk())
        status = member.finish();
      for (int look = 0; look < 1000 && status.isOk(); ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        status = member.communicator.query();
      }
      return expectFailure(status, StatusCode::Mismatch, {"ranks disagree on count", "799", "801"});
    };
    EXPECT_EQ(onDevices(ranks, body), "") << ranks.name;
  }
}

TEST(DeviceHosts, ADisagreementOnCallsThatWereMadeBeforeIsNoticedWithin64Calls) {
  EXPECT_EQ(onDevices(twoHosts,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllGather", 801, 2});
                        Status status;
                        for (int64_t count : {799, 801}) {
                          member.job.count = count;
                          if (status = member.finish(); !status.isOk())
                            return status.message();
                        }
                        member.job.count = rankOf(member) == 0 ? 799 : 801;
                        for (int call = 0; call < 64 && status.isOk(); ++call)
                          status = member.finish();
                        for (int look = 0; look < 1000 && status.isOk(); ++look) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(5));
                          status = member.communicator.query();
                        }
                        return expectFailure(status, StatusCode::Mismatch, {"ranks disagree on"});
                      }),
            "");
}

TEST(DeviceHosts, ACallThatOneHostRefusesEndsItForAll) {
  EXPECT_EQ(onDevices(twoHosts,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllGather", 800, 2});
                        std::string wrong = member.run(1);
                        if (rankOf(member) == 1)
                          member.job.collective = kolo::runtime::CollectiveKind::AllReduce;
                        Status status = member.finish();
                        for (int look = 0; look < 1000 && status.isOk(); ++look) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(5));
                          status = member.communicator.query();
                        }
                        if (rankOf(member) == 1) // may have refused before it heard of the other's call
                          return wrong + (status.isOk() ? "no failure" : "");
                        return wrong + expectFailure(status, StatusCode::InvalidArgument,
                                                     {"rank 1: ", "program 'networkAllGather' is no all_reduce"});
                      }),
            "");
}

TEST(DeviceHosts, InMeetingsAllRanksNameTheFirstThatDiffersOrRefuses) {
  for (const Arrangement &ranks : {pairsOfRanks, fourHosts})
    EXPECT_EQ(
        onDevices(ranks,
                  [&](Communicator &host) -> std::string {
                    Member member(host, {"networkAllGather", 100, 4});
                    const bool isOdd = rankOf(member) >= 2;
                    DeviceBuffer first = std::move(*member.communicator.allocate(rankOf(member), 8192));
                    DeviceBuffer second = std::move(*member.communicator.allocate(rankOf(member), 8192));
                    auto add = [&](void *memory, size_t sizeBytes) {
                      return member.communicator.registerWindow({&memory, 1}, sizeBytes);
                    };
                    auto remove = [&](void *memory) { return member.communicator.deregisterWindow({&memory, 1}); };
                    std::string wrong =
                        expectStatus(add(first.data(), isOdd ? 8192 : 4096), StatusCode::Mismatch,
                                     {"size of a window: rank 0 registers 4096 bytes, rank 2 registers 8192"});
                    wrong += expectStatus(add(isOdd ? nullptr : first.data(), 4096), StatusCode::InvalidArgument,
                                          {rankOf(member) == 2 ? "window" : "rank 2: window"});
                    wrong += add(first.data(), 4096).message() + add(second.data(), 4096).message();
                    wrong += expectStatus(remove(isOdd ? second.data() : first.data()), StatusCode::Mismatch,
                                          {"to deregister: rank 0 names window 1, rank 2 window 2"});
                    wrong += expectStatus(isOdd ? add(first.data(), 4096) : remove(first.data()), StatusCode::Mismatch,
                                          {"rank 0 deregisters a window, rank 2 registers a window"});
                    return wrong + remove(second.data()).message() + remove(first.data()).message() + member.run(1);
                  }),
        "")
        << ranks.name;
}

TEST(DeviceHosts, AllRanksNameTheFirstWhoseSettingsDiffer) {
  EXPECT_EQ(onDevices(fourHosts,
                      [&](Communicator &host) -> std::string {
                        const int rank = host.rank();
                        DeviceOptions options = smallOptions;
                        options.lanes = rank >= 2 ? 3 : 2;
                        auto made = DeviceCommunicator::create(std::move(host), rank % 2, options);
                        return expectStatus(made.status(), StatusCode::Mismatch,
                                            {"ranks disagree on lanes of devices: rank 0 has 2, rank 2 has 3"});
                      }),
            "");
}

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

TEST(DeviceHosts, MemoryThatOneRankCannotRegisterIsToldToAll) {
  EXPECT_EQ(onDevices(pairsOfRanks,
                      [&](Communicator &host) -> std::string {
                        if (host.rank() == 2)
                          setenv("KOLO_STANDIN_PINNED", "1000", 1);
                        Member member(host, {"networkAllGather", 1000, 4});
                        std::string wrong = expectStatus(member.start(), StatusCode::OutOfMemory,
                                                         {"registering", "bytes of the host's memory"});
                        unsetenv("KOLO_STANDIN_PINNED");
                        return wrong + member.run(1);
                      }),
            "");
}

TEST(DeviceHosts, AThreadThatOneRankCannotMakeIsToldToAll) {
  if (isThreadSanitized)
    GTEST_SKIP() << "the thread sanitizer sets the size of stacks itself";
  EXPECT_EQ(onDevices(twoHosts,
                      [&](Communicator &host) -> std::string {
                        Member member(host, {"networkAllGather", 1000, 2});
                        pthread_attr_t usual, tooLarge;
                        pthread_getattr_default_np(&usual);
                        pthread_getattr_default_np(&tooLarge);
                        pthread_attr_setstacksize(&tooLarge, size_t(1) << 46);
                        if (rankOf(member) == 1)
                          pthread_setattr_default_np(&tooLarge);
                        Status status = member.start();
                        pthread_setattr_default_np(&usual);
                        return expectStatus(status, StatusCode::SystemError,
                                            {"the thread that writes to other hosts cannot be started"}) +
                               member.run(2);
                      }),
            "");
}
