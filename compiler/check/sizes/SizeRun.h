// One run of a program on all sizes of one mesh dimension at once. Used by the proof for all sizes; README.md has the
// argument.
#pragma once

#include "compiler/check/SliceInduction.h"
#include "compiler/check/Verdict.h"
#include "compiler/check/sizes/Index.h"
#include "compiler/check/sizes/State.h"

namespace kolo::sizes {

/// What a run is about.
struct Setting {
  llvm::ArrayRef<int64_t> mesh; // the size along `dim` does not count
  size_t dim;                   // that grows
  int64_t least;                // size that the run covers, and all larger ones
  int64_t period, rest;         // of all sizes from there on, those that have this remainder modulo the period
  bool isInPlace;
  bool followsBits; // ask also that ranks that get the same output get the same bits: one origin of each value
  const Transport &transport;
  const SlicePipeline *few; // of a pipeline that has few slices, which stand for more; else null
};

class SizeRun {
public:
  SizeRun(ProgramOp program, const Setting &setting);
  /// Follows two calls. Nothing if the program is proved, else why it is not.
  std::optional<std::string> run();

private:
  struct Buffer {
    BufferRole role;
    std::string name;
    llvm::SmallVector<Affine, 4> extents;
    size_t numBlockDims = 0;
    std::optional<size_t> grownDim; // whose extent depends on n
    bool isMoved = false;           // whose indices along `grownDim` are moved with the ranks
    bool isSlots = false;
    Affine chunksPerBlock = 1;
    int64_t numParts = 1;
    size_t firstCell = 0, numCells = 0; // in State::cells, for every orbit
    Affine grownExtent() const { return grownDim ? extents[*grownDim] : Affine(1); }
  };
  /// A slice of a buffer, as its owner sees it.
  struct Box {
    size_t buffer = 0;
    llvm::SmallVector<int64_t, 4> offsets, sizes; // 0 and 1 along the dimension that grows
    enum class Grown : uint8_t { None, Point, All } grown = Grown::None;
    Affine place;                        // Point: the place; All: that of the first chunk, as the actor sees it
    bool isPlaceAbsolute = false;        // All: from the first index of the grid on
    llvm::SmallVector<Affine, 4> ranges; // sizes that pair with those of the other slice
  };
  struct Peer {
    Affine place; // relative to this rank
    int64_t orbit;
  };
  using Mask = std::vector<bool>; // the orbits that take part

  bool fail(std::string what);
  bool failAt(mlir::Operation *op);
  bool hasFailed() const { return decisions.hasFailed(); }

  bool defineBuffers();
  bool defineBuffer(BufferOp op);
  bool checkBlocks(const Buffer &buffer);
  bool findParts();
  bool findAlias();
  bool isMoved(BufferOp op, size_t gridDim);
  void start();

  bool runBlock(mlir::Block &block, const Mask &mask);
  bool runOp(mlir::Operation &op, const Mask &mask);
  bool runBranch(mlir::scf::IfOp branch, const Mask &mask);
  bool runLoop(mlir::scf::ForOp loop, const Mask &mask);
  bool runFixedLoop(mlir::scf::ForOp loop, const Mask &mask);
  bool runGrowingLoopSomehow(mlir::scf::ForOp loop, const Mask &mask, int64_t first, int64_t last);
  bool runGrowingLoop(mlir::scf::ForOp loop, const Mask &mask, int64_t first, int64_t last);
  bool runIteration(mlir::scf::ForOp loop, const Mask &mask, const Affine &iteration);
  bool runIterations(mlir::scf::ForOp loop, const Mask &mask, const Affine &first, int64_t number);
  bool isOverAllPlaces(mlir::scf::ForOp loop) const;
  /// A state before iteration s. Its parts that do not grow are the same before every iteration.
  struct General {
    State state;
    std::vector<bool> isGrowing; // in the order of eachPart
  };
  std::optional<General> generalise(State &first, State &second, State &third, int64_t at) const;
  bool enterRound(General general, const Affine &round);
  bool isInduction(mlir::scf::ForOp loop, const Mask &mask, const General &general);
  bool step(mlir::Operation *op, int64_t orbit);

