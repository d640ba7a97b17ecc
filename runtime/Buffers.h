// Buffers: where the buffers of one call are, for this rank's code and for its peers.
#pragma once

#include "Call.h"
#include "Environment.h"
#include "memory/Segments.h"

#include <memory>

namespace kolo::runtime {

/// Memory of the runtime's own that peers access: scratch, and copies of ordinary memory. Grows, and is then a new
/// segment. A call that has returned here may still be read from there by slower peers: programs keep scratch apart
/// from call to call, not from its end. So the old segment stays, and nothing is written to the new one, until all
/// peers have entered the call.
class Arena {
public:
  /// At least sizeBytes (> 0) bytes. What they held before is lost. OutOfMemory, SystemError.
  Result<std::byte *> reserve(SegmentTable &segments, size_t sizeBytes);
  /// Frees what was replaced. Once all peers have entered the call.
  void dropReplaced() { replaced.clear(); }
  /// What is in use, for whoever keeps it longer than this.
  std::unique_ptr<Segment> release() { return std::move(segment); }

private:
  std::unique_ptr<Segment> segment;
  std::vector<std::unique_ptr<Segment>> replaced;
};

/// What decides about memory, apart from the call.
struct MemoryRules {
  OrdinaryMemory ordinaryMemory = OrdinaryMemory::Staged; // Attach and Auto only where all ranks can attach
  // Of input and output per rank; of more, little is left in the last-level cache.
  size_t cachedBytes = 0;
};

/// The parts in which a call runs that is staged, or that publishes much. Where all ranks enter each of them, they are
/// to the program what calls are, and the last one ends where the caller's buffers do. Otherwise they have to be what
/// calls of one shape are: all of one size, and the last may go beyond the end, with whatever is in the runtime's
/// memory there.
struct Pieces {
  int64_t number = 1;
  int64_t count = 0; // of each
};

/// What a rank can publish in one piece, in each turn, where the slots of the exchange do not hold it.
inline constexpr size_t publishedBytesPerTurn = size_t(512) << 10;

struct Buffers {
  void *local[KOLO_NUM_BUFFER_ROLES] = {}; // for this rank's code
  Location remote[KOLO_NUM_BUFFER_ROLES];  // for the peers
  Staging staging = Staging::None;
  Staging wanted = Staging::None; // what this rank alone would have
  bool isCopied[2] = {}; // input, output: through the runtime's memory, since peers access it or the pieces ask for it
  bool isInputAside = false; // not staged, but to be copied from the caller's memory before the peers are told
  Pieces pieces;
  bool publishesMuch = false;    // more than the slots of the exchange hold
  bool exceedCaches = false;     // those that the program works on
  bool mustStreamOutput = false; // the caller's do

  /// Copies a piece from the caller's memory, and to it, as far as anything is staged; in call order.
  void copyIn(const Call &call, int64_t piece) const;
  void copyOut(const Call &call, int64_t piece) const;

  /// Whether, where ranks enter together, they have to do so once more after `copyIn`: from then on peers may read the
  /// copy, or write to what an input was copied aside from. The same on all ranks. A program with credits tells peers
  /// itself.
  bool mustMeetAfterCopy(const Call &call) const {
    return (staging == Staging::Aside && call.isShared()) || (isStaged(staging) && call.info->sharesInput);
  }
};

/// Elements of one piece, as the collective counts them.
int64_t pieceCount(const Call &call, const Pieces &pieces, int64_t piece);

/// What this rank needs, as its buffers lie.
Staging stagingFor(const Call &call, const SegmentTable &segments, const MemoryRules &rules);

/// Places the buffers, staged at least as `least` says, and reserves what that takes. OutOfMemory, SystemError.
Result<Buffers> placeBuffers(const Call &call, Staging least, SegmentTable &segments, Arena &arena,
                             const MemoryRules &rules);

} // namespace kolo::runtime
