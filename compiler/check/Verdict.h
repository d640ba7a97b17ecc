// The checker of channel programs: its options and its answer. Used by the passes that infer synchronisation and fuse
// moves, by the tools, and by tests. compiler/check/README.md has the model. Passes of other folders include no other
// header of this one.
#pragma once

#include "ir/Members.h"

#include "mlir/IR/Location.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

/// What is proved of a program, in the order of the numbers V1 to V12.
enum class Property {
  Result,      // V1: every output element is exactly the required combination of inputs
  Race,        // V2: any two conflicting accesses of one invocation are ordered
  PutOrder,    // V3: a put is complete before a signal that follows it, on the transport used
  Deadlock,    // V4: every wait is answered, all lanes being resident
  Balance,     // V5: as many waits as signals on every semaphore
  Bounds,      // V6: slices lie in their grids, moved chunks have equal sizes, ranks exist
  Invocations, // V7: no conflict between two invocations, or with the application in between
  Resources,   // V8: semaphores, lanes and scratch memory lie within the limits
  Order,       // V9: every reduction has a fixed order, so results are bitwise reproducible
  Timeout,     // V10: every op that blocks for a peer is a wait, and waits time out
  SameBits,    // V11: ranks that get the same output get the same bits
  OneOrder     // V12: all elements of an output are summed in one order, which no size or schedule changes
};
inline constexpr int numProperties = 12;

/// "V2".
std::string shortName(Property property);
/// "no data race".
llvm::StringRef title(Property property);

/// What makes a put of one lane arrive at a peer. A flush frees the put's source in any case.
struct Arrival {
  /// A put arrives before the signals to the peer that follow it. False where a put is striped over NICs and a signal
  /// takes one.
  bool isBeforeSignals = true;
  /// A put has arrived when a later flush returns, for every rank that learns of the flush. False where a flush returns
  /// once the data is on its way: a rank may then hear from a third one before it has the data.
  bool isBeforeFlush = true;
};

/// What a transport promises about what one lane sends to one peer: for all peers, or for each dimension of the mesh.
struct Transport {
  std::string name;
  Arrival arrival;    // what holds for all peers
  std::string reason; // why, for messages: "release and acquire", "a put is striped over 4 NICs, a signal takes one"
  llvm::SmallVector<Arrival, 4> arrivalAlong = {}; // each dimension, if each has its own

  /// Between these ranks of a mesh of these sizes. They may differ in several dimensions, and then take the transport
  /// of any.
  Arrival arrivalBetween(llvm::ArrayRef<int64_t> mesh, int64_t sender, int64_t receiver) const;
};
/// "shared", "peer", "network" (one NIC per lane) or "network:nics=K" (every put striped over K); between devices,
/// "staged" (through memory of their hosts) or "direct" (from device memory to device memory). Nothing when it is none
/// of these.
std::optional<Transport> parseTransport(llvm::StringRef text);

/// One transport for every dimension of a mesh. `names` are those of the dimensions, in the order of the mesh.
Transport combineTransports(llvm::ArrayRef<llvm::StringRef> names, llvm::ArrayRef<Transport> transports);
/// What a program is compiled for: a network along its `network_dims`, which may be staged, and shared memory along the
/// others.
Transport transportOf(ProgramOp program);

struct CheckOptions {
  Transport transport = *parseTransport("shared");
  int64_t maxSemaphores = 1 << 16; // per lane
  int64_t maxLanes = 1 << 10;
  /// Limits of one run over a mesh: bytes of clocks, and work: lines of the program that are run to trace it, steps
  /// that are followed, and the pieces of clocks and the chunks that they look at. The verdict on a mesh that takes
  /// more is `tooLarge`, unless a smaller mesh may replace it.
  int64_t maxBytes = int64_t(1) << 31;
  int64_t maxWork = int64_t(1) << 34;
  /// Measure a mesh by its ranks times the steps of one, though symmetry may make it cheap, and check the largest mesh
  /// of the same kind that these allow. A search sets this: small meshes find counterexamples soonest. What it finds is
  /// a guess, which CheckProgram confirms on the meshes themselves.
  bool prefersSmallMeshes = false;
  /// Bytes that traces, chunks and what they hold may take, each: four times as many as clocks, and more where few are
  /// allowed.
  int64_t maxChunkBytes() const { return std::max(4 * maxBytes, int64_t(1) << 30); }
  /// A smaller mesh of the same kind represents one that is too large. That is no proof: see Verdict::isRepresented.
  bool mayReplaceMesh = false;
  /// What a mesh that represents another one may take, as a part of the limits above. Below 1, a mesh is proved itself
  /// where that does not take too long, and costs little more than small ones elsewhere.
  double standInPart = 1;
  /// Follow every slice of a pipeline, also where few of them stand for all.
  bool followsAllSlices = false;
  /// Also prove the program for all sizes of a dimension: of the first one, from 16 on, which takes some milliseconds,
  /// or of each, from the smallest size that is proved. Where that succeeds, it stands for a run over a mesh of more
  /// than `mostRanksOneByOne` ranks.
  enum class Sizes : uint8_t { One, AllOfFirst, AllOfEach } sizes = Sizes::One;
  /// Follow what codecs do to values, and how long blocks are. A search clears this: no synchronisation changes that.
  bool followsCodecs = true;
  /// Refute a program that does not have V12.
  bool needsOneOrder = false;
  /// Explain a refutation by the shortest interleaving; costs a second run.
  bool wantSteps = true;
  /// End at the first refutation that is met, whichever it is, for a caller who asks only whether there is one. It
  /// names no places. Not with followsCodecs.
  bool endsAtRefutation = false;
};