  std::optional<Peer> peerOf(mlir::Value rank, int64_t orbit);
  bool signal(SignalOp op, int64_t orbit);
  bool wait(WaitOp op, int64_t orbit);
  void forget(Knowledge::View side, int64_t orbit);
  void flush(int64_t orbit);
  bool enter(const Mask &mask);
  void know(int64_t orbit, const Time &before, const Time &nothing);
  void join(WaitOp op, int64_t orbit, const Peer &sender, const Signal &signal);
  bool move(MoveInterface op, int64_t orbit);
  bool divide(DivideOp op, int64_t orbit);
  /// Of the caller's buffers: indices there, and where the chunk is in memory, at the places before `end`.
  struct CallerChunk {
    llvm::SmallVector<int64_t, 4> indices;
    size_t cell;
    Affine end;
  };
  std::vector<CallerChunk> chunksOfCaller(size_t number, int64_t orbit) const;
  /// An access of this rank that is over with its step.
  Epoch stepOf(int64_t orbit) const {
    Epoch epoch;
    epoch.orbit = orbit;
    epoch.time = state.now;
    return epoch;
  }
  bool startCall(int64_t call);
  bool endCall(int64_t call);

  std::optional<Box> boxOf(mlir::Operation *op, mlir::Value buffer, mlir::OperandRange offsets,
                           mlir::OperandRange sizes, int64_t orbit, const Peer &owner);
  bool arePaired(mlir::Operation *op, const Box &source, const Peer &sourceOwner, const Box &destination,
                 const Peer &destinationOwner);
  std::vector<llvm::SmallVector<int64_t, 4>> indicesOf(const Box &box) const;
  size_t cellNumber(size_t buffer, llvm::ArrayRef<int64_t> indices, int64_t part) const;
  std::optional<int64_t> partOf(mlir::Value part, int64_t orbit);
  bool access(int64_t orbit, const Peer &owner, Runs<Cell> &runs, const Affine &begin, const Affine &end, bool isWrite,
              const Epoch &epoch);
  bool isOver(int64_t orbit, const Peer &owner, const Epoch &epoch, bool isWrite, const Affine &begin,
              const Affine &end);
  bool isMarkKnown(int64_t orbit, const Runs<Time> &marks, int64_t otherOrbit, const Affine &rank, const Affine &first,
                   bool isOne, const Affine &begin, const Affine &end);
  bool knows(int64_t orbit, int64_t otherOrbit, const Affine &rank, const Affine &time, const Affine &begin,
             const Affine &end);
  bool knowsInView(const Runs<Time> &view, const Affine &rank, const Affine &time, const Affine &begin,
                   const Affine &end);
  int64_t addPut(PutOp op, int64_t orbit, const Peer &target);
  Arrival arrivalTo(int64_t orbit, const Peer &target) const;

  Content moved(Content content, const Affine &by) const;
  bool combine(Content &content, const Content &other, const Affine &begin, const Affine &end);
  /// Notes that this step has made the content, at a cell of this place relative to the actor.
  bool setOrigin(Content &content, const Epoch &writing, size_t cell, bool isAll);
  bool mayLeaveSlot(const Content &content, const Buffer &buffer, llvm::ArrayRef<int64_t> indices, const Affine &place);
  bool checkBits();
  std::optional<Content> wantedContent(llvm::ArrayRef<int64_t> indices, int64_t orbit, int64_t call);
  std::vector<Contribution> wholeGroup(int64_t orbit) const;
  bool isInGroup(size_t meshDim) const;

  mutable ProgramOp program; // a handle, whose accessors are not const
  const Setting &setting;
  int64_t inner = 1, numOrbits = 1; // ranks that differ along the dimensions after `dim`; along all others
  std::vector<llvm::SmallVector<int64_t, 4>> coordinates; // of the orbits
  Decisions decisions;
  bool isLocated = false;         // whether the reason says at which line
  std::vector<IndexTable> tables; // by orbit
  State state;
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, size_t> bufferNumbers;
  std::optional<size_t> input, output;
  struct Alias {
    size_t inside, around;
    bool isOwnBlock;
  };
  std::optional<Alias> alias;
  int64_t currentCall = 0, currentRound = 0;
  int64_t numSteps = 0;
  mlir::scf::ForOp growingLoop;                 // at hand; null outside
  std::optional<Knowledge::View> forgottenSide; // in that loop
  std::vector<Shared<Knowledge>> beforeLoop;    // what ranks knew before it, by orbit
  std::vector<int64_t> iterations;              // of the loops of fixed length inside of the growing loop
  std::map<std::tuple<mlir::Operation *, int64_t, std::vector<int64_t>>, int64_t> familyOf;
};

} // namespace kolo::sizes
