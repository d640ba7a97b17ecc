// Control: layout of the one segment that all ranks of a communicator share. Ranks announce and abort through it.
#pragma once

#include "kolo/runtime/Channel.h"
#include "kolo/runtime/Plugin.h"
#include "kolo/runtime/Status.h"
#include "memory/Location.h"
#include "network/Transport.h"
#include "wait/Cell.h"
#include "wait/Seat.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace kolo::runtime {

/// The longest name of a host, with the zero at its end.
inline constexpr size_t hostNameBytes = 64;

enum class Presence : uint32_t { Absent, Joined, Left };

/// The purpose of an exchange. All ranks must have the same.
enum class Operation : uint8_t { Join, Barrier, ExchangeWindows, Run, Confirm };
/// For messages: "rank 0 called barrier".
const char *toString(Operation operation);

/// The part of a call that must be equal on every rank, once the program is known. `plugin` is the file's checksum.
struct CallKey {
  uint64_t plugin = 0;
  int64_t mesh[KOLO_MAX_MESH_DIMS] = {};
  int64_t count = 0;
  int32_t program = 0;
  int32_t type = 0;
  int32_t reduction = 0;
  int32_t root = 0;
  bool hasTables = false;

  bool operator==(const CallKey &) const = default;
};

/// Sums of hashes of the blocks that a rank gives and takes, each with its two ranks and its count. Over all ranks,
/// both sums are equal if every block is taken as long as it is given. By chance they are equal for others once in
/// 2^64.
struct CountDigests {
  uint64_t given = 0, taken = 0;

  bool operator==(const CountDigests &) const = default;
};

/// What a rank announces of a call with block tables.
struct TableRecord {
  // What it knows of the longest block, in elements, and of the largest buffer of any rank.
  int64_t longestBlock = 0, largestBytes = 0;
  CountDigests digests;
  int64_t counts[2] = {}; // to name counts that differ: see countsAtDistance

  bool operator==(const TableRecord &) const = default;
};

/// How peers reach the buffers of one call. All ranks use the last of the ways that any of them needs.
enum class Staging : uint8_t {
  None,   // buffers are used where they are
  Aside,  // likewise, but some rank copies its input aside first, because its output overlaps the input
  Pieces, // buffers are staged in the runtime's memory, piece by piece
  Whole,  // buffers are staged in the runtime's memory in one piece
};

inline bool isStaged(Staging staging) { return staging >= Staging::Pieces; }

/// What a rank announces of its settings when it joins.
struct JoinRecord {
  int32_t lanes = 0;
  uint32_t ordinaryMemory = 0; // an OrdinaryMemory
  int32_t timeoutMs = 0;

  bool operator==(const JoinRecord &) const = default;
};

/// What a rank is able to do.
struct Abilities {
  bool attach = false;   // when joining: cross-memory attach to every peer works
  bool keepPlan = false; // in a call: there is room for one plan more than that of the call
};

/// The long form of what a rank announces in one exchange.
struct Record {
  static constexpr int maxReleased = 8;

  Operation operation = Operation::Barrier;
  bool hasNews = false; // a location names a segment that the peers have not confirmed yet
  Abilities can;
  uint8_t numReleased = 0;
  Staging staging = Staging::None;             // of the buffers below
  MemoryKind selectedBy = MemoryKind::Windows; // the kind of memory by which the program was selected
  StatusCode code = StatusCode::Ok;            // not Ok: this rank refuses, and `message` says why
  JoinRecord join;
  TableRecord tables;
  CallKey call;
  Location buffers[KOLO_NUM_BUFFER_ROLES];
  Location semaphores;
  std::optional<uint64_t> toldSize;    // in bytes, if ranks of other hosts must know that of each rank
  uint64_t released[maxReleased] = {}; // segments of this rank that no longer exist
  char message[256] = {};
};
static_assert(std::is_trivially_copyable_v<Record>);

