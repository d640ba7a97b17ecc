// Collectives on devices for tests: buffers, data that tells ranks apart, and what has to come out.
#pragma once

#include "Ranks.h"
#include "device/DeviceDriver.h"
#include "kolo/runtime/Device.h"
#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo::test {

using runtime::CallArguments;
using runtime::DataType;
using runtime::DeviceBuffer;
using runtime::DeviceCommunicator;
using runtime::DeviceMemoryKind;
using runtime::DeviceOptions;
using runtime::DeviceStream;
using runtime::Plugin;
using runtime::RankBuffers;
using runtime::Result;
using runtime::StreamHandle;

/// The plugin whose kernels the stand-in driver runs.
const Plugin &devicePlugin();

/// Of the stand-in driver: things alive; modules ever loaded, launches and copies ever queued.
int64_t liveHandles();
int64_t moduleLoads();
int64_t numLaunches();
/// Of each rank, in the launch that was queued last.
int64_t lastLanes();
int64_t numCopies();
/// A function of the driver that the tests run on.
void *driverFunction(const char *symbol);
template <class Function> Function *driverFunction(const char *symbol) {
  return reinterpret_cast<Function *>(driverFunction(symbol));
}

/// libkolo_cuda, on the stand-in driver. Throws.
const KoloDeviceDriver &cudaLibrary();

/// Internal memory of a rank to begin with, which takes less time to clear than the usual 16 MiB. When a call needs
/// more, all ranks take it together.
inline constexpr size_t littleMemory = size_t(2) << 20;

/// An element of a rank's input; call `turn` has other data than the one before.
inline int32_t elementOf(int rank, int64_t index, int turn) {
  return (rank + 1) * 1000 + static_cast<int32_t>(index) * 7 + turn;
}

/// Of the device plugin, of each kind.
inline constexpr const char *programs[] = {"ringAllGather", "pullAllReduce", "scratchAllReduce"};

/// What a test runs: a program of the device plugin, with i32 elements.
struct Job {
  std::string program = "ringAllGather";
  int64_t count = 1000;
  int numRanks = 4;
  std::optional<runtime::CollectiveKind> collective = {}; // as in CallArguments
  int lanes = 0;                                          // likewise
  CallArguments arguments() const;
  bool isGather() const {
    if (program.empty())
      return collective == runtime::CollectiveKind::AllGather;
    return program.ends_with("AllGather") || program.ends_with("ang") || program.ends_with("Flood") ||
           program.ends_with("Ring");
  }
  int64_t outputElements() const { return isGather() ? count * numRanks : count; }
};

/// One rank's buffers.
class Rank {
public:
  /// `in` is where the input begins: in the output's memory for a call in place.
  Rank(DeviceCommunicator &communicator, int rank, const Job &job, DeviceMemoryKind kind = DeviceMemoryKind::Plain,
       bool isInPlace = false);
  RankBuffers buffers() const;
  /// What the next calls ask for, in the same memory.
  void setCollective(runtime::CollectiveKind collective) { job.collective = collective; }
  void fill(int turn);
  /// "" when the output is right; else what is wrong.
  std::string check(int turn) const;

private:
  Job job;
  int number;
  std::optional<DeviceBuffer> input, output;
  size_t inputOffset = 0; // in the output, where there is no input
};

/// All ranks of a local communicator, with a stream for each.
class LocalRanks {
public:
  LocalRanks(const std::vector<int> &devices, const Job &job,
             const DeviceOptions &options = {.internalBytes = littleMemory},
             DeviceMemoryKind kind = DeviceMemoryKind::Plain, bool isInPlace = false);
  /// On the ranks' own streams, or all ranks of a device on the stream of the first.
  runtime::Status start(bool haveOwnStreams = false);
  /// Several calls, each with other data. "" when all is right.
  std::string run(int numCalls, bool haveOwnStreams = false);
  void fill(int turn);
  std::string check(int turn) const;

  Job job;
  std::optional<DeviceCommunicator> communicator;
  std::vector<Rank> ranks;
  std::vector<DeviceStream> streams;
  std::vector<int> devices;
};

} // namespace kolo::test
