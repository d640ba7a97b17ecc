// What a choreography's body left behind when it ran: a tree of statements and loops, and the mistakes in it. Standard
// library only; EmitChoreography turns it into IR. Private to dsl/ and its tests.
#pragma once

#include "dsl/Expression.h"
#include <kolo/dsl/Language.h>

#include <map>
#include <variant>

namespace kolo::dsl {

struct Step {
  enum class Kind { Keep, Next, Flip, Others, At, Mapped };
  Kind kind = Kind::Keep;
  ExpressionRef amount = nullptr;  // of Next, Flip and At
  std::vector<int64_t> table = {}; // of Mapped
};

struct Relation {
  std::vector<Step> steps;           // one per mesh dimension
  std::vector<std::string> mistakes; // reported by the statement that uses the relation
};

/// Where a statement comes from.
struct Origin {
  Location location = {};             // the statement's own line
  std::vector<Location> callers = {}; // of the building blocks around it, innermost first
};

struct RecordedBuffer {
  enum class Role { Input, Output, Scratch };
  Role role;
  std::string name;
  bool hasBlockPerRank;            // the group's dimensions lead the grid, each block of `count` elements
  std::vector<ExpressionRef> grid; // block dimensions included
  bool isGridFixed = false;        // by the author
  int sameGridAs = -1;             // buffer whose grid this one takes
  bool hasOwnBlocks = false;       // of scratch memory: its whole grid enumerates blocks of `count` elements
  int slotsFor = -1;               // of slots: the buffer whose chunks they hold, which has no slots itself
  std::vector<ExpressionRef> slotCut =
      {}; // of slots: what cuts a block of that buffer into chunks; known once recorded
  Codec codec = none();
  int codecParameter = -1; // number of the named codec that it has; -1: none of them
  Origin codecOrigin = {}; // of the call that gave it its codec
  bool isMistaken = false; // its grid or its codec is, and was reported
  Origin origin = {};      // of the call that made or cut it; none for an input or output that is not cut
};

/// What `Choreography::codec` names.
struct RecordedCodec {
  std::string name;
  Codec codec; // the default, or what was chosen
};

struct RecordedSlice {
  struct Axis {
    ExpressionRef start, length; // null: all of the dimension
  };
  int buffer = -1;
  bool isWhole = true;
  std::vector<Axis> axes;
};

struct RecordedStatement {
  enum class Kind { Copy, Reduce, Transfer };
  Kind kind;
  RecordedSlice source, destination;
  bool hasDestination = false; // given by `at`, or not a transfer
  std::shared_ptr<const Relation> relation = nullptr;
  bool isReducing = false;
  ExpressionRef condition = nullptr; // conjunction of all `when` around it; null: always
  std::vector<int> loops = {};       // numbers of those around it
  int variant = -1;                  // of the stripe around it; -1: none, it moves the parts of all variants
  bool isMistaken = false;           // reported already: not worth looking at further
  Origin origin;
};

struct RecordedLoop;
using RecordedItem = std::variant<size_t, std::unique_ptr<RecordedLoop>>; // number of a statement, or a loop
struct RecordedLoop {
  int number;
  ExpressionRef count;
  std::vector<RecordedItem> body;
  bool isMistaken = false;
  Origin origin;
  int variant = -1; // of the stripe around it; -1: none
};

struct Diagnostic {
  Location location;
  std::vector<Location> callers; // see Origin
  std::string message;
};

/// Which sizes of the mesh the choreography is for.
struct Requirement {
  ExpressionRef condition; // of sizes alone
  std::string what;        // ends the sentence "it needs ..."
  Origin origin;
};

/// The stripe around what is recorded now.
struct OpenStripe {
  int variant = -1;       // -1: there is none
  Location location = {}; // of the stripe
};

struct Recording {
  Definition definition;
  std::vector<int> groupDims;          // slowest first
  std::vector<RecordedBuffer> buffers; // 0: input, 1: output
  std::vector<RecordedCodec> codecs;
  std::vector<Requirement> requirements;
  std::vector<RecordedStatement> statements;
  std::vector<RecordedItem> body;
  std::vector<Diagnostic> diagnostics; // once recorded: sorted by line, each once per caller
  int numVariants = 0;                 // of every stripe: parts that every chunk is cut into; 0: there is no stripe
  Location firstStripe = {};

  // While the body runs:
  std::map<std::string, Codec> codecChoices; // by name
  std::vector<std::vector<RecordedItem> *> openBodies;
  std::vector<ExpressionRef> openConditions;
  std::vector<int> openLoops;
  OpenStripe openStripe = {};
  int numLoops = 0;
  std::vector<Location> openCalls; // of building blocks, outermost first

  /// Of what is recorded now, at this line.
  Origin originOf(const Location &location) const { return {location, {openCalls.rbegin(), openCalls.rend()}}; }
  void report(const Origin &origin, std::string message) {
    diagnostics.push_back({origin.location, origin.callers, std::move(message)});
  }
  /// Of what is recorded now.
  void report(const Location &location, std::string message) { report(originOf(location), std::move(message)); }
};

/// How many dimensions of a buffer's grid enumerate blocks. Not of slots.
inline size_t numBlockDims(const Recording &recording, const RecordedBuffer &buffer) {
  return buffer.hasOwnBlocks ? buffer.grid.size() : buffer.hasBlockPerRank ? recording.groupDims.size() : 0;
}

/// Runs the definition's body once. Never throws; what the body throws becomes a diagnostic. Choices of codecs that the
/// body does not name are ignored: see `Recording::codecs`.
std::unique_ptr<Recording> record(const Definition &definition, const std::map<std::string, Codec> &codecChoices = {});

/// What an expression inside these loops uses that does not exist there ("uses ..."); empty when all is well.
/// Coordinates are not looked at.
std::string findMisuse(const Recording &recording, const ExpressionRef &expression, const std::vector<int> &loops);

/// The first requirement that a mesh of these sizes does not meet; null: it meets all.
const Requirement *findUnmet(const Recording &recording, const std::vector<int64_t> &sizes);
/// What is wrong with such a mesh: "swing needs a power of two of ranks, which rank=6 is not".
std::string describeUnmet(const Recording &recording, const Requirement &unmet, const std::vector<int64_t> &sizes);

/// Checks a finished recording and completes it: default destinations, grids taken from other buffers, sizes of slots.
void checkRecording(Recording &recording);

/// Reads the private parts of the public handles.
struct SliceAccess {
  static RecordedSlice get(const Slice &slice);
};

} // namespace kolo::dsl