/// Puts a refusal into a record.
void setFailure(Record &record, const Status &status);

/// What a rank tells those of its host once, when it joins.
struct JoinInfo {
  uint64_t probeAddress = 0; // of a word that holds probeValue, to try cross-memory attach on
  cpu_set_t cores = {};
  bool runsAhead = false; // CommunicatorOptions::runsAhead
};

/// What a rank announces in one exchange: the number of the exchange (the Counter), a plan, and the published input of
/// its program. The first published bytes are in the same cache line.
struct alignas(cacheLineBytes) Announcement : Counter {
  uint64_t plan; // the number of an agreed plan; 0: the Record of the same turn tells instead
  static constexpr size_t maxPublishedBytes = 8192 - sizeof(Counter) - sizeof(plan);
  std::byte published[maxPublishedBytes];
};
static_assert(sizeof(Announcement) % 4096 == 0);

/// How much a rank publishes in an exchange. A slot takes the most that a rank publishes in any exchange of the plan,
/// so slots are alike on all ranks.
struct PublishedSize {
  uint32_t sizeBytes = 0;
  uint32_t slotBytes = 0;
};

/// What a rank of another host publishes, as the speaker of this host has received it.
struct alignas(16) FarInput {
  static constexpr size_t headBytes = 16;

  uint32_t sizeBytes;
  std::byte *data() { return reinterpret_cast<std::byte *>(this) + headBytes; }
};

struct alignas(cacheLineBytes) RankBlock {
  /// How many exchanges have announcements at a time: a rank may be one less ahead of another.
  static constexpr size_t numTurns = 4;
  /// Of so many exchanges a rank keeps what it announced.
  static constexpr size_t numRemembered = 128;

  std::atomic<Presence> presence;
  std::atomic<int32_t> pid; // 0: unknown yet, or a thread of this process
  JoinInfo join;
  SeatedOn seatedOn;
  Announcement announcements[numTurns]; // of exchange n in [n % numTurns]
  Record records[2];                    // of exchange n in [n % 2]
  // Of exchange n in [n % 2], and only where there are several hosts:
  PublishedSize published[2];                              // that other hosts must be sent
  uint64_t numRepeated[2];                                 // see RepeatCounts
  alignas(cacheLineBytes) std::atomic<uint32_t> isRunning; // generated code may access peers' memory
  std::atomic<uint64_t> finished;                          // the exchange of the last call that has ended on this rank
  alignas(cacheLineBytes) Counter begunBarriers;           // see SplitBarrier
  // Where ranks may run ahead: the plan announced in exchange n, in [n % numRemembered].
  alignas(cacheLineBytes) std::atomic<uint64_t> remembered[numRemembered];

  Announcement &announcementOf(uint64_t exchange) { return announcements[exchange % numTurns]; }
  std::atomic<uint64_t> &rememberedOf(uint64_t exchange) { return remembered[exchange % numRemembered]; }
};

/// So many bytes ranks say together at most: see CombinedRecords.
inline constexpr size_t maxCombinedBytes = 2048;

enum class AbortState : uint32_t { None, Claimed, Published };

/// The first failure, for all ranks. Written once.
struct alignas(cacheLineBytes) AbortRecord {
  std::atomic<AbortState> state;
  StatusCode code;
  int32_t culprit;
  char message[512];
};

/// Stores the first failure of a host's ranks. False: there was one before.
bool storeAbort(AbortRecord &record, const Status &cause);

/// How many calls ranks began without an exchange before they came to this one: the fewest and the most of any of them.
/// By whom: the lowest rank with so many. Equal in a right program.
struct RepeatCounts {
  uint64_t least = UINT64_MAX, most = 0;
  int32_t leastRank = INT32_MAX, mostRank = INT32_MAX;

  void add(const RepeatCounts &other) {
    if (std::pair(other.least, other.leastRank) < std::pair(least, leastRank))
      least = other.least, leastRank = other.leastRank;
    if (other.most > most || (other.most == most && other.mostRank < mostRank))
      most = other.most, mostRank = other.mostRank;
  }
};

