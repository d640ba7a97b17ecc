// A call of a plugin on devices of the executor. The runtime itself makes it, on the stand-in driver: memory, tables
// and launches are its own.
#pragma once

#include "Executor.h"
#include "NetworkModel.h"

#include "../gpu/Support.h"
#include "../runtime/device/standin/Kernel.h"

#include "kolo/runtime/DeviceAbi.h"

#include <optional>

namespace kolo::ptx {

/// Of one algorithm, one after the other, where a test asks for no other number.
inline constexpr int usualCalls = 3;

/// How a call is made.
struct CallShape {
  int lanes = 2, threads = 64;
  int timeoutMs = 30000;
  size_t ranksPerDevice = 1;
  bool isAligned = false;      // buffers to 64 bytes; else to elements, each rank's in its own way
  std::vector<int> hosts = {}; // by rank, of a program that uses a staged network; else empty
};

class ExecutedCall {
public:
  /// Throws. `algorithm` must outlive this. `blocks`: of a call with block tables, by a program without codecs.
  ExecutedCall(const test::DeviceAlgorithm &algorithm, const test::DeviceCall &call, const CallShape &shape,
               std::optional<test::DeviceBlocks> blocks = std::nullopt);

  /// The PTX that the runtime gave to the driver.
  const std::string &text() const { return ownText; }
  /// Has another text executed, with the same kernels. Throws if it cannot be read.
  void replaceText(const std::string &text);

  /// The call so many times back to back, each with other data, which a rank's host writes as soon as the rank's call
  /// before has ended. "" when every call gave every rank what the definition says, and nothing beside the outputs has
  /// changed; else what is wrong.
  std::string run(const Style &style, int numCalls);
  /// Without the first so many ranks: "" when all others give up, and say so.
  std::string runWithout(const Style &style, size_t numAbsent);

  Counts counts() const { return executor->counts(); }
  /// Has hosts do something wrong.
  void setFault(NetworkFault fault) { network->fault = fault; }
  uint64_t elapsedNs() const { return executor->elapsedNs(); }
  bool isExecuted(uint32_t line) const { return executor->isExecuted(line); }
  /// What a line has accessed last.
  enum class Object { None, Tables, Abort, Failures, Other };
  Object objectOf(uint32_t line) const;

private:
  struct Buffer {
    runtime::DeviceBuffer memory;
    uint64_t address;
    size_t sizeBytes;
  };
  struct Device {
    Launch launch;
    std::vector<size_t> ranks;
    std::string kernel;
    const void *invocations = nullptr; // of its ranks, where the host reads them
  };
  const KoloDeviceInvocation &invocationOf(const Device &device, size_t index) const;
  void makeBuffers();
  void spread();
  bool isOfTables(const StandInMemory &memory) const;
  void record();
  void makeExecutor(int numCalls, size_t numAbsent);
  void write(Memory &memory, uint32_t host, const Buffer &buffer, const test::Bytes &content) const;
  test::Bytes read(Memory &memory, uint32_t host, const Buffer &buffer) const;
  void prepareCall(Memory &memory, uint32_t host, size_t rank, size_t number);
  void checkCall(Memory &memory, uint32_t host, size_t rank, size_t number);
  void checkRest(const Memory &memory, uint32_t host, size_t rank);
  void checkFailure(Memory &memory, uint32_t host, const KoloDeviceInvocation &invocation, int lane);
  const std::vector<test::Bytes> &inputsOf(size_t number);

  const test::DeviceAlgorithm &algorithm;
  test::DeviceCall call;
  CallShape shape;
  std::optional<test::DeviceBlocks> blocks;
  runtime::DeviceCommunicator communicator;
  std::vector<Buffer> inputs, outputs; // by rank
  std::vector<Device> devices;
  std::string ownText;
  std::unique_ptr<Module> module;
  std::unique_ptr<NetworkModel> network; // of a staged network
  std::unique_ptr<Executor> executor;
  std::vector<std::vector<test::Bytes>> data, results; // by call and rank
  int executorCalls = 0;
  size_t executorAbsent = 0;
  std::string wrong;
};

} // namespace kolo::ptx
