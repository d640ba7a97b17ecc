// DeviceState: the implementation of DeviceCommunicator.
#pragma once

#include "device/DeviceHeap.h"
#include "device/DeviceMeeting.h"
#include "device/DevicePeers.h"
#include "device/DevicePlan.h"
#include "kolo/runtime/Device.h"

#include <array>
#include <atomic>
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

  int size() const { return numRanks; }
  const std::vector<int> &ranks() const { return rankNumbers; }
  /// Null when the rank is not one of ranks().
  std::shared_ptr<OpenDevice> deviceOf(int rank) const;

  /// `addresses`: of all ranks' memory, by rank, as mapped by the caller; empty: this maps it.
  Status registerWindow(std::span<void *const> memory, size_t sizeBytes, std::span<void *const> addresses = {});
  Status deregisterWindow(std::span<void *const> memory);
  Status forgetWindow(std::span<void *const> memory);
  MemoryKind memoryFor(CollectiveKind collective, std::span<const RankBuffers> buffers) const;
  Status run(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
             std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams);
  Status query();
  Status synchronize();
  void abort();

  /// The three steps of `run`. Only the second one meets peers; it is called where `prepare` left a `fresh` plan.
  Result<PreparedCall> prepare(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                               std::span<const RankBuffers> buffers);
  Status makeRoom(PreparedCall &call);
  Status start(DevicePlan &plan, std::span<const StreamHandle> streams);

