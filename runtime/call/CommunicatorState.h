// CommunicatorState: the implementation of Communicator, Window and Channel.
#pragma once

#include "call/AheadPlans.h"
#include "call/Buffers.h"
#include "call/Call.h"
#include "call/HeldMemory.h"
#include "call/LaneRuns.h"
#include "call/Plan.h"
#include "call/Remote.h"
#include "call/Semaphores.h"
#include "kolo/runtime/Communicator.h"
#include "memory/Segments.h"
#include "memory/SparseArray.h"
#include "peers/Exchange.h"
#include "peers/PeerSegments.h"
#include "peers/Peers.h"
#include "peers/SplitBarrier.h"

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

/// What an exchange of windows gives.
enum class ExchangedWindows : uint8_t {
  OfAll,      // those of all ranks, which may differ in size
  OfThisHost, // those of the ranks of this host, where all windows of the world have the same size
};

/// By peer and channel id: signals sent, and signals awaited.
class ChannelCounts {
public:
  explicit ChannelCounts(int numRanks)
      : sent(static_cast<size_t>(numRanks) * numChannels), awaited(static_cast<size_t>(numRanks) * numChannels) {}

  uint64_t nextSent(int peer, int id) { return ++sent[index(peer, id)]; }
  uint64_t nextAwaited(int peer, int id) { return ++awaited[index(peer, id)]; }

private:
  static constexpr size_t index(int peer, int id) {
    return static_cast<size_t>(peer) * numChannels + static_cast<size_t>(id);
  }
  SparseArray<uint64_t> sent, awaited;
};

/// Whether the call of a plan may be repeated among several hosts without an exchange: see Repeat.cpp. The same on all
/// ranks.
bool mayRepeat(const Plan &plan, const Peers &peers);
/// The meshes of Communicator::meshes.
std::vector<Mesh> meshesOf(const Hosts &hosts);

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
  void start(std::span<const cpu_set_t> cores);

  Status barrier();
  Result<std::vector<RemoteWindow>> exchangeWindows(WindowState &window, ExchangedWindows result);
  Status run(const PluginState &plugin, const CallArguments &arguments);
  Status carries(const PluginState &plugin, const CallArguments &arguments) const;

  Peers &peers() { return *ranks; }
  Traffic traffic() const;
  const std::shared_ptr<SegmentTable> &segmentTable() const { return segments; }

  ChannelCounts channels;
  SplitBarrier splitBarrier;

private:
  friend class DeviceMeeting;
  /// What a call's ranks need alike, because one of them does.
  struct Agreed {
    Staging staging = Staging::None;
    MemoryKind memory = MemoryKind::Windows;    // by which the program is selected
    int64_t longestBlock = 0, largestBytes = 0; // of a call with block tables
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
  Result<Plan *> agree(const PluginState &plugin, const CallArguments &arguments, const Status &refusal = {});
  Status prepare(const PluginState &plugin, const CallArguments &arguments, const Agreed &agreed, Plan &plan);
  Status enter(Plan &plan);
  Status runLanes(Plan &plan);
  Status endFailedCall();
  bool isHeldMemoryQuiet() const;

  Status runAhead(Plan &plan, const PluginState &plugin, const CallArguments &arguments); // in AheadPlans.cpp

  // In Repeat.cpp, and only where there are several hosts:
  Status takeBuffers(Plan &plan, const PluginState &plugin, const CallArguments &arguments);
  Status reload(Plan &plan, const PluginState &plugin, const CallArguments &arguments);
  Status findDeparture() const;

  std::unique_ptr<Peers> ranks;
  Exchange exchange;
  std::shared_ptr<SegmentTable> segments;
  PeerSegments peerSegments;
  HeldMemory held;
  MemoryRules rules;
  std::map<ProgramKey, std::unique_ptr<Semaphores>> semaphores;
  PlanRoom planRoom;
  PlanCache plans;
  AheadPlans aheadPlans;
  uint64_t agreements = 0; // exchanges so far that agreed on a call, and calls that needed none; equal on all ranks
  Plan *steady = nullptr;  // of the last call, if it may be repeated without an exchange
  LaneRuns lanes;
};

} // namespace kolo::runtime
