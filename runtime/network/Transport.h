// Transport: how a rank writes to ranks that it shares no memory with. One interface for every network.
#pragma once

#include "kolo/runtime/Status.h"
#include "wait/Cell.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kolo::runtime {

/// Where peers reach a rank, as its transport writes it. The bootstrap hands it to all ranks unread.
using Endpoint = std::array<std::byte, 64>;

/// Whose memory a region is, and how a network's device reaches memory of a GPU.
struct RegionOwner {
  enum class Kind : uint8_t { Host, Cuda, Hip } kind = Kind::Host;
  int device = 0;         // its ordinal in the vendor's library
  int dmaBuf = -1;        // the region as a dma-buf: a descriptor that is open as long as the registration; -1: none
  bool needsRead = false; // what arrives is visible only when the network's device has read from that GPU
};

/// Memory that peers may put to. Nothing may be put where `sizeBytes` is 0.
struct Region {
  std::byte *memory = nullptr;
  uint64_t sizeBytes = 0;
  RegionOwner owner = {};
};

/// What peers may write in one agreement. A peer names the number of the agreement, never an address.
struct Registration {
  uint64_t agreement = 0;
  std::vector<Region> regions; // by role
  std::vector<bool> senders;   // by rank: who may write
  Cell *cells = nullptr;       // [lane][semaphore][sender], or as isBySender says; a sender by its placeOf
  uint32_t numLanes = 0;
  uint32_t numSemaphores = 0;
  bool isBySender = false; // the cells of the one lane are [sender][semaphore]
  /// Of cells that tell of puts to memory of GPUs: makes visible what has come. Then no peer raises these cells: this
  /// rank does, when all that precedes a signal has come and this function has returned. It waits for no kernel. Null:
  /// peers may raise the cells. Requires a transport that takes such memory.
  std::function<Status()> makeVisible = nullptr;
  std::vector<int> cellOwners = {}; // the senders, in ascending order, if only they have cells; empty: all ranks have

  size_t numPlaces() const { return cellOwners.empty() ? senders.size() : cellOwners.size(); }
  /// Requires a rank that has cells.
  size_t placeOf(int sender) const;
  /// Requires such a rank, and a lane and a semaphore that there are.
  Cell &cellOf(int sender, uint32_t lane, uint32_t semaphore) const;
};

/// The number of a cell: of a sender's place among so many.
struct CellPlace {
  uint64_t place = 0, numPlaces = 0;
};
inline uint64_t cellNumber(CellPlace of, bool isBySender, uint32_t numSemaphores, uint32_t lane, uint32_t semaphore) {
  return isBySender ? of.place * numSemaphores + semaphore
                    : (uint64_t(lane) * numSemaphores + semaphore) * of.numPlaces + of.place;
}
inline size_t Registration::placeOf(int sender) const {
  return cellOwners.empty() ? static_cast<size_t>(sender)
                            : static_cast<size_t>(std::ranges::lower_bound(cellOwners, sender) - cellOwners.begin());
}
inline Cell &Registration::cellOf(int sender, uint32_t lane, uint32_t semaphore) const {
  return cells[cellNumber({placeOf(sender), numPlaces()}, isBySender, numSemaphores, lane, semaphore)];
}

/// The rank to write to, and the lane that writes.
struct Path {
  int peer = 0;
  uint32_t lane = 0;
};

/// A place in a peer's memory.
struct RemotePlace {
  uint64_t agreement = 0;
  uint32_t role = 0;
  uint64_t offsetBytes = 0;
};

/// The new count of the cell that a peer holds for this rank, the lane and `semaphore`.
struct RemoteSignal {
  uint64_t agreement = 0;
  uint32_t semaphore = 0;
  uint64_t count = 0;
};

/// Both only grow, by steps of any size.
struct PutCounts {
  uint64_t numBegun = 0, numFlushed = 0;
};
/// Of a peer that takes nothing any more.
inline constexpr PutCounts noPutsUnderWay = {UINT64_MAX, UINT64_MAX};

