// Puts from and to memory of GPUs, on stand-ins for libfabric and for CUDA's driver: what a kernel finds there when it
// sees the signal. Each rule for such memory is needed.
#include "FabricSupport.h"
#include "standin/StandIn.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <thread>

namespace kolo::test {
namespace {

using namespace fabric;

/// A function of the driver, whose handles are plain pointers here: not the very types that it is defined with.
template <class Function> struct DriverFunction;
template <class Result, class... Arguments> struct DriverFunction<Result(Arguments...)> {
  Result (*function)(Arguments...);
  [[clang::no_sanitize("function")]] Result operator()(Arguments... arguments) const { return function(arguments...); }
};

template <class Function> DriverFunction<Function> ofDriver(const char *name) {
  static void *driver = [] {
    setenv("KOLO_CUDA_DRIVER", KOLO_TEST_STANDIN, 1);
    return dlopen(KOLO_TEST_STANDIN, RTLD_NOW | RTLD_LOCAL);
  }();
  return {reinterpret_cast<Function *>(dlsym(driver, name))};
}

/// Memory of a GPU, as its kernels see it.
class GpuMemory {
public:
  GpuMemory(int ordinal, size_t sizeBytes) : device(ordinal), size(sizeBytes) {
    void *context = nullptr;
    ofDriver<int(void **, int)>("cuDevicePrimaryCtxRetain")(&context, device);
    ofDriver<int(void *)>("cuCtxPushCurrent_v2")(context);
    EXPECT_EQ(ofDriver<int(uint64_t *, size_t)>("cuMemAlloc_v2")(&address, size), 0);
  }
  ~GpuMemory() {
    ofDriver<int(uint64_t)>("cuMemFree_v2")(address);
    void *context = nullptr;
    ofDriver<int(void **)>("cuCtxPopCurrent_v2")(&context);
  }
  GpuMemory(const GpuMemory &) = delete;
  GpuMemory &operator=(const GpuMemory &) = delete;

