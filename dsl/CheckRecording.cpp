// The mistakes that show without knowing the size of the mesh. Those that need it are found by compiler/check.
#include "codec/Presets.h"
#include "dsl/Collectives.h"
#include "dsl/Recording.h"

#include <algorithm>
#include <tuple>

namespace kolo::dsl {

using Kind = Expression::Kind;

namespace {

bool isOne(const ExpressionRef &expression) { return expression->kind == Kind::Constant && expression->value == 1; }

class StatementChecker {
public:
  StatementChecker(Recording &recording, RecordedStatement &statement) : recording(recording), statement(statement) {}

  void check() {
    if (statement.kind == RecordedStatement::Kind::Transfer)
      checkRelation();
    if (!statement.hasDestination)
      statement.destination = statement.source;
    checkSlice(statement.source, "source");
    checkSlice(statement.destination, "destination");
    if (!statement.isMistaken)
      checkPairing();
    if (!statement.isMistaken)
      checkCodecs();
    if (statement.condition)
      checkExpression(statement.condition);
    if (recording.buffers[size_t(statement.destination.buffer)].role == RecordedBuffer::Role::Input)
      mistake("the input may not be written; use inPlace() or a scratch buffer");
    if (statement.isReducing && !traitsOf(recording.definition.collective.kind).reduces)
      mistake(
          "this collective has no reduction; reduce() belongs to reduce-scatter, all-reduce, reduce, scan and exscan");
  }

private:
  void mistake(std::string message) {
    statement.isMistaken = true;
    recording.report(statement.origin, std::move(message));
  }

  void checkRelation() {
    if (!statement.relation) {
      mistake("send() without to(): it does not say where");
      return;
    }
    for (const std::string &message : statement.relation->mistakes)
      mistake(message);
    for (const Step &step : statement.relation->steps)
      if (step.amount)
        checkExpression(step.amount);
  }

  void checkSlice(const RecordedSlice &slice, const char *what) {
    const RecordedBuffer &buffer = recording.buffers[size_t(slice.buffer)];
    if (buffer.isMistaken) {
      statement.isMistaken = true; // nothing to say about the slice
      return;
    }
    if (!slice.isWhole && slice.axes.size() != buffer.grid.size())
      mistake("the " + std::string(what) + " slice has " + std::to_string(slice.axes.size()) +
              " indices, the grid of '" + buffer.name + "' has " + std::to_string(buffer.grid.size()) + " dimensions");
    for (const RecordedSlice::Axis &axis : slice.axes) {
      if (!axis.start)
        continue;
      checkExpression(axis.start);
      checkExpression(axis.length);
    }
  }

  size_t countRanged(const RecordedSlice &slice) const {
    const std::vector<ExpressionRef> &grid = recording.buffers[size_t(slice.buffer)].grid;
    size_t result = 0;
    for (size_t i = 0; i < grid.size(); ++i) {
      bool isAll = slice.isWhole || !slice.axes[i].start;
      result += !isOne(isAll ? grid[i] : slice.axes[i].length);
    }
    return result;
  }

  void checkPairing() {
    const RecordedBuffer &from = recording.buffers[size_t(statement.source.buffer)],
                         &into = recording.buffers[size_t(statement.destination.buffer)];
    if (from.slotsFor >= 0 && into.slotsFor >= 0)
      mistake("goes from a slot of '" + from.name + "' to a slot of '" + into.name +
              "'; one side must be a chunk of '" + recording.buffers[size_t(into.slotsFor)].name +
              "', or of another buffer that is cut like it, which says " + "how much there is to move");
    size_t source = countRanged(statement.source), destination = countRanged(statement.destination);
    if (source != destination)
      mistake("the source slice has " + std::to_string(source) + " ranged dimensions, the destination slice " +
              std::to_string(destination) + "; their chunks cannot be paired");
  }

  void checkCodecs() {
    const RecordedBuffer &from = recording.buffers[size_t(statement.source.buffer)],
                         &into = recording.buffers[size_t(statement.destination.buffer)];
    std::string target = "'" + into.name + "', which is " + codec::nameOf(into.codec);
    if (statement.isReducing && (codec::isScaled(into.codec) || into.codec.isStochastic()))
      mistake("combines into " + target + "; combine into a buffer that is .as(f32()), and copy");
    else if (codec::isScaled(from.codec) && codec::isScaled(into.codec) && from.codec != into.codec)
      mistake("goes from '" + from.name + "', which is " + codec::nameOf(from.codec) + ", to " + target +
              "; copy through a buffer without scales, as .as(f32()) is");
  }

