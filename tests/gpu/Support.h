// Compiled algorithms on devices: real ones, or the stand-in driver's where KOLO_CUDA_DRIVER names that.
#pragma once

#include "tests/support/Algorithms.h"

#include "compiler/Schedule.h"
#include "ir/reference/Oracle.h"
#include "kolo/runtime/Device.h"
#include "targets/DeviceCode.h"

#include <optional>
#include <string>
#include <vector>

namespace kolo::test {

/// Why nothing can be run on a device here; "" where there is one.
std::string whyNoDevice();
bool isStandIn();

/// How many threads of the host the stand-in driver has for a block, for a scope: otherwise standInThreads.
class StandInThreads {
public:
  explicit StandInThreads(int64_t number);
  ~StandInThreads();
  StandInThreads(const StandInThreads &) = delete;
  StandInThreads &operator=(const StandInThreads &) = delete;
};

/// An algorithm, compiled for its meshes of 2, 4 and 8 ranks and for the device that there is; or, if that must not be
/// touched yet, for an architecture of which it runs the code.
class DeviceAlgorithm {
public:
  DeviceAlgorithm(const std::string &name, const DeviceOptions &options, std::string architecture = "",
                  const Schedule &schedule = {});
  std::vector<Sizes> meshes() const;
  reference::Call call(const Sizes &mesh);
  bool isRooted() const;

  std::string name;
  std::unique_ptr<mlir::MLIRContext> context;
  CollectiveAttr collective;
  std::optional<runtime::Plugin> plugin;
};

/// All types and reductions.
DeviceOptions everything();

/// All ranks of a mesh in this process, on one device, in one launch.
class DeviceRanks {
public:
  DeviceRanks(DeviceAlgorithm &algorithm, const Sizes &mesh, const runtime::DeviceOptions &options);
  /// Starts this call so many times, one after the other; "" when all ranks then have what the reference says.
  std::string run(const reference::Call &call, int numCalls, uint64_t seed);

private:
  std::string start(const reference::Call &call, int numCalls);
  void place(const reference::SimulatedCall &simulated, size_t elementBytes);
  std::string check(const reference::SimulatedCall &simulated) const;

  DeviceAlgorithm &algorithm;
  runtime::Mesh mesh;
  std::optional<runtime::DeviceCommunicator> communicator;
  std::optional<runtime::DeviceStream> stream;
  // By rank. With room around the data, which has to stay as it was.
  struct Buffer {
    runtime::DeviceBuffer memory;
    size_t offsetBytes, sizeBytes;
    void *data() const { return static_cast<std::byte *>(memory.data()) + offsetBytes; }
  };
  Buffer makeBuffer(int rank, const reference::Bytes &content, size_t offsetBytes);
  std::vector<Buffer> inputs, outputs;
  std::vector<runtime::RankBuffers> buffers;
};

} // namespace kolo::test
