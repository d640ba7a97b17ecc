// DeviceMeeting: exchanges on the host between ranks in several threads or processes that start collectives on devices,
// and the board on which each rank announces its calls.
#pragma once

#include "call/Call.h"
#include "device/DeviceCalls.h"
#include "device/DeviceDescriptors.h"
#include "device/DeviceDriver.h"
#include "kolo/runtime/Device.h"
#include "peers/Peers.h"
#include "wait/Cell.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace kolo::runtime {

/// Where memory of a rank is, for its peers.
struct DeviceLocation {
  uint64_t address = 0;     // in the owner's process; 0: none
  uint64_t offsetBytes = 0; // in its allocation
  uint64_t id = 0;          // of the allocation; never used twice in the owner's process
  KoloDriverHandle handle = {};
};

/// Why ranks meet.
enum class DevicePurpose : int32_t { Join, Grow, Drain, Register, Deregister, Leave };

inline constexpr size_t mostShapes = 4096; // see DeviceShape

/// What a rank's network has to do with its device.
struct DeviceReach {
  int32_t memory = 0;    // NetworkMemory, that KOLO_NETWORK_MEMORY asks for
  int32_t isReached = 0; // that of the device
};

/// What a rank announces in one exchange.
struct DeviceRecord {
  DevicePurpose purpose = DevicePurpose::Join;
  StatusCode code = StatusCode::Ok; // not Ok: this rank refuses, and `message` says why
  uint64_t numCalls = 0;            // announced so far
  uint64_t digest = 0;              // of them
  DeviceLocation memory;            // that peers map
  uint64_t sizeBytes = 0;           // of that memory, or of a window that goes
  uint64_t window = 0;              // number of the window that goes
  bool isMapped = false;            // this rank has the addresses of that memory at all ranks
  // When joining.
  int32_t pid = 0, device = -1, lanes = 0, threads = 0, kind = 0;
  DeviceReach network;
  uint64_t internalBytes = 0;
  uint8_t uuid[16] = {};
  DescriptorName descriptors = {}; // where peers leave descriptors of their memory
  // Other hosts hear the rest in a refusal or a Drain alone.
  char message[320] = {};
  std::bitset<mostShapes> captured; // shapes that graphs of this rank use
};
static_assert(std::is_trivially_copyable_v<DeviceRecord>);
static_assert(sizeof(DeviceRecord) <= Announcement::maxPublishedBytes);
inline constexpr uint32_t recordSlotBytes = Control::slotBytesFor(sizeof(DeviceRecord));

/// A rank's announcement of one call.
struct alignas(64) DeviceAnnouncement {
  std::atomic<uint64_t> number; // of the call, from 1; 0 while its owner writes the rest
  std::atomic<uint64_t> digest; // of this call and all before it
  std::atomic<StatusCode> code; // not Ok: this rank refused the call
  DeviceCallKey key;
  CountDigests blocks; // of block tables
  char message[320];
};

/// Memory of the host, one window of each rank.
struct HostWindow {
  Window own;
  std::vector<RemoteWindow> all; // by rank, as mapped here; null data: on another host
  uint64_t agreement = 0;        // by which ranks of other hosts put there
};

/// One rank's end. All ranks call the same functions in the same order, except `announce`. If a rank does not come, the
/// communicator of the host is aborted: Timeout, PeerLost, Aborted.
///
/// Ranks of several hosts exchange records by the network. The board is that of one host.
class DeviceMeeting {
public:
  static Result<DeviceMeeting> create(Communicator host);

  int rank() const { return host.rank(); }
  int size() const { return host.size(); }
  const Hosts &hosts() const { return peers().hosts(); }
  std::vector<Mesh> meshes() const { return host.meshes(); }

  /// The empty record for the next exchange; the caller fills it before `perform`.
  DeviceRecord &next() { return *own = DeviceRecord(); }
  /// Blocks until all ranks have announced theirs. `heard` gives them until the next `perform`. Mismatch: ranks meet
  /// for different purposes, or have made different calls before.
  Status perform();
  const DeviceRecord &heard(int peer) const;
  /// The refusal of the first rank that refused, as a Status for this rank.
  Status firstRefusal() const;