/// Why a summary keeps a record: see RecordSummary.
enum class Kept : uint8_t { First, OtherOperation, OtherCall, OtherJoin, Refusal, Departed };
inline constexpr size_t numKept = 6;

/// What a summary of records says beside the records that it keeps.
struct SummaryNumbers {
  /// What adds up, so that each rank must count once.
  struct Sums {
    CountDigests digests;
    int64_t counts[2] = {};

    void add(const Sums &other) {
      digests.given += other.digests.given;
      digests.taken += other.digests.taken;
      for (size_t i : {0u, 1u})
        counts[i] += other.counts[i];
    }
  };
  /// A field of all records.
  template <class Value> struct Compared {
    Value largest = {};
    bool areDifferent = false;

    void add(const Compared &other) {
      areDifferent |= other.areDifferent || other.largest != largest;
      largest = std::max(largest, other.largest);
    }
  };

  bool hasNews = false;
  Compared<Staging> staging;
  Compared<MemoryKind> selectedBy;
  Compared<int64_t> longestBlock, largestBytes;
  Sums sums;
  uint64_t largestBuffers[KOLO_NUM_BUFFER_ROLES] = {};
  uint64_t numRepeated = 0; // of the kept record Departed: the least of all
};

/// A summary in memory that processes share.
struct KeptRecords {
  int32_t ranks[numKept] = {-1, -1, -1, -1, -1, -1}; // -1: there is none
  Record records[numKept];
  SummaryNumbers numbers;
};

/// What ranks say together: see CombinedRecords.
struct CombinedBytes {
  uint32_t sizeBytes = 0;
  std::byte bytes[maxCombinedBytes] = {};

  std::span<const std::byte> get() const { return {bytes, std::min<size_t>(sizeBytes, maxCombinedBytes)}; }
  /// Requires at most maxCombinedBytes.
  void set(std::span<const std::byte> given) {
    std::ranges::copy(given, bytes);
    sizeBytes = static_cast<uint32_t>(given.size());
  }
};

/// What all ranks of the world announced, as the speaker of the host found out. Only where there are several hosts.
struct alignas(cacheLineBytes) HostBlock {
  Counter gathered; // the number of the exchange: all that its other ranks announced is in their blocks
  Counter roster;   // see RosterStage
  uint64_t plan[2]; // of exchange n in [n % 2]: the plan that all announced, 0 for records, or `differentPlans`
  RepeatCounts repeats[2];
  KeptRecords records[2];        // of exchange n in [n % 2], if `plan` is 0
  CombinedBytes combined[2];     // likewise, if it is planOfMeetings
  std::atomic<int32_t> awaited;  // 1 + the rank that the speaker waits for; 0: nobody
  std::atomic<int64_t> lookedAt; // of its Clock: when it last saw that it waits for that rank
};
inline constexpr uint64_t differentPlans = UINT64_MAX;
/// The plan in an exchange where what ranks publish is added up: see CombinedRecords.
inline constexpr uint64_t planOfMeetings = uint64_t(1) << 61;
/// Of HostBlock::roster: how much of it is in memory.
enum class RosterStage : uint64_t { Nothing, HasProcesses, IsWhole };

/// Where every rank of a world of several hosts is, in memory that the ranks of this host share.
struct RosterEntry {
  Endpoint endpoint;   // without its offer of a network
  int32_t hostPlusOne; // 0: unknown yet
};

/// A view of the segment: an AbortRecord, a HostBlock if there are several hosts, and one RankBlock for each rank of
/// this host. Then the channels' cells by receiver, sender and id; receivers are the ranks of this host alone. Then
/// what ranks of other hosts publish, and the roster. Where there are several hosts, the kernel gives pages for cells
/// and all behind them when they are first used.
class Control {
public:
  Control() = default;
  /// `ranksHere`: of them on this host.
  Control(std::byte *memory, int numRanks, int ranksHere) : base(memory), ranks(numRanks), here(ranksHere) {}

