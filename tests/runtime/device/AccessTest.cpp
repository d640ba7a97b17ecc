// Memory that a program made by itself: which devices may access it is up to the program, and the runtime asks.
#include "device/Member.h"
#include "device/Memory.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>

using namespace kolo::test;

namespace {

/// A call of two ranks on two devices, whose rank 0 reads from this memory.
std::string runWith(void *input) {
  LocalRanks local({0, 1}, {"pullAllReduce", 100}, {.lanes = 2});
  std::vector<RankBuffers> buffers = {local.ranks[0].buffers(), local.ranks[1].buffers()};
  buffers[0].input = input;
  std::vector<StreamHandle> streams = {local.streams[0].handle(), local.streams[1].handle()};
  local.fill(3);
  std::vector<int32_t> own;
  for (int64_t index = 0; index < 100; ++index)
    own.push_back(elementOf(0, index, 3));
  {
    CurrentContext current;
    EXPECT_EQ(driverFunction<decltype(cuMemcpy)>("cuMemcpy")(reinterpret_cast<CUdeviceptr>(input),
                                                             reinterpret_cast<CUdeviceptr>(own.data()), 400),
              CUDA_SUCCESS);
  }
  Status status = local.communicator->run(devicePlugin(), local.job.arguments(), buffers, streams);
  if (status.isOk())
    status = local.communicator->synchronize();
  return status.isOk() ? local.check(3) : std::string(toString(status.code())) + " " + status.message();
}

template <class Memory> std::string refusalOf(const Memory &memory) {
  std::string said = runWith(memory.data());
  bool isRight =
      said.find("InvalidArgument rank 0: input") == 0 && said.find("device 1 may not access it") != std::string::npos;
  return isRight ? "" : "not refused: " + said;
}

} // namespace

TEST(ForeignMemory, OfAPoolNeedsAccessByAllDevicesThatReadIt) {
  PoolMemory memory(4096);
  EXPECT_EQ(refusalOf(memory), "");
  memory.open(1);
  EXPECT_EQ(runWith(memory.data()), "");
}

TEST(ForeignMemory, OfTheVirtualMemoryInterfaceNeedsItToo) {
  VirtualMemory memory;
  EXPECT_EQ(refusalOf(memory), "");
  memory.open(1);
  EXPECT_EQ(runWith(memory.data()), "");
}

TEST(ForeignMemory, ThatAThreadsPeersMayNotAccessIsNoWindow) {
  EXPECT_EQ(inAll(Launch::Threads,
                  [](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"));
                    int number = member.communicator.ranks().front();
                    PoolMemory pool(4096); // of device 0
                    auto plain = member.communicator.allocate(number, 4096);
                    void *memory = number == 0 ? pool.data() : plain->data();
                    Status refused = member.communicator.registerWindow({&memory, 1}, 4096);
                    std::string wrong = expectStatus(refused, StatusCode::InvalidArgument, {"may not access it"});
                    pool.open(1);
                    Status accepted = member.communicator.registerWindow({&memory, 1}, 4096);
                    return wrong + accepted.message() + member.communicator.deregisterWindow({&memory, 1}).message();
                  }),
            "");
}

TEST(ForeignMemory, ThatWasNotMadeToBeSharedIsNoWindowOfProcesses) {
  EXPECT_EQ(inAll(Launch::Forked,
                  [](Communicator &host) -> std::string {
                    int number = host.rank();
                    Member member(host, jobOf("ringAllGather"));
                    VirtualMemory alone(false);
                    auto plain = member.communicator.allocate(number, VirtualMemory::sizeBytes);
                    void *memory = number == 0 ? alone.data() : plain->data();
                    return expectStatus(member.communicator.registerWindow({&memory, 1}, VirtualMemory::sizeBytes),
                                        StatusCode::DeviceError, {"cuMemExportToShareableHandle"});
                  }),
            "");
}

