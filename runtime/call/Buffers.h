// Buffers: where the buffers of one call are, for this rank's code and for its peers, and how a call is cut into
// pieces.
#pragma once

#include "base/Environment.h"
#include "call/Call.h"
#include "memory/Holding.h"
#include "memory/StoreChoice.h"

#include <memory>
#include <vector>

namespace kolo::runtime {

/// Memory of the runtime that peers access: scratch and staged buffers. When it must grow, it becomes a new segment.
/// Slower peers may still read the old segment after the call has returned here: a program orders its calls among each
/// other, but not against the end of a call. So the old segment stays, and nobody writes the new one, until all peers
/// have entered the next call.
class Arena {
public:
  /// Returns at least sizeBytes (> 0) bytes with undefined content, for this call. OutOfMemory, SystemError.
  Result<std::byte *> reserve(SegmentTable &segments, Holding &holding, size_t sizeBytes);
  /// Frees replaced segments. The caller calls it once all peers have entered the call.
  void dropReplaced(Holding &holding);
  /// Gives the current segment to a caller that keeps it longer; may be null.
  std::unique_ptr<Segment> release() { return std::move(segment); }

private:
  std::unique_ptr<Segment> segment;
  std::vector<std::unique_ptr<Segment>> replaced;
};

/// How this communicator treats memory, for all of its calls.
struct MemoryRules {
  OrdinaryMemory ordinaryMemory =
      OrdinaryMemory::Staged; // Attach and Auto only if all ranks can attach, and no device writes
  bool isAlone = false;       // all peers are on other hosts, and may write all of this rank's memory
  bool hasOneHost = true;     // all ranks are on this one
  size_t cachedBytes = 0;     // input and output of a rank that are larger leave little in the last-level cache
};

/// A call that is staged, or that publishes much, runs in pieces. To the program each piece is a call.
/// If all ranks enter each piece, the last piece ends where the caller's buffers end. Otherwise all pieces have the
/// size of one shape, and the last may go beyond the end, in the runtime's memory.
struct Pieces {
  int64_t number = 1;
  int64_t count = 0; // elements of each piece, as the collective counts them
};

/// Bytes that a rank can publish in one piece, in each turn, outside of the announcement.
inline constexpr size_t publishedBytesPerTurn = size_t(512) << 10;
/// Up to so many ranks publish in slots of a turn, one call after the other. A store to a line that a peer's core still
/// holds in its own cache takes several times as long as one to a line that it has evicted. So the slots of both turns
/// are together larger than the second-level cache of most cores. More ranks would fill the last-level cache with them,
/// and so would more communicators of a rank.
inline constexpr int mostRanksWithSlots = 4;
inline constexpr size_t mostHoldersWithSlots = 2;
/// Of the turns that a rank makes; its peers' may have another size.
constexpr size_t publishedTurnBytes(int numRanks, size_t numOthers) {
  bool hasSlots = numRanks <= mostRanksWithSlots && numOthers < mostHoldersWithSlots;
  return hasSlots ? size_t(2) << 20 : publishedBytesPerTurn;
}

/// The block tables that generated code reads, by role, in elements.
struct PieceTables {
  std::vector<int64_t> counts[2]; // of the running piece
  std::vector<int64_t> places[2]; // of this rank's buffers
  std::vector<int64_t> ofPieces;  // of staged buffers, on all ranks
};

struct Buffers {
  void *local[KOLO_NUM_BUFFER_ROLES] = {}; // for this rank's code
  Location remote[KOLO_NUM_BUFFER_ROLES];  // for the peers
  Staging staging = Staging::None;
  Staging wanted = Staging::None; // what this rank needs, whatever its peers need
  bool isCopied[2] = {};          // input, output: staged, because peers access it or the pieces require it
  bool isInputAside = false;      // not staged, but this rank copies it aside before its peers may access it
  Pieces pieces;
  bool publishesMuch = false;    // more bytes than an announcement holds
  size_t publishedSlotBytes = 0; // of each turn, for one piece, if it publishes much
  bool exceedCaches = false;     // the buffers that the program works on do not fit into the caches
  bool mustBypassCaches = false; // the caller's buffers do not, so copyOut uses non-temporal stores

  PieceTables tables;            // empty: the call has none
  bool sharesPlaces = false;     // peers access blocks at the places of this rank's tables
  size_t sharedElementBytes = 0; // of scratch memory and staged output, by element of the call: what peers read

  /// Copy the staged buffers of a piece from and to the caller's memory. Called for all pieces in order.
  void copyIn(const Call &call, int64_t piece, StoreChoice &stores) const;
  void copyOut(const Call &call, int64_t piece) const;

  /// Whether ranks that enter together must meet once more after `copyIn`. From then on peers may read the copy, or
  /// overwrite an input that was copied aside. The same on all ranks. A program with credits orders this itself.
  bool mustMeetAfterCopy(const Call &call) const {
    return (staging == Staging::Aside && call.isShared()) || (isStaged(staging) && call.info->sharesInput);
  }
};

/// Copies an input to memory of as many bytes. With block tables it copies the blocks alone: what lies between them may
/// be anybody's.
void copyInput(const Call &call, std::byte *aside);

/// Elements of one piece, as the collective counts them. Of blocks with counts of their own, at most so many.
int64_t pieceCount(const Call &call, const Pieces &pieces, int64_t piece);

/// Elements of a piece that belong to a block of this rank's buffer.
int64_t elementsInPiece(const Call &call, const Pieces &pieces, int64_t piece, size_t role, int64_t block);

/// The staging that this rank needs for where its buffers are.
Staging stagingFor(const Call &call, const SegmentTable &segments, const MemoryRules &rules);

/// Whether the program can publish a call of this size. The same on all ranks. InvalidArgument.
Status checkPublished(const Call &call);

/// Where a communicator reserves memory for its calls.
struct ArenaOf {
  SegmentTable &segments;
  Arena &arena;
  Holding &holding;
};

/// Decides where the buffers are, staged at least as `least` says, and reserves memory for that. OutOfMemory,
/// SystemError, InvalidArgument (a program cannot publish this call in pieces), BadPlugin.
Result<Buffers> placeBuffers(const Call &call, Staging least, const ArenaOf &memory, const MemoryRules &rules);

} // namespace kolo::runtime