  static size_t sizeBytes(int numRanks, int numHere) {
    auto n = static_cast<size_t>(numRanks);
    return farOffset(numRanks, numHere) +
           (numHere < numRanks ? 2 * farBytes(numRanks) + n * (sizeof(RosterEntry) + hostNameBytes) : 0);
  }
  /// Of them, those that every communicator uses; they come first.
  static size_t usedBytes(int numRanks, int numHere) {
    return numHere < numRanks ? cellsOffset(numRanks, numHere) : farOffset(numRanks, numHere);
  }
  /// One rank's part of them.
  static size_t bytesOfRank(int numRanks, int numHere) {
    constexpr size_t pageBytes = 4096;
    const size_t pages = (usedBytes(numRanks, numHere) + pageBytes - 1) / pageBytes;
    return (pages * pageBytes + static_cast<size_t>(numHere) - 1) / static_cast<size_t>(numHere);
  }

  int numRanks() const { return ranks; }
  int numHere() const { return here; }
  AbortRecord &abort() const { return *reinterpret_cast<AbortRecord *>(base); }
  /// Requires several hosts.
  HostBlock &host() const { return *reinterpret_cast<HostBlock *>(base + sizeof(AbortRecord)); }
  /// Of the rank with this place among those of this host.
  RankBlock &block(int place) const {
    return reinterpret_cast<RankBlock *>(base + blocksOffset(ranks, here))[static_cast<size_t>(place)];
  }
  Cell &channelCell(int receiver, int sender, int id) const {
    auto *cells = reinterpret_cast<Cell *>(base + cellsOffset(ranks, here));
    return cells[(static_cast<size_t>(receiver) * static_cast<size_t>(ranks) + static_cast<size_t>(sender)) *
                     numChannels +
                 static_cast<size_t>(id)];
  }
  /// What a rank of another host publishes in an exchange of this turn, with slots of so many bytes.
  FarInput &farInput(int rank, size_t turn, size_t slotBytes) const {
    std::byte *ofTurn = base + farOffset(ranks, here) + turn % 2 * farBytes(ranks);
    return *reinterpret_cast<FarInput *>(ofTurn + static_cast<size_t>(rank) * (FarInput::headBytes + slotBytes));
  }
  /// By rank, and by host: texts that end with a zero. There are as many hosts as ranks at most.
  RosterEntry *rosterEntries() const {
    return reinterpret_cast<RosterEntry *>(base + farOffset(ranks, here) + 2 * farBytes(ranks));
  }
  char *rosterName(int host) const {
    return reinterpret_cast<char *>(rosterEntries() + ranks) + static_cast<size_t>(host) * hostNameBytes;
  }
  /// The bytes of a slot for so many.
  static constexpr size_t slotBytesFor(size_t sizeBytes) { return (sizeBytes + 15) / 16 * 16; }

private:
  static size_t blocksOffset(int numRanks, int numHere) {
    return sizeof(AbortRecord) + (numHere < numRanks ? sizeof(HostBlock) : 0);
  }
  static size_t cellsOffset(int numRanks, int numHere) {
    return blocksOffset(numRanks, numHere) + static_cast<size_t>(numHere) * sizeof(RankBlock);
  }
  static size_t farOffset(int numRanks, int numHere) {
    return cellsOffset(numRanks, numHere) +
           static_cast<size_t>(numHere) * static_cast<size_t>(numRanks) * numChannels * sizeof(Cell);
  }
  static size_t farBytes(int numRanks) {
    return static_cast<size_t>(numRanks) * (FarInput::headBytes + slotBytesFor(Announcement::maxPublishedBytes));
  }

  std::byte *base = nullptr;
  int ranks = 0, here = 0;
};

} // namespace kolo::runtime
