// Devices on several hosts: what is refused, what fails, and on what ranks disagree.
#include "../../support/Sanitizers.h"
#include "device/Graph.h"
#include "device/HostArrangements.h"

#include <pthread.h>

#include <csignal>

using namespace kolo::test;

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