inline constexpr int64_t largestBudget = int64_t(1) << 44; // bytes; the work in proportion to it is still a number
/// How many times the budget of a representative a mesh may take that no smaller one can replace.
inline constexpr int64_t budgetsOfSmallestMesh = 16;

/// Sets `maxBytes`, from 1 to largestBudget, and `maxWork` in the proportion that the defaults have.
void setBudget(CheckOptions &options, int64_t numBytes);

/// One step of an interleaving.
struct Step {
  int64_t rank;
  int64_t call; // 0: the first of the back-to-back calls
  std::string text;
  mlir::Location loc;
};

/// A mark that CheckProgram leaves on a program for which it found a counterexample.
inline constexpr llvm::StringLiteral refutedAttrName = "refuted";

/// Why a program is refused.
struct Refutation {
  Property property;
  std::string message;                               // one line, without the places
  mlir::Location loc;                                // of the first statement
  std::optional<mlir::Location> other = {};          // of the second one, if there are two
  mlir::Operation *op = nullptr, *otherOp = nullptr; // null: the application, or the program as a whole
  std::vector<int64_t> ranks = {};                   // that take part
  std::string chunk = {};                            // "chunk [3] of 'out' on rank 2"; may be empty
  std::vector<int64_t> mesh = {};
  int64_t root = 0;
  bool isInPlace = false;
  std::vector<Step> steps = {};
};

inline constexpr int64_t mostRanksOneByOne = 4096;
/// On which the checker compares the orders in which an exact program combines, if ranks combine for themselves.
inline constexpr int64_t mostRanksOfExactTerms = 1024;

/// Whether a collective gives all ranks of a group the same output.
inline bool givesAllTheSame(CollectiveKind kind) {
  return !isAtRoot(kind, BufferRole::Output) && !hasBlockPerMember(kind, BufferRole::Input) && !isPrefixReduction(kind);
}

/// What one codec adds to the error of an output: |error| <= factor * u * A, to first order. u is the codec's worst
/// error; A is the largest magnitude in the element's block over all ranks. Of an average, that over the ranks.
struct OutputLoss {
  codec::Codec codec; // none: roundings to the call's type, which are exact in f32
  int64_t factor;
};

/// V12: in which order the elements of outputs are summed. A block of an output may have an order of its own, as the
/// blocks of a reduce-scatter have.
struct SumOrder {
  std::optional<bool> isFixed = true; // all elements of every block alike; nothing: not decided
  std::string text; // of rank 0's output, "((0+1)+2)+3", if few ranks take part; of a scan, of the last rank's. Empty:
                    // nothing is summed. Not fixed, or not decided: why
  uint64_t fingerprint = 0; // of all outputs: equal orders have equal ones, on all meshes
};

/// What is known of a program on meshes that differ from one mesh in the size of one dimension.
struct AllSizes {
  size_t dim;
  std::optional<int64_t> from;    // it is proved for this size and for all larger ones; nothing: not decided
  std::string whyNot;             // then
  bool ranksAgreeBitwise = false; // V11 is part of the proof
};

