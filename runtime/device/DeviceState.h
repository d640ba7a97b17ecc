// DeviceState: the implementation of DeviceCommunicator. It runs calls by its parts, each of which knows those above
// it.
#pragma once

#include "device/DeviceLauncher.h"
#include "device/DeviceLaunches.h"
#include "device/DeviceNetwork.h"
#include "device/DevicePlaces.h"
#include "device/DevicePlans.h"
#include "device/DevicePrograms.h"
#include "device/DeviceRanks.h"
#include "device/DeviceResources.h"
#include "device/DeviceWatch.h"
#include "device/DeviceWindows.h"
#include "kolo/runtime/Device.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kolo::runtime {

struct DeviceBufferState {
  DeviceMemory memory;
};

/// A call between its preparation and its launch.
struct PreparedCall {
  DevicePlan *plan = nullptr;
  std::unique_ptr<DevicePlan> fresh; // not complete yet: internal memory has no room for it
};

class DeviceState {
public:
  /// In DeviceJoin.cpp; see DeviceCommunicator.
  static Result<std::unique_ptr<DeviceState>> createLocal(std::span<const int> devices, const DeviceOptions &options);
  static Result<std::unique_ptr<DeviceState>> join(Communicator host, int device, const DeviceOptions &options);
  ~DeviceState();

  const DeviceRanks &ranks() const { return all; }
  Status registerWindow(std::span<void *const> memory, size_t sizeBytes, std::span<void *const> addresses) {
    return windows.add(memory, sizeBytes, addresses);
  }
  Status deregisterWindow(std::span<void *const> memory) { return windows.remove(memory); }
  Status forgetWindow(std::span<void *const> memory) { return windows.forget(memory); }
  MemoryKind memoryFor(CollectiveKind collective, std::span<const RankBuffers> buffers) const {
    return places.memoryFor(collective, buffers);
  }
  Result<uint64_t> windowOf(const void *memory, size_t sizeBytes) const;
  Status query() { return watch.query(); }
  Status synchronize() { return watch.synchronize(); }
  void abort() { watch.abort(); }

  Status run(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
             std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams);
  /// The three steps of `run`. Only the second one meets peers; it is called where `prepare` left a `fresh` plan.
  Result<PreparedCall> prepare(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                               std::span<const RankBuffers> buffers);
  Status makeRoom(PreparedCall &call);
  Status start(DevicePlan &plan, std::span<const StreamHandle> streams);

private:
  DeviceState(const DeviceOptions &options, int size) {
    all.options = options;
    all.size = size;
  }
  Status open(std::span<const int> ordinals, std::span<const int> ownRanks);
  Status connectPeers(DeviceDescriptors descriptors);

  Result<PreparedCall> prepareNew(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments);
  Status announce(const DevicePlan &plan, const Status &refusal, bool isNew);
  Result<DevicePlan *> complete(std::unique_ptr<DevicePlan> plan);
  Status drain();

  std::optional<Relaxed> ending; // of the destructor; first, so that all members end during it
  DeviceRanks all;
  DeviceLaunches launches{all};
  DevicePrograms programs{all};
  DeviceWatch watch{all, programs, launches};
  bool haveAllOpened = false; // the devices of all ranks, where there is a meeting
  DeviceWindows windows{all, watch};
  DeviceNetwork network{all, watch, windows};
  DeviceResources resources{all, windows, programs, network};
  DevicePlaces places{all, windows, resources};
  DevicePlans plans{all, places, launches};
  DeviceLauncher launcher{all, places, launches};
  std::vector<LocatedBuffers> called; // by local rank: of the call in progress. A member, to allocate it once
};

} // namespace kolo::runtime