  /// Memory of this rank alone, for `exchange`. OutOfMemory, SystemError.
  Result<Window> allocate(size_t sizeBytes) { return host.allocate(sizeBytes); }
  /// Maps the windows of all ranks of this host, and lets ranks of other hosts put to this rank's. Errors as of
  /// Communicator::exchange.
  Result<HostWindow> exchange(Window window);
  /// Keeps such memory for the threads of peers.
  void keepForPeers(Window window);
  /// Lets ranks of other hosts put and signal as the registration says. Without senders, this rank alone may put from
  /// its regions. Returns the agreement's number, which all calls of all ranks count. Errors as of
  /// Transport::registerMemory.
  Result<uint64_t> registerMemory(Registration registration);
  /// From now on they may not.
  void release(uint64_t agreement) { peers().transport().release(agreement); }

  /// Announces this rank's next call, or that it refuses the call, and compares it with those announcements of the two
  /// neighbours on this host that are there already. Never blocks. Of two neighbours, the later one sees the earlier
  /// one's announcement; so some rank sees every disagreement of a host. It returns Mismatch, or the refusal of a rank
  /// where another rank goes on. `tabled`: the call, if it has block tables; else null. Then the rank that is the last
  /// to announce it also compares the counts of all blocks, if all ranks are on one host.
  /// `isNew`: this rank has no plan of the call yet. Such a call, and each 64th, is also compared between hosts, later.
  Status announce(const DeviceCallKey &key, const Status &refusal, const Call *tabled, bool isNew);

  /// Announces whether kernels of this rank may access memory of peers.
  void setRunning(bool isRunning) { peers().block(rank()).isRunning.store(isRunning, std::memory_order_seq_cst); }
  /// Called last. Blocks until this rank's memory may be freed. If all is well, that is when all ranks have come here.
  /// Otherwise, or if a rank never comes, it is when no other rank runs kernels, or after the timeout.
  void leave(bool isWell);

  /// The host's view of the peers.
  Peers &peers() const;

private:
  // A rank that is further ahead of a neighbour has overwritten what the neighbour would compare. The digest of a later
  // call tells the difference then.
  static constexpr size_t numAnnouncements = 64;
  struct Board {
    DeviceAnnouncement announcements[numAnnouncements]; // of call n in [n % numAnnouncements]
  };

  DeviceMeeting(Communicator communicator, HostWindow ofRanks, std::shared_ptr<HostCalls> betweenHosts)
      : host(std::move(communicator)), boards(std::move(ofRanks)), calls(std::move(betweenHosts)) {}
  /// Elements that a rank gives and takes, by distance: see countsAtDistance. Beside its announcement of a call.
  using CountPair = std::array<int64_t, 2>;
  std::span<CountPair> countsOf(int peer, uint64_t call) const;
  Status compareBlocks(const Call &call) const;
  Status nameBlock(const Call &call) const;
  const DeviceAnnouncement *announcedBy(int peer) const;
  /// Requires a rank of this host.
  Board &boardOf(int peer) const { return *static_cast<Board *>(boards.all[static_cast<size_t>(peer)].data()); }
  Status compare(int peer, const DeviceAnnouncement &mine) const;
  Status compareRecords() const;
  static Result<HostWindow> exchangeBy(Communicator &host, Window window);

  Communicator host;
  HostWindow boards;
  std::shared_ptr<HostCalls> calls; // null: this rank compares none with other hosts
  std::unique_ptr<DeviceRecord> own = std::make_unique<DeviceRecord>(); // for the next exchange
  uint64_t numCalls = 0, digest = 0;
};

/// Puts a refusal into a record or an announcement.
template <class Record> void setRefusal(Record &record, const Status &status) {
  record.code = status.code();
  size_t length = std::min(status.message().size(), sizeof(record.message) - 1);
  std::copy_n(status.message().data(), length, record.message);
  record.message[length] = 0;
}

} // namespace kolo::runtime
