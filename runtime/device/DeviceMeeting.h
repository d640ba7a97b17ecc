// DeviceMeeting: exchanges on the host between ranks in several threads or processes that start collectives on devices,
// and the board on which each rank announces its calls.
#pragma once

#include "call/Call.h"
#include "device/DeviceCalls.h"
#include "device/DeviceRecord.h"
#include "device/DeviceSummary.h"
#include "kolo/runtime/Device.h"
#include "peers/Peers.h"
#include "wait/Cell.h"

#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <vector>

namespace kolo::runtime {

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
  std::vector<RemoteWindow> here; // of the ranks of this host, in their order, as mapped here
  uint64_t agreement = 0;         // by which ranks of other hosts put there
};

/// One rank's end. All ranks call the same functions in the same order, except `announce`. If a rank does not come, the
/// communicator of the host is aborted: Timeout, PeerLost, Aborted.
///
/// Ranks of several hosts hear what all records say together: see DeviceSummary. The board is that of one host.
class DeviceMeeting {
public:
  static Result<DeviceMeeting> create(Communicator host);

  int rank() const { return host.rank(); }
  int size() const { return host.size(); }
  const Hosts &hosts() const { return peers().hosts(); }
  std::vector<Mesh> meshes() const { return host.meshes(); }

  /// The empty record for the next meeting; the caller fills it before `perform`.
  DeviceRecord &next() { return *own = DeviceRecord(); }
  /// Blocks until all ranks have announced theirs. The next functions tell of them until the next `perform`. Mismatch:
  /// ranks meet for different purposes, or have made different calls before.
  Status perform();
  /// What all ranks say together.
  const DeviceSummary &said() const { return summary; }
  /// What a rank of this host says; also until the next `ranksElsewhereOn` or `exchange`.
  const DeviceRecord &heard(int peer) const;
  /// The refusal of the first rank that refused, as a Status for this rank.
  Status firstRefusal() const;
  /// After a meeting to join: how many ranks of other hosts have the device of this rank, as those of one machine may.
  /// Ranks exchange devices if they do not see without it that no other host is this machine.
  Result<int> ranksElsewhereOn(const DeviceId &own);

  /// Memory of this rank alone, for `exchange`. OutOfMemory, SystemError.
  Result<Window> allocate(size_t sizeBytes) { return host.allocate(sizeBytes); }
  /// Maps the windows of all ranks of this host, and lets ranks of other hosts put to this rank's. All have the same
  /// size. Errors as of Communicator::exchange.
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
      : host(std::move(communicator)), boards(std::move(ofRanks)), calls(std::move(betweenHosts)),
        summary(host.size()) {}
  /// Elements that a rank gives and takes, by distance: see countsAtDistance. Beside its announcement of a call.
  using CountPair = std::array<int64_t, 2>;
  std::span<CountPair> countsOf(int peer, uint64_t call) const;
  Status compareBlocks(const Call &call) const;
  Status nameBlock(const Call &call) const;
  const DeviceAnnouncement *announcedBy(int peer) const;
  /// Requires a rank of this host.
  Board &boardOf(int peer) const {
    return *static_cast<Board *>(boards.here[static_cast<size_t>(hosts().placeOf(peer))].data());
  }
  Status compare(int peer, const DeviceAnnouncement &mine) const;
  Status compareRecords() const;
  const std::byte *publishedBy(int peer, size_t slotBytes) const;
  static Result<HostWindow> exchangeBy(Communicator &host, Window window);

  Communicator host;
  HostWindow boards;
  std::shared_ptr<HostCalls> calls; // null: this rank compares none with other hosts
  std::unique_ptr<DeviceRecord> own = std::make_unique<DeviceRecord>(); // for the next meeting
  DeviceSummary summary;                                                // of the last one
  uint64_t numCalls = 0, digest = 0;
};

} // namespace kolo::runtime
