// Control: layout of the one segment that all ranks of a communicator share. Ranks announce and abort through it.
#pragma once

#include "kolo/runtime/Channel.h"
#include "kolo/runtime/Plugin.h"
#include "kolo/runtime/Status.h"
#include "memory/Location.h"
#include "wait/Cell.h"
#include "wait/Seat.h"

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kolo::runtime {

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
};

/// The long form of what a rank announces in one exchange.
struct Record {
  static constexpr int maxReleased = 8;

  Operation operation = Operation::Barrier;
  bool hasNews = false;   // a location names a segment that the peers have not confirmed yet
  bool canAttach = false; // when joining: cross-memory attach to every peer works
  uint8_t numReleased = 0;
  Staging staging = Staging::None;             // of the buffers below
  MemoryKind selectedBy = MemoryKind::Windows; // the kind of memory by which the program was selected
  StatusCode code = StatusCode::Ok;            // not Ok: this rank refuses, and `message` says why
  JoinRecord join;
  TableRecord tables;
  CallKey call;
  Location buffers[KOLO_NUM_BUFFER_ROLES];
  Location semaphores;
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
  uint32_t publishedBytes[2];                              // that other hosts must be sent
  uint64_t numRepeated[2];                                 // see RepeatCounts
  alignas(cacheLineBytes) std::atomic<uint32_t> isRunning; // generated code may access peers' memory
  std::atomic<uint64_t> finished;                          // the exchange of the last call that has ended on this rank
  alignas(cacheLineBytes) Counter begunBarriers;           // see SplitBarrier
  // Where ranks may run ahead: the plan announced in exchange n, in [n % numRemembered].
  alignas(cacheLineBytes) std::atomic<uint64_t> remembered[numRemembered];

  Announcement &announcementOf(uint64_t exchange) { return announcements[exchange % numTurns]; }
  std::atomic<uint64_t> &rememberedOf(uint64_t exchange) { return remembered[exchange % numRemembered]; }
};

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

/// How many calls ranks began without an exchange before they came to this one: the fewest and the most of any of them,
/// and by whom. Equal in a right program.
struct RepeatCounts {
  uint64_t least = UINT64_MAX, most = 0;
  int32_t leastRank = 0, mostRank = 0;

  void add(const RepeatCounts &other) {
    if (other.least < least)
      least = other.least, leastRank = other.leastRank;
    if (other.most >= most)
      most = other.most, mostRank = other.mostRank;
  }
};

/// What all ranks of the world announced, as the speaker of the host found out. Only where there are several hosts.
struct alignas(cacheLineBytes) HostBlock {
  Counter gathered; // the number of the exchange: all that its other ranks announced is in their blocks
  uint64_t plan[2]; // of exchange n in [n % 2]: the plan that all announced, 0 for records, or `differentPlans`
  RepeatCounts repeats[2];
  std::atomic<int32_t> awaited;  // 1 + the rank that the speaker waits for; 0: nobody
  std::atomic<int64_t> lookedAt; // of its Clock: when it last saw that it waits for that rank
};
inline constexpr uint64_t differentPlans = UINT64_MAX;

/// A view of the segment: an AbortRecord, a HostBlock, one RankBlock per rank, then the channels' cells by receiver,
/// sender and id. Receivers are the ranks of this host alone, by their place among them.
class Control {
public:
  Control() = default;
  Control(std::byte *memory, int numRanks) : base(memory), ranks(numRanks) {}

  /// `numHere`: of them on this host.
  static size_t sizeBytes(int numRanks, int numHere) {
    auto n = static_cast<size_t>(numRanks);
    return sizeof(AbortRecord) + sizeof(HostBlock) + n * sizeof(RankBlock) +
           static_cast<size_t>(numHere) * n * numChannels * sizeof(Cell);
  }

  /// Of them, what one rank uses.
  static constexpr size_t bytesOfRank(int numRanks) {
    return sizeof(RankBlock) + static_cast<size_t>(numRanks) * numChannels * sizeof(Cell);
  }

  int numRanks() const { return ranks; }
  AbortRecord &abort() const { return *reinterpret_cast<AbortRecord *>(base); }
  HostBlock &host() const { return *reinterpret_cast<HostBlock *>(base + sizeof(AbortRecord)); }
  RankBlock &block(int rank) const {
    return reinterpret_cast<RankBlock *>(base + sizeof(AbortRecord) + sizeof(HostBlock))[static_cast<size_t>(rank)];
  }
  Cell &channelCell(int receiver, int sender, int id) const {
    auto *cells = reinterpret_cast<Cell *>(&block(ranks));
    return cells[(static_cast<size_t>(receiver) * static_cast<size_t>(ranks) + static_cast<size_t>(sender)) *
                     numChannels +
                 static_cast<size_t>(id)];
  }

private:
  std::byte *base = nullptr;
  int ranks = 0;
};

} // namespace kolo::runtime