/// Counts are at least 1, and smaller than this: a Counter holds twice the count.
inline constexpr uint64_t endOfCounts = uint64_t(1) << 62;
/// The largest put.
inline constexpr uint64_t maxPutBytes = uint64_t(1) << 40;
/// By so many numbers a peer's agreement may exceed the newest one that this rank has registered.
inline constexpr uint64_t maxEarlyAgreements = 16;

/// One rank's end. No thread runs here: data moves only in calls of `flush`, `progress` and `idle`, which every waiting
/// rank must make. `put`, `signal`, `flush`, `countPuts`, `progress`, `idle` and `stateOf` may be called by
/// several threads at once, a lane by one at a time. All other functions are called by one thread alone.
///
/// The receiver checks everything that arrives against its registrations before it stores a byte. If something does not
/// fit, that connection ends, and the receiver's Status is Mismatch with the sender's rank.
class Transport {
public:
  virtual ~Transport() = default;

  virtual Endpoint endpoint() const = 0;

  /// Connects this rank to others. `endpoints`: by rank; an empty one (zeros): no connection is needed. Blocks until
  /// all peers have done the same, at most for the timeout. Timeout, PeerLost, InvalidArgument, SystemError: with the
  /// rank.
  virtual Status connect(std::span<const Endpoint> endpoints) = 0;

  /// From now on peers may write as the registration says. Its number exceeds all earlier ones. Signals that came
  /// before are counted now; puts that came before are received from now on. InvalidArgument, Mismatch.
  virtual Status registerMemory(const Registration &registration) = 0;
  /// Whether this rank may register such memory of a GPU, and put from it what lies in registered memory.
  /// InvalidArgument, SystemError: says why not.
  virtual Status tryMemory(const Region &region) {
    (void)region;
    return Status(StatusCode::InvalidArgument,
                  "this network reaches no memory of devices: name a provider of libfabric in KOLO_NETWORK");
  }
  /// When it returns, nothing writes to the agreement's memory and cells any more. A peer that still does so ends with
  /// its connection.
  virtual void release(uint64_t agreement) = 0;
  /// Whether it has `renew`.
  virtual bool canRenew() const { return false; }
  /// Gives an agreement a larger number and other regions: see Registrations::renew. A peer that still writes under the
  /// old number ends with its connection, as with `release`. Requires canRenew().
  virtual Status renew(uint64_t agreement, uint64_t next, std::span<const Region> regions) {
    (void)agreement, (void)next, (void)regions;
    return Status(StatusCode::InvalidArgument, "this transport gives no agreement another number");
  }

  /// Begins to write sizeBytes bytes to the peer. Never blocks. The source is in use until the lane's next `flush`
  /// returns, or as `countPuts` says. InvalidArgument, or the Status of stateOf(peer).
  virtual Status put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) = 0;
  /// Begins to raise a cell of the peer, after all earlier puts of the lane to that peer. Never blocks. Errors as put.
  virtual Status signal(Path path, RemoteSignal signal) = 0;
  /// Blocks until the sources of the lane's puts may be overwritten, and the lane's signals are on their way: they
  /// arrive even if this rank does nothing any more. Timeout: a peer took no byte for that long. PeerLost, Mismatch;
  /// Aborted: a transport that can be told so was told to stop.
  virtual Status flush(uint32_t lane) = 0;
  /// How far the lane's puts to the peer are. A source may be overwritten once `numFlushed` has reached what `numBegun`
  /// was after its put. Never blocks; `progress` brings it on.
  virtual PutCounts countPuts(Path path) const = 0;

  /// Sends and receives what is possible now. Never blocks. PeerLost, Mismatch: the first failure of any peer, again in
  /// every later call. It is no failure that a peer has left.
  virtual Status progress() = 0;
  /// Sleeps until something arrives, the counter reaches `target`, or `until` has come, and makes progress. It may
  /// return earlier. Only counters that this transport raises end the sleep. Errors as progress.
  virtual Status idle(const Counter &counter, uint64_t target, std::chrono::steady_clock::time_point until) = 0;

  /// Ok while the peer is connected. PeerLost: it ended or left. Mismatch: what it sent was refused.
  virtual Status stateOf(int peer) const = 0;
};

} // namespace kolo::runtime
