// What the stand-in driver does as the real one, or more strictly, and tests rely on.
#include "../../support/Sanitizers.h"
#include "device/Member.h"
#include "device/Memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

using namespace kolo::test;

#define DRIVER(function) driverFunction<decltype(function)>(#function)

namespace {

void expectDone(CUresult code) { EXPECT_EQ(code, CUDA_SUCCESS); }
void fail(int device, CUresult failure) { driverFunction<void(int, CUresult)>("standInFail")(device, failure); }

/// A stream of device 0, whose context is current.
struct Stream {
  Stream() { expectDone(DRIVER(cuStreamCreate)(&handle, CU_STREAM_NON_BLOCKING)); }
  ~Stream() { expectDone(driverFunction<decltype(cuStreamDestroy)>("cuStreamDestroy_v2")(handle)); }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  void hold(const std::atomic<int> &isReleased) const {
    driverFunction<void(CUstream, const std::atomic<int> *)>("standInHold")(handle, &isReleased);
  }
  CUstream handle = nullptr;
};

CUdeviceptr allocate(size_t sizeBytes) {
  CUdeviceptr memory = 0;
  expectDone(driverFunction<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&memory, sizeBytes));
  return memory;
}
CUresult release(CUdeviceptr memory) { return driverFunction<decltype(cuMemFree)>("cuMemFree_v2")(memory); }

/// What becomes of a process that reads a byte there.
std::string readIn(const void *address) {
  pid_t child = fork();
  if (child == 0) {
    (void)*static_cast<const volatile char *>(address);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status)) : "read";
}

} // namespace

TEST(StandIn, FreeingMemoryWaitsForAllStreamsOfTheDevice) {
  ScopedVariable late("KOLO_STANDIN_LATE_US", "30000");
  CurrentContext current;
  Stream stream;
  for (int turn = 0; turn < 5; ++turn) {
    CUdeviceptr freed = allocate(64), written = allocate(64);
    for (unsigned char value : {1, 2, 3})
      expectDone(DRIVER(cuMemsetD8Async)(written, value, 64, stream.handle));
    expectDone(release(freed));
    unsigned char found = 0;
    expectDone(DRIVER(cuMemcpy)(reinterpret_cast<CUdeviceptr>(&found), written, 1));
    EXPECT_EQ(found, 3);
    expectDone(release(written));
  }
}