/// Of device 0, shared, and mapped for device 1.
TEST(SharedMemory, IsMappedForTheDeviceThatMapsItAlone) {
  const KoloDeviceDriver &driver = cudaLibrary();
  void *memory = nullptr, *mapped = nullptr;
  KoloDriverHandle handle = {};
  ASSERT_EQ(driver.allocate(0, KOLO_MEMORY_VIRTUAL, 100, &memory), KOLO_DRIVER_OK) << driver.lastError();
  ASSERT_EQ(driver.share(0, memory, &handle), KOLO_DRIVER_OK) << driver.lastError();
  ASSERT_EQ(driver.openShared(1, &handle, &mapped), KOLO_DRIVER_OK) << driver.lastError();
  auto accessOf = [](const void *address, int device) {
    unsigned long long flags = 0;
    CUmemLocation location = deviceLocation(device);
    EXPECT_EQ(driverFunction<decltype(cuMemGetAccess)>("cuMemGetAccess")(&flags, &location,
                                                                         reinterpret_cast<CUdeviceptr>(address)),
              CUDA_SUCCESS);
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  };
  EXPECT_TRUE(accessOf(memory, 0) && accessOf(memory, 1)) << "peers of this process use the owner's address";
  EXPECT_TRUE(accessOf(mapped, 1));
  EXPECT_FALSE(accessOf(mapped, 0));
  EXPECT_EQ(driver.closeShared(1, &handle, mapped), KOLO_DRIVER_OK);
  EXPECT_EQ(driver.release(0, KOLO_MEMORY_VIRTUAL, memory), KOLO_DRIVER_OK);
}

namespace {

/// From now on the kernel refuses to take descriptors from other processes, as it does without ptrace rights.
bool forbidTaking() {
  constexpr uint32_t pidfdGetfd = 438;
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, pidfdGetfd, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program = {std::size(steps), steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

} // namespace

TEST(SharedMemory, ByDescriptorsNeedsNoRightToTraceOtherProcesses) {
  EXPECT_EQ(inAll(Launch::Forked,
                  [](Communicator &host) -> std::string {
                    if (!forbidTaking())
                      return "no filter of system calls";
                    int number = host.rank();
                    Member member(host, jobOf("ringAllGather"));
                    std::string wrong;
                    int before = 0;
                    for (int turn = 0; turn < 8; ++turn) {
                      constexpr int numRuns = 3;
                      if (turn == numRuns) // what is registered and not used leaves nothing behind
                        before = countDescriptors();
                      auto memory = member.communicator.allocate(number, 40000, DeviceMemoryKind::Virtual);
                      void *base = memory->data();
                      wrong += member.communicator.registerWindow({&base, 1}, 40000).message();
                      if (turn >= numRuns) {
                        wrong += member.communicator.deregisterWindow({&base, 1}).message();
                        continue;
                      }
                      CallArguments call = member.job.arguments();
                      call.input = static_cast<std::byte *>(base) + 20000;
                      call.output = base;
                      std::vector<int32_t> own;
                      for (int64_t index = 0; index < 1000; ++index)
                        own.push_back(elementOf(number, index, turn));
                      wrong += memory->write(20000, own.data(), 4000).message();
                      wrong += member.communicator.run(member.plugin, call, member.stream.handle()).message();
                      wrong += member.communicator.synchronize().message();
                      for (int rank = 0; rank < numRanks; ++rank) {
                        int32_t found = 0;
                        wrong += memory->read(static_cast<size_t>(rank) * 4000 + 396, &found, 4).message();
                        wrong += found == elementOf(rank, 99, turn) ? "" : "wrong; ";
                      }
                      wrong += member.communicator.deregisterWindow({&base, 1}).message();
                    }
                    return wrong + (countDescriptors() == before ? "" : "descriptors are left");
                  }),
            "");
}

TEST(SharedMemory, OfTheRuntimeSharesNoBlockWithOtherMemory) {
  LocalRanks local({0}, {"ringAllGather", 10});
  auto *blockOf = driverFunction<uint64_t(const void *)>("standInBlock");
  auto first = local.communicator->allocate(0, 64), second = local.communicator->allocate(0, 64);
  ASSERT_TRUE(first.isOk() && second.isOk());
  EXPECT_NE(blockOf(first->data()), blockOf(second->data())) << "peers map whole blocks";
  EXPECT_EQ(first->sizeBytes(), 64u);
}