/// The answer about one program on one mesh. It covers all roots, and calls in place if the program says that they may
/// run as they are.
struct Verdict {
  std::vector<int64_t> mesh;
  std::vector<int64_t> checkedOn;       // the same mesh, or the representative that took its place
  std::optional<std::string> tooLarge;  // the figure, and the option that raises it: undecided, if nothing is refuted
  std::optional<Refutation> refutation; // the first property that does not hold; those after it are not decided
  std::optional<int64_t> slicesChecked; // of a pipeline that is proved for any larger number; nothing: all slices were
  bool slicesDiffer = false;            // few slices do not stand for all: nothing is decided then
  std::vector<AllSizes> allSizes;       // of a proved program, by dimension, if the options ask for that
  /// Of a proved program: whether ranks that get the same output get the same bits, so that each value has one origin,
  /// or was combined in the same order everywhere. Nothing: not decided, which happens to exact programs on more than
  /// `mostRanksOfExactTerms` ranks.
  std::optional<bool> ranksAgreeBitwise = true;
  /// Of a proved program. It may depend on the root, but not on whether a call is in place.
  SumOrder order;
  std::map<int64_t, uint64_t> ordersOfRoots; // fingerprints
  double share = 0;                          // of the limits: what the check of `checkedOn` took
  /// The same, over all outputs. Codecs that lose nothing, and those that no output came through, are left out.
  std::vector<OutputLoss> losses;
  int64_t numEncodings = 0; // that lose something, on the longest path from an input to an output
  /// Of a proved program: why calls may have no block tables. Empty: they may, and the proof holds for all counts.
  std::string whyNoBlockTables;
  /// On `checkedOn`.
  bool isProved() const { return !tooLarge && !refutation && !slicesDiffer; }
  /// What holds on another mesh says nothing of this one.
  bool isRepresented() const { return checkedOn != mesh; }
  void add(llvm::ArrayRef<OutputLoss> more, int64_t encodings); // of another run
  void addBits(std::optional<bool> agree);                      // of another run
  void addOrder(const SumOrder &more, int64_t root);            // of another run
  void addTables(const std::string &whyNot);                    // of another run
};

/// Signals and waits of one rank in one invocation: of the rank with the most waits.
struct SyncCounts {
  int64_t dataSignals = 0, dataWaits = 0;
  llvm::SmallVector<std::pair<std::string, int64_t>, 4> creditWaits; // by kind: "lag", "entry", "statement", "exit"
  int64_t flushes = 0;
  bool enters = false; // waits for all ranks to enter
  int64_t waits() const;
};

/// Checks a program on one mesh. Never emits diagnostics. The program must verify; it may be hand-written.
Verdict checkProgram(ProgramOp program, llvm::ArrayRef<int64_t> mesh, const CheckOptions &options = {});
/// Whether the checker proves the program on all meshes that it is compiled for, or on those that replace them. False
/// where it cannot decide.
bool isProvedOnItsMeshes(ProgramOp program, const CheckOptions &options);

/// What the proof of a program on its meshes may take.
struct ProofLimits {
  int64_t budget = int64_t(1) << 31;        // bytes of one mesh, and time in proportion: see setBudget
  bool mayRepresent = false;                // a smaller mesh may stand for one that takes more
  int64_t standInBudget = int64_t(1) << 20; // of the mesh that stands for another one
};
/// As CheckProgram proves a program, on the transports that it is compiled for.
CheckOptions optionsOfProof(ProgramOp program, const ProofLimits &limits);
/// For a pass that asks what a program may do without: about the meshes themselves, as in optionsOfProof, or about the
/// largest meshes that so many bytes allow. Of what codecs do, nothing is asked.
CheckOptions optionsInFull(ProgramOp program, const ProofLimits &limits);
CheckOptions optionsOfGuess(ProgramOp program, int64_t numBytes);
/// As isProvedOnItsMeshes, about the smallest meshes that can be followed with `numBytes` or with as much more as it
/// takes, up to `mostBytes`. Raises `numBytes` to what it took.
bool isProvedOnSmallMeshes(ProgramOp program, int64_t &numBytes, int64_t mostBytes);

/// A proved program, of which one asks what it does not need. Its ranks are traced once: no step of a rank depends on
/// its signals, waits and flushes. Where no check can follow the program, it needs all that it has.
class ReducibleProgram {
public:
  /// The program must outlive this, and stay as it is.
  ReducibleProgram(ProgramOp program, llvm::ArrayRef<llvm::SmallVector<int64_t>> meshes, const CheckOptions &options);
  ReducibleProgram(ReducibleProgram &&) noexcept;
  ~ReducibleProgram();
  /// Whether the limits sufficed for all meshes.
  bool isFollowed() const;
  /// Of flushes, and of all signals and waits of a semaphore.
  bool isRefutedWithout(const llvm::SmallPtrSetImpl<mlir::Operation *> &ops);

private:
  struct Runs;
  std::unique_ptr<Runs> runs;
};

/// Empty when the program cannot be run through on this mesh.
std::optional<SyncCounts> countSynchronisation(ProgramOp program, llvm::ArrayRef<int64_t> mesh);

} // namespace kolo
