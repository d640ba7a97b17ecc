// CommunicatorState: the implementation of Communicator, Window and Channel.
#pragma once

#include "call/Buffers.h"
#include "call/Call.h"
#include "call/LanePool.h"
#include "call/Plan.h"
#include "call/Remote.h"
#include "call/Semaphores.h"
#include "kolo/runtime/Communicator.h"
#include "memory/Segments.h"
#include "memory/StoreChoice.h"
#include "peers/Exchange.h"
#include "peers/PeerSegments.h"
#include "peers/Peers.h"

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace kolo::runtime {

struct WindowState {
  std::unique_ptr<Segment> segment;
  size_t sizeBytes = 0;
  std::vector<std::unique_ptr<WindowAccess>> accesses = {}; // one for each exchange among several hosts
};

struct RemoteWindowState {
  int rank = 0;
  std::byte *data = nullptr;
  size_t sizeBytes = 0;
  uint64_t remoteNumber = 0;             // of a window on another host: see Remote.h
  std::shared_ptr<const Memory> mapping; // null for this rank's own window, and among threads
};

class CommunicatorState {
public:
  explicit CommunicatorState(std::unique_ptr<Peers> joined);
  ~CommunicatorState();

  /// Takes rank `rank` of those that map this control segment, waits until all of them have done so, and agrees with
  /// them on settings. `links`: null if all are on this host. In Join.cpp. Blocking. Mismatch: the rank is
  /// taken, or ranks disagree. Timeout, PeerLost, Aborted, SystemError.
  static Result<std::unique_ptr<CommunicatorState>> joinRanks(std::shared_ptr<ControlMemory> shared, RankKind kind,
                                                              int rank, const Settings &settings,
                                                              std::shared_ptr<HostLinks> links = nullptr);
  /// Decides how to wait by the cores that each rank may use, and starts the lanes.
  Status start(std::span<const cpu_set_t> cores);

  Status barrier();
  Result<std::vector<RemoteWindow>> exchangeWindows(WindowState &window);
  Status run(const PluginState &plugin, const CallArguments &arguments);
  Status carries(const PluginState &plugin, const CallArguments &arguments) const;
  std::vector<Mesh> meshes() const;

  Peers &peers() { return *ranks; }
  Traffic traffic() const;
  const std::shared_ptr<SegmentTable> &segmentTable() const { return segments; }

  // By peer and channel id: signals sent, and signals awaited.
  std::vector<uint64_t> channelSent, channelAwaited;
  static constexpr size_t channelIndex(int peer, int id) {
    return static_cast<size_t>(peer) * numChannels + static_cast<size_t>(id);
  }

private:
  /// What a call's ranks need alike, because one of them does.
  struct Agreed {
    Staging staging = Staging::None;
    MemoryKind memory = MemoryKind::Windows; // by which the program is selected
  };
  using ProgramKey = std::pair<PluginContent, int32_t>; // and its number in the plugin

  Status join();
  Record &nextRecord(Operation operation);
  Status exchangeRecords();
  Status confirmNews(const Status &own, std::span<const Location> named);

  Status runAsGiven(const PluginState &plugin, const CallArguments &arguments);
  Status runWide(const PluginState &plugin, const CallArguments &arguments); // in WideAverage.cpp

  Status propose(Plan &plan, int64_t piece, bool &isAgreed);
  Status meetAgain(Plan &plan, int64_t piece);
  void publish(Plan &plan, int64_t piece);
  void publishLanes(Plan &plan);
  void runPiece(Plan &plan, int64_t piece);
  Status reservePublished(Buffers &buffers);
  Status reservePackets(Plan &plan);
  void startPackets(Plan &plan);
  Result<Plan *> agree(const PluginState &plugin, const CallArguments &arguments, const Status &refusal = {});
  Status prepare(const PluginState &plugin, const CallArguments &arguments, const Agreed &agreed, Plan &plan);
  bool selectedDifferently(Agreed &agreed) const;
  bool stageDifferently(Agreed &agreed) const;
  void fillRecord(Record &record, const Plan &plan) const;
  Status compareCalls() const;
  Status enter(Plan &plan);
  Status resolvePeers(Plan &plan);
  Status runLanes(Plan &plan);
  Status endFailedCall();
  void endUse();
  bool isHeldMemoryQuiet() const;

  // In Repeat.cpp, and only where there are several hosts:
  bool mayRepeat(const Plan &plan) const;
  bool isRepeated(const PluginState &plugin, const CallArguments &arguments) const;
  Status takeBuffers(Plan &plan, const PluginState &plugin, const CallArguments &arguments);
  Status reload(Plan &plan, const PluginState &plugin, const CallArguments &arguments);
  Status findDeparture() const;

  std::unique_ptr<Peers> ranks;
  Exchange exchange;
  std::shared_ptr<SegmentTable> segments;
  PeerSegments peerSegments;
  Arena arena;
  Arena wideBuffers;                  // input and output of averages that are computed in f32
  std::unique_ptr<Segment> published; // published inputs that announcements cannot hold: two turns
  Arena llPackets, ll128Lines;        // packet buffers; a receiver would take any other data there for packets
  uint64_t lastHeld = 0;              // the exchange of the last call that used what `holding` holds
  Holding holding;                    // of the memory above
  StoreChoice publishedStores{StoreChoice::ratioOfCopies};
  uint64_t numInvocations = 0; // of all programs so far; equal on all ranks
  uint64_t numPacketRuns = 0;  // runs of programs with packets so far; equal on all ranks
  Traffic moved;
  MemoryRules rules;
  std::map<ProgramKey, std::unique_ptr<Semaphores>> semaphores;
  PlanCache plans;
  uint64_t agreements = 0; // exchanges so far that agreed on a call, and calls that needed none; equal on all ranks
  Plan *steady = nullptr;  // of the last call, if it may be repeated without an exchange
  LanePool lanes;
  struct TileDeleter {
    void operator()(std::byte *memory) const;
  };
  std::unique_ptr<std::byte, TileDeleter> tiles; // tileBytes per lane
};

} // namespace kolo::runtime