private:
  using ProgramKey = std::pair<PluginContent, int32_t>; // and the program's number in the plugin
  struct ShapeKey {
    ProgramKey program;
    std::array<int64_t, KOLO_MAX_MESH_DIMS> mesh;
    int64_t count, elementBytes, root;
    bool hasStaging;
    auto operator<=>(const ShapeKey &) const = default;
  };
  /// Memory that the user registered.
  struct Window {
    uint64_t number;
    MappedWindow mapped;
    size_t sizeBytes() const { return mapped.sizeBytes; }
  };

  /// Plans whose launches are done when these events, one of each local rank, are.
  struct RetiredPlans {
    std::vector<std::unique_ptr<DevicePlan>> plans;
    std::vector<std::shared_ptr<const DeviceEvent>> launched;
  };

  DeviceState(const DeviceOptions &chosen, int size) : options(chosen), numRanks(size) {}
  Status open(std::span<const int> ordinals, std::span<const int> ownRanks);
  Status agreeOnOptions(DeviceDescriptors descriptors);
  Status checkQueues() const;
  const char *queuesVariable() const;
  Status makeStaging();
  Status addEvent(size_t device);

  // DeviceWindows.cpp: memory that all ranks map.
  Status exchange(DeviceRecord &record, const Status &own);
  Result<MappedWindow> mapAll(DeviceRecord &record, std::span<void *const> memory, Status own,
                              std::span<void *const> addresses = {});
  Result<std::map<uintptr_t, Window>::iterator> findWindowAt(std::span<void *const> memory);
  Result<MappedWindow> resolveAll(size_t sizeBytes);
  Status growHeap(size_t sizeBytes);
  Status checkWindow(std::span<void *const> memory, size_t sizeBytes, bool isMapped) const;
  uint64_t windowAt(const void *address) const;
  const Window *findWindow(uint64_t number) const;
  DevicePlace placeOf(uint64_t window, const void *address) const;

  // DeviceRun.cpp: finds the plan of a call, or makes it.
  Status checkSpans(std::span<const RankBuffers> buffers, size_t numStreams) const;
  void locateBuffers(std::span<const RankBuffers> buffers);
  DevicePlan *findPlan(const CallIdentity &call);
  Result<PreparedCall> prepareNew(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments);
  Status announce(const DevicePlan &plan, const Status &refusal);
  Result<DevicePlan *> complete(std::unique_ptr<DevicePlan> plan);

  // DeviceChecks.cpp: what this process checks by itself.
  Status check(DevicePlan &plan) const;
  Status checkRank(DevicePlan &plan, size_t local) const;
  Status checkBuffers(const DevicePlan &plan) const;
  enum class Access : uint8_t { ByOwnRank, ByPeers, ByPeersAsMapped }; // as mapped: at other addresses
  Status checkPeerAccess(const OpenDevice &device, const void *memory, const char *name) const;
  Status checkBuffer(const LocalRank &local, const void *memory, size_t sizeBytes, const char *name,
                     Access access) const;
  Status checkLL128(const DevicePlan &plan, size_t device) const;
  Status checkResidency(const DevicePlan &plan, size_t device) const;

  // DevicePlaces.cpp: where the buffers of a call are, for all ranks, and how it is cut into pieces.
  Status placeBuffers(DevicePlan &plan) const;
  Status placeInWindows(DevicePlan &plan) const;
  void cutIntoPieces(DevicePlan &plan) const;
  TableAddresses addressesOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn) const;
  void *bufferOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn, size_t role, int rank) const;
  Status writeTables(DevicePlan &plan, DevicePlan::Pieces &pieces);

  // DeviceResources.cpp: internal memory of calls.
  std::vector<size_t> sizesFor(const DevicePlan &plan) const;
  Result<bool> reserve(DevicePlan &plan);
  Status fillProgram(DevicePlan &plan, HeapBlock semaphores);
  Status fill(DevicePlan &plan, std::span<const HeapBlock> blocks, bool isNewProgram, std::vector<ShapeKey> &newShapes);
  Result<std::shared_ptr<DeviceShape>> makeShape(const DevicePlan &plan, std::span<const HeapBlock> blocks) const;
  Status allocateAside(DevicePlan &plan) const;
  ShapeKey shapeKeyOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces) const;
  bool isFull(size_t sizeBytes, size_t numShapes) const;
  Status drain();
  void retirePlans();
  void keepTables(DevicePlan &plan);
  Status freePlans();
  Status freeShapes(const std::bitset<mostShapes> &kept);

  // DeviceLaunch.cpp.
  Status checkStreams(std::span<const StreamHandle> streams) const;
  Status launch(DevicePlan &plan, std::span<const StreamHandle> streams);
  Status launchDirect(DevicePlan &plan, std::span<LocalRank *const> group, StreamHandle stream);
  Status launchStaged(DevicePlan &plan, StreamHandle stream);
  Status launchPiece(const DevicePlan &plan, int64_t index, StreamHandle stream, bool isOverlapped);
  Status launchKernel(const DevicePlan &plan, const DeviceTable &table, std::span<LocalRank *const> group,
                      StreamHandle stream) const;
  Status copyPiece(const DevicePlan &plan, int64_t index, bool isInput, StreamHandle stream) const;
  Status copyAside(const DevicePlan &plan, size_t local, StreamHandle stream) const;
  Status orderAfterEarlier(std::span<LocalRank *const> group, StreamHandle stream) const;
  Status noteLaunch(std::span<LocalRank *const> group, StreamHandle stream);
  Result<std::shared_ptr<const DeviceEvent>> eventFor(std::span<LocalRank *const> group);
  Result<bool> isCapturing(const OpenDevice &device, StreamHandle stream) const;
  void noteCapture(DevicePlan &plan);

  // DeviceWatch.cpp.
  Status checkUsable();
  bool isAborted() const;
  Status abortedHere() const;
  void abortLaunches();
  Result<bool> areLaunchesDone() const;
  enum class AfterAbort : uint8_t { Wait, Return };
  Status waitForLaunches(AfterAbort afterAbort = AfterAbort::Return);
  std::optional<int> lostPeer() const;
  Status fail(Status cause);
  Status failureOnDevice(const Status &otherwise) const;

  /// What runs pieces of a staged call side by side: streams for the copies, and events by turn.
  struct SideStreams {
    void *in = nullptr, *out = nullptr;
    DeviceEvent begun, copiedIn[2], ran[2], copiedOut[2];
  };
  Status openSideStreams();

  std::optional<Relaxed> ending; // of the destructor; first, so that all members end during it
  DeviceOptions options;
  int numRanks;
  std::vector<int> rankNumbers;
  std::vector<LocalRank> locals;
  std::vector<std::shared_ptr<OpenDevice>> devices;
  std::vector<std::vector<std::shared_ptr<const DeviceEvent>>> events; // [device]: all that ranks' `launched` may be
  std::vector<DeviceId> deviceOfRank;                                  // of all ranks
  std::vector<int> ranksOnDevice;                                      // by device: ranks of all processes
  int ranksHere = 0;            // with a meeting: of this process, on the device of this rank
  std::vector<int> peerDevices; // likewise: other devices of this process, whose ranks use addresses of this one
  std::optional<DeviceMeeting> meeting; // if not all ranks are here
  std::optional<DevicePeers> peers;     // likewise
  DeviceMemory abortFlag;               // one word in host memory

  DeviceHeap heap;
  HeapBlock stagedInput[2], stagedOutput[2]; // by turn; empty where all ranks are here
  SideStreams side;
  std::map<uintptr_t, Window> windows; // by this process's first address
  uint64_t numWindows = 0;             // ever registered
  std::map<ProgramKey, std::shared_ptr<DeviceProgram>> programs;
  std::map<ShapeKey, std::shared_ptr<DeviceShape>> shapes;
  std::vector<std::unique_ptr<DevicePlan>> plans;
  std::vector<std::unique_ptr<DevicePlan>> captured;     // no call finds them, but graphs launch them
  std::vector<RetiredPlans> retired;                     // no call finds them, but they may still run
  std::vector<std::shared_ptr<DeviceTable>> spareTables; // that no launch reads
  size_t lastPlan = 0;
  std::vector<LocatedBuffers> called;           // by local rank: of the call in progress. A member, to allocate it once
  std::optional<Status> failure;                // why the communicator was aborted
  std::atomic<bool> wasAborted = false;         // by `abort`; then `failure` may not be set yet
  std::optional<Clock::time_point> noticedLoss; // by query: of a peer that a launch may wait for
};

} // namespace kolo::runtime