TEST(StandIn, FreeingMemoryKeepsOtherThreadsFromTheContextMeanwhile) {
  CurrentContext current;
  Stream stream, other;
  CUdeviceptr freed = allocate(64), used = allocate(64);
  std::atomic<int> isReleased = 0;
  std::atomic<bool> hasReturned = false;
  stream.hold(isReleased);
  std::thread frees([&] {
    CurrentContext own;
    expectDone(release(freed));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::thread sets([&] {
    CurrentContext own;
    expectDone(DRIVER(cuMemsetD8Async)(used, 1, 64, other.handle));
    hasReturned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(hasReturned);
  isReleased = 1;
  frees.join(), sets.join();
  expectDone(release(used));
}

TEST(StandIn, StreamsShareTheHardwareQueuesInTurn) {
  for (int number : {1, 2, 3, 8}) {
    ScopedVariable queues("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(number).c_str());
    CurrentContext current;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i <= number; ++i)
      streams.push_back(std::make_unique<Stream>());
    std::atomic<int> isReleased = 0;
    streams.front()->hold(isReleased);
    CUdeviceptr memory = allocate(64);
    for (int i = 1; i <= number; ++i) {
      CUevent event = nullptr;
      expectDone(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
      expectDone(DRIVER(cuEventRecord)(event, streams[static_cast<size_t>(i)]->handle));
      auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(i < number ? 5000 : 100);
      CUresult done = CUDA_ERROR_NOT_READY;
      while (done == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < deadline)
        done = DRIVER(cuEventQuery)(event);
      EXPECT_EQ(done, i < number ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY) << number << " queues, stream " << i;
      isReleased = i == number;
      expectDone(driverFunction<decltype(cuEventDestroy)>("cuEventDestroy_v2")(event));
    }
    streams.clear();
    expectDone(release(memory));
  }
}

TEST(StandIn, TheHostDoesNotReachMemoryOfADevice) {
  if (isThreadSanitized || isAddressSanitized)
    GTEST_SKIP() << "under sanitizers memory is open, or their own handlers end a process";
  CurrentContext current;
  CUdeviceptr memory = allocate(5000);
  const std::string killed = "killed by signal " + std::to_string(SIGSEGV);
  EXPECT_EQ(readIn(reinterpret_cast<const void *>(memory)), killed);
  EXPECT_EQ(readIn(reinterpret_cast<const void *>(memory + 4999)), killed);
  PoolMemory pool(64);
  VirtualMemory physical;
  EXPECT_EQ(readIn(pool.data()), killed);
  EXPECT_EQ(readIn(physical.data()), killed);
  expectDone(release(memory));
  LocalRanks local({0}, {"ringAllGather", 100});
  EXPECT_EQ(local.run(2), ""); // kernels and copies do
  EXPECT_EQ(readIn(local.ranks[0].buffers().output), killed) << "after a kernel that wrote it";
}

/// What is not the kernel's device's own, and nobody has opened to it: seen where no other kernel has opened it before.
TEST(StandIn, AKernelFailsOnMemoryThatItsDeviceMayNotAccess) {
  if (isThreadSanitized)
    GTEST_SKIP() << "under the thread sanitizer memory is open";
  std::string said = runProcesses(1, [](int) -> std::string {
    VirtualMemory closed;
    LocalRanks local({1}, {"pullAllReduce", 100}, {.lanes = 1});
    RankBuffers buffers = {local.ranks[0].buffers().input, local.ranks[0].buffers().output};
    driverFunction<void(const void *)>("standInBecomesMemoryOf1")(closed.data());
    buffers.input = closed.data();
    StreamHandle stream = local.streams[0].handle();
    Status status = local.communicator->run(devicePlugin(), local.job.arguments(), {&buffers, 1}, {&stream, 1});
    if (status.isOk())
      status = local.communicator->synchronize();
    return expectStatus(status, StatusCode::DeviceError, {"an illegal memory access was encountered"});
  })[0];
  EXPECT_EQ(said, "");
}

TEST(StandIn, AFailureStaysWithTheContext) {
  LocalRanks local({0, 1}, {"ringAllGather", 100});
  EXPECT_EQ(local.run(1), "");
  fail(0, CUDA_ERROR_LAUNCH_FAILED);
  for (int turn = 0; turn < 2; ++turn)
    EXPECT_NE(local.start().message().find(turn == 0 ? "unspecified launch failure" : "this communicator was aborted"),
              std::string::npos);
  CurrentContext current;
  CUdeviceptr memory = 0;
  EXPECT_EQ(driverFunction<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&memory, 64), CUDA_ERROR_LAUNCH_FAILED);
  fail(0, CUDA_SUCCESS);
}

TEST(StandIn, RegistersNoByteOfTheHostTwice) {
  const KoloDeviceDriver &driver = cudaLibrary();
  KoloDriverDevice description;
  ASSERT_EQ(driver.openDevice(0, &description), KOLO_DRIVER_OK);
  ScopedVariable limit("KOLO_STANDIN_PINNED", "8192");
  std::vector<std::byte> memory(10000);
  void *address = nullptr;
  const int64_t before = liveHandles();
  EXPECT_EQ(driver.registerHost(0, memory.data(), 4096, &address), KOLO_DRIVER_OK);
  EXPECT_EQ(address, memory.data());
  EXPECT_EQ(driver.registerHost(0, memory.data() + 4095, 10, &address), KOLO_DRIVER_FAILED);
  EXPECT_EQ(driver.registerHost(0, memory.data() + 4096, 5000, &address), KOLO_DRIVER_OUT_OF_MEMORY);
  EXPECT_EQ(driver.unregisterHost(0, memory.data() + 1), KOLO_DRIVER_FAILED);
  EXPECT_EQ(driver.unregisterHost(0, memory.data()), KOLO_DRIVER_OK);
  EXPECT_EQ(driver.unregisterHost(0, memory.data()), KOLO_DRIVER_FAILED);
  EXPECT_EQ(liveHandles(), before);
}

TEST(StandIn, GraphsNeedACurrentContext) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  {
    CurrentContext current;
    expectDone(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  }
  EXPECT_EQ(
      driverFunction<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
      CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(DRIVER(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_INVALID_CONTEXT);
  CUgraphExec executable = nullptr;
  EXPECT_EQ(DRIVER(cuGraphLaunch)(executable, stream), CUDA_ERROR_INVALID_CONTEXT);
  CurrentContext current;
  EXPECT_EQ(DRIVER(cuGraphLaunch)(executable, stream), CUDA_ERROR_INVALID_HANDLE);
  expectDone(driverFunction<decltype(cuStreamDestroy)>("cuStreamDestroy_v2")(stream));
}

TEST(StandIn, HoldsAsManyBlocksAsTheRegistersOfTheCodeSufficeFor) {
  ScopedVariable few("KOLO_STANDIN_RESIDENT", "4");
  kolo::runtime::DeviceOptions eight = {.lanes = 8, .threads = 256};
  EXPECT_EQ(LocalRanks({0}, {"ringAllGather", 100}, eight).run(1), "");
  ScopedVariable many("KOLO_STANDIN_REGISTERS", "160");
  EXPECT_EQ(LocalRanks({0}, {"ringAllGather", 100}, eight).run(1),
            "1 ranks of 8 lanes are 8 blocks of 256 threads on device 0, which holds 4 of program 'ringAllGather' at "
            "once");
}

TEST(StandIn, ASecondOpeningOfAHandleGivesTheSameMemoryAndCounts) {
  int toChild[2];
  ASSERT_EQ(pipe(toChild), 0);
  CurrentContext current; // the parent shares, and the child opens
  CUdeviceptr memory = allocate(64);
  CUipcMemHandle handle = {};
  expectDone(DRIVER(cuIpcGetMemHandle)(&handle, memory));
  pid_t child = fork();
  if (child == 0) {
    CUdeviceptr first = 0, second = 0;
    auto *open = driverFunction<decltype(cuIpcOpenMemHandle)>("cuIpcOpenMemHandle_v2");
    auto *close = DRIVER(cuIpcCloseMemHandle);
    bool isRight = open(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS &&
                   open(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS && first == second &&
                   close(first) == CUDA_SUCCESS && close(first) == CUDA_SUCCESS &&
                   close(first) == CUDA_ERROR_INVALID_VALUE;
    _exit(isRight ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  expectDone(release(memory));
}

TEST(StandIn, ExportsPhysicalMemoryOnlyByTheHandlesThatItWasMadeFor) {
  for (bool isShareable : {true, false}) {
    VirtualMemory memory(isShareable);
    CUmemGenericAllocationHandle physical = 0;
    expectDone(DRIVER(cuMemRetainAllocationHandle)(&physical, memory.data()));
    int fd = -1;
    CUresult exported =
        DRIVER(cuMemExportToShareableHandle)(&fd, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    EXPECT_EQ(exported, isShareable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    if (fd >= 0)
      close(fd);
    expectDone(DRIVER(cuMemRelease)(physical));
  }
}

/// A rank whose driver translates PTX for longer than its peers wait is missed by them.
TEST(StandIn, TranslatesAsLongAsATestAsksFor) {
  EXPECT_EQ(inAll(Launch::Forked,
                  [](Communicator &host) -> std::string {
                    bool isSlow = host.rank() == 1;
                    setenv("KOLO_STANDIN_JIT_MS", isSlow ? "600" : "0", 1);
                    Member member(host, jobOf("ringAllGather"), {.lanes = 2, .timeoutMs = isSlow ? 3000 : 100});
                    Status status = member.finish();
                    if (isSlow)
                      return status.isOk() ? "it was not missed" : "";
                    return expectStatus(status, StatusCode::Timeout, {"timed out"});
                  }),
            "");
}