  void checkExpression(const ExpressionRef &expression) {
    bool usesForeignPeer = anyNode(expression, [&](const Expression &node) {
      return node.kind == Kind::PeerCoordinate && node.relation != statement.relation;
    });
    if (usesForeignPeer && !statement.isMistaken)
      mistake("uses the coordinate of a peer that this statement does not send to");
    std::string misuse = findMisuse(recording, expression, statement.loops);
    if (!misuse.empty() && !statement.isMistaken)
      mistake(misuse);
  }

  Recording &recording;
  RecordedStatement &statement;
};

} // namespace

std::string findMisuse(const Recording &recording, const ExpressionRef &expression, const std::vector<int> &loops) {
  int numDims = int(recording.definition.mesh.dims.size());
  bool usesForeignDim = anyNode(expression, [&](const Expression &node) {
    bool isOfDim = node.kind == Kind::PeerCoordinate || node.kind == Kind::Coordinate || node.kind == Kind::DimSize;
    return isOfDim && (node.value < 0 || node.value >= numDims);
  });
  if (usesForeignDim)
    return "uses a dimension that the mesh does not have";
  bool usesForeignLoop = anyNode(expression, [&](const Expression &node) {
    return node.kind == Kind::LoopIndex && std::ranges::find(loops, node.value) == loops.end();
  });
  if (usesForeignLoop)
    return "uses the index of a loop that it is not in";
  bool usesEmptyTable = anyNode(expression, [](const Expression &node) { return node.table && node.table->empty(); });
  if (usesEmptyTable)
    return "uses a table without entries";
  if (hasHugeConstants(expression))
    return "has constants that are together beyond 64 bits";
  bool usesRoot = anyNode(expression, [](const Expression &node) { return node.kind == Kind::Root; });
  if (usesRoot && !traitsOf(recording.definition.collective.kind).hasRoot())
    return "uses the root of a collective that has none";
  return "";
}

/// Refuses scratch memory whose size would differ from call to call.
static void checkSize(Recording &recording, RecordedBuffer &buffer) {
  auto usesRoot = [](const ExpressionRef &extent) {
    return anyNode(extent, [](const Expression &node) { return node.kind == Kind::Root; });
  };
  bool isMistaken = std::ranges::any_of(buffer.grid, usesRoot) || std::ranges::any_of(buffer.slotCut, usesRoot);
  if (buffer.role != RecordedBuffer::Role::Scratch || buffer.isMistaken || !isMistaken)
    return;
  buffer.isMistaken = true;
  recording.report(buffer.origin, "the grid of '" + buffer.name +
                                      "' depends on the root; that of scratch memory is the " + "same at every call");
}

/// Takes over from other buffers what is known of them only now: grids, and the sizes of slots.
static void completeGrids(Recording &recording) {
  for (RecordedBuffer &buffer : recording.buffers) {
    const RecordedBuffer *model = &buffer;
    while (model->sameGridAs >= 0)
      model = &recording.buffers[size_t(model->sameGridAs)];
    buffer.grid = model->grid;
    buffer.isMistaken |= model->isMistaken;
  }
  for (RecordedBuffer &buffer : recording.buffers) {
    if (buffer.slotsFor >= 0) {
      const RecordedBuffer &held = recording.buffers[size_t(buffer.slotsFor)];
      buffer.isMistaken |= held.isMistaken;
      if (!buffer.isMistaken)
        buffer.slotCut.assign(held.grid.begin() + ptrdiff_t(numBlockDims(recording, held)), held.grid.end());
    }
    checkSize(recording, buffer);
  }
}

void checkRecording(Recording &recording) {
  completeGrids(recording);
  for (RecordedStatement &statement : recording.statements)
    StatementChecker(recording, statement).check();
  auto key = [](const Diagnostic &diagnostic) {
    auto place = [](const Location &at) { return std::tuple(at.line(), at.column(), std::string(at.file_name())); };
    std::vector<std::tuple<unsigned, unsigned, std::string>> callers;
    std::ranges::transform(diagnostic.callers, std::back_inserter(callers), place);
    const Location &location = diagnostic.location;
    return std::tuple(location.line(), location.column(), diagnostic.message, std::string(location.file_name()),
                      callers);
  };
  std::ranges::sort(recording.diagnostics, {}, key);
  auto repeated = std::ranges::unique(recording.diagnostics, {}, key); // variants of a stripe make the same mistakes
  recording.diagnostics.erase(repeated.begin(), repeated.end());
}

} // namespace kolo::dsl
