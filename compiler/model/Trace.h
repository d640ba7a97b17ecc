// The steps of one rank in one invocation on one mesh: its moves, signals and waits, in order. Used by the checker.
#pragma once

#include "compiler/model/Code.h"

namespace kolo {

/// A wrapping range of chunks per grid dimension, of one buffer.
struct Box {
  uint32_t buffer;
  uint32_t first; // of the trace's numbers: an offset, below the extent, and a size per grid dimension
};

/// A step of a rank. Peers are rank numbers; a step that concerns this rank's memory alone has itself as peer.
struct Event {
  uint32_t op; // number in Code::ops
  EventKind kind;
  int32_t peer;
  int32_t semaphore;
  Box source, destination; // of a move; Divide has a destination only
  int32_t part;            // of how many: see Grid::numParts
  uint32_t fuse = 0;       // executions of fuses that began before it, if it is in one; else 0
  uint32_t tick = 0;       // see Trace
};

/// A tick is a rank's own time, as the program's text goes: it counts steps that a condition passes by, too. So ranks
/// that take other branches are in the same loop at the same ticks, mostly.
struct Trace {
  std::vector<Event> events;
  std::vector<int32_t> numbers;
  uint64_t numTicks = 0; // beyond 2^32, those of events are modulo that
  llvm::ArrayRef<int32_t> numbersOf(const Box &box, size_t numDims) const {
    return llvm::ArrayRef(numbers).slice(box.first, 2 * numDims);
  }
};

/// A buffer's chunks on one mesh.
struct Grid {
  llvm::SmallVector<int32_t, 4> extents;
  int64_t numChunks = 1, chunksPerBlock = 1;
  bool isSlots = false; // chunksPerBlock is then that of what the slots hold
  int32_t numParts = 0; // that every chunk is moved in; 0: not moved yet
};

/// Why a trace could not be made: a step that no rank may take.
struct TraceMistake {
  uint32_t op; // UINT32_MAX: none
  mlir::Location loc;
  std::string message;
  int64_t rank;
};

/// Makes traces for one mesh and one root, and checks everything that concerns one step alone.
class Tracer {
public:
  /// With `isInPlace`, the input lies inside the output, or the other way round, as the collective defines it. Traces
  /// then have slices of the larger buffer instead of slices of the smaller one.
  Tracer(Code &code, llvm::ArrayRef<int64_t> mesh, int64_t root, bool isInPlace);

  /// False, with `mistake`, when the rank takes a step that it may not take, and with `bufferOfTooManyChunks`.
  /// `maxEvents` more events end the trace with `isTooLong`.
  bool run(int64_t rank, Trace &trace);

  std::optional<TraceMistake> mistake;
  std::optional<std::string> bufferOfTooManyChunks; // its chunks cannot be numbered, and no rank can be traced
  bool isTooLong = false;
  int64_t maxEvents = INT64_MAX;
  int64_t maxLines = INT64_MAX; // of all runs together; more end a run with `isTooLong`
  int64_t numLinesRun = 0;
  static constexpr int64_t mostIdleLines = int64_t(1) << 28; // that a rank runs from one step to the next
  double numLinesNeeded = 0;                                 // an estimate, if `isMoreThanAllowed` said so
  /// Where the ranks, traced one after the other, took what is allowed.
  struct End {
    int64_t rank;
    std::optional<uint32_t> op; // the first step that was not taken; nothing: all were, and took too much memory
    double share;               // of what is allowed, that all ranks would take if they go on as these did
    bool isBound = false;       // ranks may still turn out to be alike, which takes less
    int64_t idleLines = 0;      // that the rank ran in a loop that goes on without a step; 0: there is none
  };
  std::optional<End> end;
  /// Whether so many more lines are too many; sets `isTooLong` then.
  bool isMoreThanAllowed(double numMore);

  const Code &program() const { return code; }
  llvm::ArrayRef<int64_t> mesh() const { return sizes; }
  int64_t numRanks() const { return ranks; }
  int64_t rootNumber() const { return root; }
  /// In a call in place: the buffer that lies inside of another one, and that other one.
  std::optional<std::pair<uint32_t, uint32_t>> innerAndOuter() const {
    return alias ? std::optional(std::pair(alias->inner, alias->outer)) : std::nullopt;
  }
  llvm::ArrayRef<Grid> grids() const { return bufferGrids; }
  llvm::SmallVector<int64_t, 4> coordinatesOf(int64_t rank) const;
  /// For a chunk of the inner buffer of a call in place: the chunk of the outer buffer that is the same memory. For
  /// other buffers: the chunk itself.
  std::pair<uint32_t, int64_t> resolve(int64_t rank, uint32_t buffer, int64_t chunk) const;
  /// Whether the collective gives this rank such a buffer.
  bool exists(int64_t rank, BufferRole role) const;
  int64_t numberInGroup(int64_t rank) const;
  std::optional<uint32_t> bufferOf(BufferRole role) const;

private:
  /// The buffer that lies inside of another one in a call in place.
  struct Alias {
    uint32_t inner, outer;
    bool isOwnBlock; // its grid is that of the owner's block in the outer buffer
  };
  bool findAlias();
  bool liesInside(int64_t rank, uint32_t buffer) const;
  bool startGrids(int64_t rank);
  bool hasBlocksOfCall(const BufferInfo &buffer, const Grid &grid);
  bool addEvent(const OpInfo &info, uint32_t op, int64_t rank, Trace &trace);
  bool addMove(const OpInfo &info, uint32_t op, int64_t rank, Event &event, Trace &trace);
  bool addBox(const SliceRegisters &slice, uint32_t op, int64_t owner, Box &box, Trace &trace);
  bool checkPair(const OpInfo &info, uint32_t op, const Event &event, const Trace &trace);
  bool checkSizes(uint32_t op, const Event &event, const Trace &trace);
  bool checkAccess(uint32_t op, uint32_t buffer, int64_t owner, bool isWrite);
  bool setPart(const OpInfo &info, uint32_t op, uint32_t buffer, Event &event);
  bool refuse(uint32_t op, const std::string &message);
  bool isIdle(int64_t numLines);
  bool endHere(std::optional<uint32_t> op);

  Code &code;
  llvm::SmallVector<int64_t, 4> sizes;
  int64_t root, ranks = 1, tracedRank = 0;
  int64_t numRuns = 0;
  uint32_t numFuses = 0, currentFuse = 0; // of the traced rank
  std::optional<Alias> alias;
  std::vector<Grid> bufferGrids;
  CollectiveKind kind;
};

/// The rank with this number in the group of `rank`.
int64_t memberOfGroup(const Tracer &tracer, int64_t rank, int64_t number);

/// Numbers of the chunks in a box of these offsets and sizes, in row-major order of the box.
void expandNumbers(llvm::ArrayRef<int32_t> numbers, const Grid &grid, std::vector<int32_t> &chunks);
void expandBox(const Trace &trace, const Box &box, const Grid &grid, std::vector<int32_t> &chunks);

} // namespace kolo
