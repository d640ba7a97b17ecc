// Devices on several hosts whose inboxes and outboxes lie in memory of devices. The NICs of a stand-in for libfabric
// reach memory of the stand-in driver's devices, which the host does not. What they write is visible after a flush.
#include "../../network/fabric/standin/StandIn.h"
#include "device/Graph.h"
#include "device/HostThreads.h"
#include "device/Member.h"

#include <dlfcn.h>

using namespace kolo::test;

namespace {

standin::Control &nics() {
  static auto *found = [] {
    void *handle = dlopen(KOLO_TEST_LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<standin::Control *(*)()>(dlsym(handle, "standInControl"))();
  }();
  return *found;
}

int64_t numFlushes() { return driverFunction<int64_t()>("standInFlushes")(); }
/// The variables of a run.
struct Setup {
  const char *provider = "cxi", *memory = "device";
  const char *order = "0", *flush = "1", *dmaBuf = "1"; // of the driver
};

std::string run(const Setup &setup, int numRanks, const HostOf &hostOf, const RankBody &body, int timeoutMs = 15000) {
  (void)devicePlugin();
  ScopedVariable library("KOLO_LIBFABRIC", KOLO_TEST_LIBFABRIC), provider("KOLO_NETWORK", setup.provider);
  ScopedVariable memory("KOLO_NETWORK_MEMORY", setup.memory), order("KOLO_STANDIN_RDMA_ORDER", setup.order);
  ScopedVariable flush("KOLO_STANDIN_RDMA_FLUSH", setup.flush), dmaBuf("KOLO_STANDIN_DMABUF", setup.dmaBuf);
  nics().numDmaBufs = nics().numByAddress = 0;
  return onHostsOfThreads(numRanks, hostOf, {.timeoutMs = timeoutMs}, guardedBody(body));
}

/// On two hosts.
std::string run(const Setup &setup, const RankBody &body, int timeoutMs = 15000) {
  return run(setup, 2, alone, body, timeoutMs);
}

/// Several calls, also of several chunks.
std::string makeCalls(Communicator &host, const DeviceOptions &options = smallOptions) {
  const int ranks = host.size();
  Member member(host, {"networkAllGather", 1000, ranks}, options);
  std::string wrong = member.run(3);
  member.changeJob({"networkAllReduce", 3 * chunkElements + 5, ranks});
  return wrong + member.run(2);
}
std::string ofTwo(Communicator &host) { return makeCalls(host); }

/// What each rank says that makes its communicator in vain.
std::string refused(Communicator &host, const std::string &text) {
  try {
    Member member(host, {"networkAllGather", 1000, host.size()}, smallOptions);
  } catch (const std::exception &problem) {
    const std::string said = problem.what();
    return said.find(text) == std::string::npos || said.find('\n') != std::string::npos ? said : "";
  }
  return "it was made";
}

class NoGpus {
public:
  NoGpus() { nics().hasNoGpus = true; }
  ~NoGpus() { nics().hasNoGpus = false; }
};

} // namespace

TEST(NetworkMemory, KernelsSendFromAndReceiveInMemoryOfDevices) {
  struct Case {
    const char *provider;
    bool reads, flushes; // what shows a device that keeps no order what has arrived; neither: the completion of cxi
  };
  for (const Case &one : {Case{"cxi", false, false}, {"verbs", true, false}, {"efa", false, true}}) {
    const int64_t flushes = numFlushes();
    const uint64_t reads = nics().numReads;
    EXPECT_EQ(run({.provider = one.provider}, ofTwo), "") << one.provider;
    EXPECT_EQ(numFlushes() > flushes, one.flushes) << one.provider;
    EXPECT_EQ(nics().numReads > reads, one.reads) << one.provider;
    EXPECT_GT(nics().numDmaBufs, 0U) << one.provider;
    EXPECT_EQ(nics().numByAddress, 0U) << one.provider;
    EXPECT_EQ(nics().numRegions, 0U) << one.provider;
  }
}

TEST(NetworkMemory, PeersOfAHostReachEachOthersInboxes) {
  EXPECT_EQ(run({.provider = "verbs"}, 4, pairs,
                [](Communicator &host) { return Member(host, {"networkAllReduce", 2000, 4}, smallOptions).run(2); }),
            "");
}

/// A call of the driver that frees memory waits for kernels, and keeps others from calls: the network makes none.
TEST(NetworkMemory, MemoryMayBeFreedWhileKernelsWaitForTheNetwork) {
  for (const char *provider : {"cxi", "verbs"})
    EXPECT_EQ(run({.provider = provider},
                  [](Communicator &host) -> std::string {
                    Member member(host, {"networkAllGather", 1000, 2}, smallOptions);
                    std::string wrong = member.run(1);
                    auto buffer = member.communicator.allocate(rankOf(member), 1000);
                    if (rankOf(member) == 1)
                      std::this_thread::sleep_for(std::chrono::milliseconds(50));
                    wrong += member.start().message();
                    {
                      const auto freed = std::move(buffer);
                    }
                    return wrong + member.communicator.synchronize().message();
                  }),
              "")
        << provider;
}

TEST(NetworkMemory, AKernelThatWaitsInVainLeavesNothingRegistered) {
  for (const char *provider : {"cxi", "verbs", "efa"}) {
    auto body = [](Communicator &host) -> std::string {
      Member member(host, {"networkHang", 10, 2}, {.lanes = 2, .timeoutMs = 300});
      return expectFailure(member.finish(), StatusCode::Timeout, {"program networkHang, far.cpp:", "(host host"});
    };
    EXPECT_EQ(run({.provider = provider}, body, 2000), "") << provider;
    EXPECT_EQ(nics().numRegions, 0U) << provider;
    EXPECT_EQ(nics().numClosedInUse, 0U) << provider;
  }
}

TEST(NetworkMemory, WithoutDmaBufsItIsRegisteredByItsAddress) {
  EXPECT_EQ(run({.dmaBuf = "0"}, ofTwo), "");
  ScopedVariable older("STAND_IN_MINOR_VERSION", "19");
  EXPECT_EQ(run({}, ofTwo), "");
  EXPECT_EQ(nics().numDmaBufs, 0U);
  EXPECT_GT(nics().numByAddress, 0U);
}

TEST(NetworkMemory, ADeviceThatKeepsTheOrderOfWritesIsNotFlushed) {
  const int64_t flushes = numFlushes();
  const uint64_t reads = nics().numReads;
  for (const char *provider : {"cxi", "verbs", "efa"})
    EXPECT_EQ(run({.provider = provider, .order = "100"}, ofTwo), "") << provider;
  EXPECT_EQ(numFlushes(), flushes);
  EXPECT_EQ(nics().numReads, reads);
}

TEST(NetworkMemory, ADriverThatFlushesNothingNeedsAProviderThatReads) {
  for (const char *provider : {"cxi", "verbs"})
    EXPECT_EQ(run({.provider = provider, .flush = "0"}, ofTwo), "") << provider;
  EXPECT_EQ(run({.provider = "efa", .flush = "0"},
                [](Communicator &host) { return refused(host, "is visible only behind a read of it"); }),
            "");
}

/// By the driver, or by the NIC. Both ranks capture at the same time, as captures of one thread forbid calls of all.
TEST(NetworkMemory, WhatShowsItIsLegalWhileThreadsCapture) {
  for (const char *provider : {"efa", "verbs"}) {
    std::barrier both(2);
    auto body = [&](Communicator &host) -> std::string {
      Member member(host, {"networkAllReduce", 3000, 2}, smallOptions);
      OtherCall other(member, {"networkAllGather", 700, 2}, 1);
      auto stream = member.communicator.createStream(rankOf(member));
      std::string wrong = other.start(member, stream->handle()).message();
      wrong += member.communicator.synchronize().message();
      both.arrive_and_wait();
      Graph graph(member.stream.handle(), [&] {
        wrong += member.start().message();
        both.arrive_and_wait();
        for (int again = 0; again < 3; ++again)
          wrong += other.start(member, stream->handle()).message();
        wrong += member.communicator.synchronize().message();
        both.arrive_and_wait();
      });
      both.arrive_and_wait();
      wrong += other.check();
      for (int turn = 0; turn < 3; ++turn) {
        member.rank.fill(turn);
        graph.launchAndWait(member.stream);
        wrong += member.rank.check(turn);
      }
      return wrong;
    };
    EXPECT_EQ(run({.provider = provider}, body), "") << provider;
  }
}

TEST(NetworkMemory, IsOfTheHostUnlessItIsAskedFor) {
  EXPECT_EQ(run({.memory = "host"}, ofTwo), "");
  EXPECT_EQ(nics().numDmaBufs + nics().numByAddress, 0U);
  EXPECT_EQ(run({.memory = "auto"}, ofTwo), "");
  EXPECT_GT(nics().numDmaBufs, 0U);
}

TEST(NetworkMemory, AProviderWithoutMemoryOfDevicesIsNamed) {
  const NoGpus none;
  EXPECT_EQ(run({}, [](Communicator &host) { return refused(host, ": KOLO_NETWORK=cxi: the provider of "); }), "");
  EXPECT_EQ(run({}, [](Communicator &host) { return refused(host, "lacks memory of devices (FI_HMEM)"); }), "");
  EXPECT_EQ(run({.memory = "auto"}, ofTwo), "");
  EXPECT_EQ(nics().numDmaBufs + nics().numByAddress, 0U);
  EXPECT_EQ(run({.provider = "tcp"},
                [](Communicator &host) {
                  return refused(
                      host, "this network reaches no memory of devices: name a provider of libfabric in KOLO_NETWORK");
                }),
            "");
}

TEST(NetworkMemory, ADeviceWhoseMemoryCannotBeRegisteredIsNamedByAllRanks) {
  nics().refusedGpu = 1;
  EXPECT_EQ(run({},
                [](Communicator &host) {
                  return refused(host,
                                 std::string(host.rank() == 1 ? "" : "rank 1: ") +
                                     "KOLO_NETWORK_MEMORY=device: cuda device 1: provider cxi: registering memory "
                                     "of a device: ");
                }),
            "");
  EXPECT_EQ(run({.memory = "auto"}, ofTwo), ""); // in memory of the hosts, on both
  nics().refusedGpu = -1;
}

TEST(NetworkMemory, AProviderThatWouldCopyByItselfIsNamed) {
  nics().refusesOptions = true;
  for (const char *provider : {"cxi", "efa"})
    EXPECT_EQ(run({.provider = provider},
                  [](Communicator &host) { return refused(host, "would copy to memory of devices itself: "); }),
              "")
        << provider;
  nics().refusesOptions = false;
}

TEST(NetworkMemory, RanksThatAskForDifferentMemoryAreRefused) {
  EXPECT_EQ(onHosts(2, alone, {.timeoutMs = 15000},
                    [](Communicator &host) {
                      setenv("KOLO_NETWORK_MEMORY", host.rank() == 0 ? "host" : "auto", 1);
                      return refused(host, "ranks disagree on KOLO_NETWORK_MEMORY: rank 0 has host, rank 1 has auto");
                    }),
            "");
}

TEST(NetworkMemory, AnotherValueIsRefusedWhenRanksMeet) {
  std::string said = run({.memory = "gpu"}, ofTwo);
  EXPECT_NE(said.find("KOLO_NETWORK_MEMORY='gpu' is neither host, nor device, nor auto"), said.npos) << said;
}

#ifdef KOLO_TEST_HIP_STANDIN
namespace {

constexpr kolo::runtime::DeviceOptions onHip = {
    .kind = kolo::runtime::DeviceKind::Hip, .lanes = 2, .internalBytes = size_t(64) << 10};

/// What was stored to the register of a device that flushes it, since the last call.
unsigned int storedTo(int device) {
  auto *stored =
      reinterpret_cast<unsigned int (*)(int)>(dlsym(dlopen(KOLO_TEST_HIP_STANDIN, RTLD_NOW), "standInHostDataPath"));
  return stored(device);
}

} // namespace

/// Completions of cxi come behind a read; the rest of the way to HIP's devices is flushed by a register, if there is
/// one.
TEST(NetworkMemory, OfHipIsReachedWhereTheProviderReadsIt) {
  ScopedVariable driver("KOLO_HIP_DRIVER", KOLO_TEST_HIP_STANDIN);
  auto body = [](Communicator &host) { return makeCalls(host, onHip); };
  for (const char *path : {"", "1"})
    for (const char *provider : {"cxi", "verbs"}) {
      ScopedVariable hasPath("KOLO_STANDIN_HDP", path);
      EXPECT_EQ(run({.provider = provider}, body), "") << provider;
      for (int device : {0, 1})
        EXPECT_EQ(storedTo(device), *path ? 1U : 0U);
    }
  EXPECT_EQ(nics().numDmaBufs, 0U);
  EXPECT_GT(nics().numByAddress, 0U);
  std::string said = run({.provider = "efa"}, body);
  EXPECT_NE(
      said.find("KOLO_NETWORK_MEMORY=device: hip device 0: provider efa: what arrives in memory of this device is "
                "visible only behind a read of it"),
      said.npos)
      << said;
}

/// Rank 0 on device 0 sends alone, and rank 1 on device 1 receives alone.
TEST(NetworkMemory, OfHipIsFlushedBeforeItIsSent) {
  ScopedVariable driver("KOLO_HIP_DRIVER", KOLO_TEST_HIP_STANDIN), hasPath("KOLO_STANDIN_HDP", "1");
  EXPECT_EQ(run({},
                [](Communicator &host) {
                  Member member(host, {"networkFlood", chunkElements, 2}, onHip);
                  (void)storedTo(rankOf(member));
                  return member.finish().message();
                }),
            "");
  EXPECT_EQ(storedTo(0), 1U);
}
#endif
