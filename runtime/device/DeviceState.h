// DeviceState: the implementation of DeviceCommunicator.
#pragma once

#include "device/DeviceMeeting.h"
#include "device/DevicePeers.h"
#include "device/DevicePlan.h"
#include "kolo/runtime/Device.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

namespace kolo::runtime {

using DeviceId = std::array<uint8_t, 16>; // a KoloDriverDevice's uuid

struct DeviceBufferState {
  DeviceMemory memory;
};

class DeviceState {
public:
  /// In DeviceJoin.cpp; see DeviceCommunicator.
  static Result<std::unique_ptr<DeviceState>> createLocal(std::span<const int> devices, const DeviceOptions &options);
  static Result<std::unique_ptr<DeviceState>> join(Communicator host, int device, const DeviceOptions &options);
  ~DeviceState();

  int size() const { return numRanks; }
  const std::vector<int> &ranks() const { return rankNumbers; }
  /// Null when the rank is not one of ranks().
  std::shared_ptr<OpenDevice> deviceOf(int rank) const;

  Status run(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
             std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams);
  Status query();
  Status synchronize();

private:
  using CounterKey = std::pair<PluginContent, int32_t>; // and the program's number in the plugin
  struct ScratchKey {
    CounterKey program;
    std::array<int64_t, KOLO_MAX_MESH_DIMS> mesh;
    int64_t count, elementBytes, root;
    size_t scratchBytes, packetBytes;
    auto operator<=>(const ScratchKey &) const = default;
  };

  DeviceState(const DeviceOptions &chosen, int size) : options(chosen), numRanks(size) {}
  Status open(std::span<const int> ordinals, std::span<const int> ownRanks);
  Status agreeOnOptions();

  // DeviceRun.cpp: finds the plan of a call.
  Status checkSpans(std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) const;
  void locateBuffers(std::span<const RankBuffers> buffers);
  uint64_t numberOf(const CallIdentity &call);
  Status exchangeNumbers(uint64_t own);
  DevicePlan *findPlan();

  // DeviceEntry.cpp: agrees on a new call.
  Result<DevicePlan *> agree(std::unique_ptr<DevicePlan> plan);
  Status exchange(DeviceRecord &record, const Status &own);
  Status announce(const DevicePlan &plan, const Status &own, bool &mustDrain);
  Status drain();
  Result<DeviceRecord> describe(const DevicePlan &plan) const;
  Result<PlanAddresses> resolve(const DevicePlan &plan);
  void *memoryOf(const DevicePlan &plan, size_t local, size_t role) const;

  // DeviceChecks.cpp and DeviceResources.cpp: this process's own part of that.
  Status check(DevicePlan &plan) const;
  Status checkRank(DevicePlan &plan, size_t local) const;
  Status checkBuffer(const LocalRank &local, const void *memory, size_t sizeBytes, const char *name) const;
  Status checkLL128(const DevicePlan &plan, size_t device) const;
  Status checkResidency(const DevicePlan &plan, size_t device) const;
  bool isFull(const DevicePlan &plan) const;
  void freePlans();
  Status allocateFor(DevicePlan &plan);
  Status allocateCounters(DevicePlan &plan);
  Status fillScratch(const Call &call, DeviceScratch &set) const;
  Status allocateScratch(DevicePlan &plan);
  static ScratchKey scratchKeyOf(const DevicePlan &plan);

  // DeviceLaunch.cpp.
  Status launch(DevicePlan &plan, std::span<const StreamHandle> streams);
  Status launchGroup(DevicePlan &plan, std::span<LocalRank *const> group, StreamHandle stream);
  Status copyAside(const DevicePlan &plan, size_t local, StreamHandle stream) const;

  // DeviceWatch.cpp.
  bool isAborted() const;
  void abortLaunches();
  Result<bool> areLaunchesDone() const;
  Status waitForLaunches();
  std::optional<int> lostPeer() const;
  Status fail(Status cause);
  Status failureOnDevice(const Status &otherwise) const;

  DeviceOptions options;
  int numRanks;
  std::vector<int> rankNumbers;
  std::vector<LocalRank> locals;
  std::vector<std::shared_ptr<OpenDevice>> devices;
  std::vector<DeviceId> deviceOfRank;   // of all ranks
  std::vector<int> ranksOnDevice;       // by device: ranks of all processes
  std::optional<DeviceMeeting> meeting; // if not all ranks are here
  std::optional<DevicePeers> peers;     // likewise
  DeviceMemory abortFlag;               // one word in host memory
  std::map<CounterKey, std::shared_ptr<DeviceCounters>> counters;
  std::map<ScratchKey, std::shared_ptr<DeviceScratch>> scratch;
  std::vector<std::unique_ptr<DevicePlan>> plans;
  std::vector<std::unique_ptr<DevicePlan>> retired; // no call finds them, but graphs launch them
  size_t lastPlan = 0;
  uint64_t lastNumber = 0;
  // Of the call in progress. Members, so that a repeated call allocates nothing for them.
  std::vector<LocatedBuffers> called; // by local rank
  std::vector<uint64_t> numbers;      // by rank; of this process alone where all ranks are here
  std::optional<Status> failure;      // why the communicator was aborted
};

} // namespace kolo::runtime
