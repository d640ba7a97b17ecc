// CommunicatorState: what is behind a Communicator, and its windows and channels.
#pragma once

#include "Buffers.h"
#include "Call.h"
#include "LanePool.h"
#include "Semaphores.h"
#include "kolo/runtime/Communicator.h"
#include "memory/Segments.h"
#include "transport/Exchange.h"
#include "transport/World.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace kolo::runtime {

struct WindowState {
  std::unique_ptr<Segment> segment;
  size_t sizeBytes = 0;
};

struct RemoteWindowState {
  int rank = 0;
  std::byte *data = nullptr;
  size_t sizeBytes = 0;
  std::shared_ptr<const Memory> mapping; // null for this rank's own window, and among threads
};

class CommunicatorState {
public:
  explicit CommunicatorState(std::unique_ptr<World> joined);
  ~CommunicatorState();

  /// Agrees with the peers on settings; see Join.cpp. Before all else, in a world of processes.
  Status join();
  /// Decides how to wait, knowing how many cores all ranks have together, and starts the lanes.
  Status start(int numCores);

  Status barrier();
  Result<std::vector<RemoteWindow>> exchangeWindows(const WindowState &window);
  Status run(const PluginState &plugin, const CallArguments &arguments);

  World &world() { return *ranks; }
  const std::shared_ptr<SegmentTable> &segmentTable() const { return segments; }

  // By peer and channel id: signals sent, and signals waited for.
  std::vector<uint64_t> channelSent, channelAwaited;
  static constexpr size_t channelIndex(int peer, int id) { return static_cast<size_t>(peer * numChannels + id); }

private:
  friend struct Invocation;
  using ProgramKey = std::pair<uint64_t, int32_t>; // plugin, program

  Record &nextRecord(Operation operation);
  Status exchangeRecords();
  Status confirmNews(Status own, const std::vector<Location> &named);

  Status prepare(const PluginState &plugin, const CallArguments &arguments, Call &call, Buffers &buffers);
  Status enter(const Call &call, const Buffers &buffers);
  Status resolvePeers(const Call &call, const Buffers &buffers);
  Status compareCalls(const Call &call) const;
  Status runLanes(const Call &call, const Buffers &buffers);
  /// Whether the buffers of all ranks together leave little of each other in the last-level cache.
  bool exceedsCaches(const Call &call) const;
  Semaphores &semaphoresOf(const Call &call) { return *semaphores.at({call.key.plugin, call.key.program}); }

  std::unique_ptr<World> ranks;
  Exchange exchange;
  std::shared_ptr<SegmentTable> segments;
  PeerSegments peers;
  Arena arena;
  OrdinaryMemory ordinaryMemory = OrdinaryMemory::Staged;
  size_t sharedCacheBytes;
  std::map<ProgramKey, std::unique_ptr<Semaphores>> semaphores;
  // By role and rank, for the call that is running. Copies of what the records say: a peer that has finished this call may
  // already be writing the record of its next one.
  std::vector<void *> peerBuffers[KOLO_NUM_BUFFER_ROLES];
  std::vector<Location> peerLocations[KOLO_NUM_BUFFER_ROLES];
  LanePool lanes;
  struct TileDeleter {
    void operator()(std::byte *memory) const;
  };
  std::unique_ptr<std::byte, TileDeleter> tiles; // tileBytes per lane
};

inline constexpr size_t tileBytes = size_t(64) << 10;

} // namespace kolo::runtime