  std::byte *data() const { return reinterpret_cast<std::byte *>(address); }
  std::byte *seen() const {
    return static_cast<std::byte *>(
        const_cast<void *>(ofDriver<const void *(const void *)>("standInReadableAt")(data())));
  }
  Region region(bool needsRead) const {
    RegionOwner owner;
    owner.kind = RegionOwner::Kind::Cuda;
    owner.device = device;
    owner.needsRead = needsRead;
    return {data(), size, owner};
  }

private:
  int device;
  size_t size;
  uint64_t address = 0;
};

constexpr uint64_t numPuts = 40, each = 3000;

/// One rank puts from its GPU to that of another one, and signals behind each put. "" if all is there when it is told.
std::string putBetweenGpus(const ProviderRules &rules, bool isFlushed = false) {
  FabricKind kind{rules, true};
  kind.isForDevices = true;
  GpuMemory outbox(0, numPuts * each), inbox(1, numPuts * each); // before the ranks, which have them registered
  ConnectedRanks world(fabricKind("gpus", kind), 2, 1000);
  std::vector<Cell> cells(2);
  std::vector<std::byte> data = makeData(numPuts * each, 7);
  std::memcpy(outbox.seen(), data.data(), data.size());
  Registration landing = {1, {inbox.region(!isFlushed)}, {true, true}},
               source = {1, {outbox.region(false)}, {false, false}};
  Registration told = {2, {}, {true, true}, cells.data(), 1, 1};
  told.makeVisible = [&] {
    return isFlushed && ofDriver<int(int, int)>("cuFlushGPUDirectRDMAWrites")(0, 100) != 0
               ? Status(StatusCode::DeviceError, "the flush failed")
               : Status();
  };
  for (const Status &status : {world[1].tryMemory(inbox.region(false)), world[1].registerMemory(landing),
                               world[1].registerMemory(told), world[0].registerMemory(source)})
    if (!status.isOk())
      return status.message();
  for (uint64_t put = 0; put < numPuts; ++put) {
    Status status = world[0].put({1, 0}, {1, 0, put * each}, outbox.data() + put * each, each);
    if (status.isOk())
      status = world[0].signal({1, 0}, {2, 0, put + 1});
    if (!status.isOk())
      return status.message();
  }
  for (uint64_t put = 0; put < numPuts; ++put) {
    Status failure;
    const auto end = Clock::now() + std::chrono::seconds(3);
    while (!cells[0].hasReached(put + 1) && failure.isOk() && Clock::now() < end)
      for (int rank : {0, 1})
        if (Status status = world[rank].progress(); !status.isOk())
          failure = status;
    if (!cells[0].hasReached(put + 1))
      return failure.isOk() ? "a signal did not come" : failure.message();
    if (std::memcmp(inbox.seen() + put * each, data.data() + put * each, each) != 0)
      return "put " + std::to_string(put) + " was not there when its signal came";
  }
  return "";
}

} // namespace

TEST(FabricGpus, KernelsSeeWhatCameBeforeASignal) {
  EXPECT_EQ(putBetweenGpus(rulesOf("cxi")), "");
  EXPECT_EQ(putBetweenGpus(rulesOf("verbs")), "");
  EXPECT_EQ(putBetweenGpus(rulesOf("efa"), true), "");
}

TEST(FabricGpus, EachRuleIsNeeded) {
  struct Mutant {
    const char *provider, *rule;
    void (*change)(ProviderRules &rules);
  };
  const Mutant mutants[] = {
      {"cxi", "the completion", [](auto &rules) { rules.completion = FI_TRANSMIT_COMPLETE; }},
      {"cxi", "the option for CUDA", [](auto &rules) { rules.gpu.hasCudaOption = false; }},
      {"verbs", "the order of messages", [](auto &rules) { rules.gpu.messageOrder = 0; }},
      {"verbs", "the read", [](auto &rules) { rules.gpu.read = GpuRead::None; }},
      {"verbs", "that it has no options", [](auto &rules) { rules.gpu.hasPeerOption = true; }},
      {"efa", "the option for copies", [](auto &rules) { rules.gpu.hasPeerOption = false; }},
      {"efa", "that it does not read", [](auto &rules) { rules.gpu.read = GpuRead::BySelf; }},
  };
  for (const Mutant &mutant : mutants) {
    ProviderRules rules = rulesOf(mutant.provider);
    mutant.change(rules);
    std::string wrong = putBetweenGpus(rules, rules.name == "efa");
    EXPECT_NE(wrong, "") << mutant.provider << " without " << mutant.rule;
    if (std::getenv("SHOW"))
      printf("%s without %s: %s\n", mutant.provider, mutant.rule, wrong.c_str());
  }
}

TEST(FabricGpus, AFlushThatFailsIsAFailureOfTheRank) {
  FabricKind kind{rulesOf("cxi"), true};
  kind.isForDevices = true;
  ConnectedRanks world(fabricKind("gpus", kind), 2);
  std::vector<Cell> cells(2);
  Registration told = {1, {}, {true, true}, cells.data(), 1, 1};
  told.makeVisible = [] { return Status(StatusCode::DeviceError, "the flush failed"); };
  ASSERT_EQ(world[1].registerMemory(told).message(), "");
  ASSERT_EQ(world[0].signal({1, 0}, {1, 0, 1}).message(), "");
  EXPECT_EQ(expectStatus(world.failureOf(1), StatusCode::DeviceError, -1, "the flush failed"), "");
  EXPECT_FALSE(cells[0].hasReached(1));
}

TEST(FabricGpus, ANetworkThatWasNotOpenedForThemRefusesThem) {
  GpuMemory memory(0, 4096);
  ConnectedRanks world(fabricKind("host", {rulesOf("cxi"), true}), 2);
  Registration inbox = {1, {memory.region(true)}, {true, true}};
  for (const Status &status : {world[0].tryMemory(memory.region(false)), world[0].registerMemory(inbox)})
    EXPECT_EQ(expectStatus(status, StatusCode::InvalidArgument, -1, "was not opened for memory of devices"), "");
}

} // namespace kolo::test
