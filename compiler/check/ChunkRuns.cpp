// Cuts buffers where slices begin and end, and takes every cut along the moves to the other buffers until none is new.
#include "compiler/check/ChunkRuns.h"

#include <numeric>
#include <set>

using namespace mlir;

namespace kolo {

namespace {

/// Chunks that follow each other, in a box.
struct Range {
  int64_t first, size;
};

/// In row-major order of the box.
std::vector<Range> rangesOf(const Trace &trace, const Box &box, const Grid &grid) {
  ArrayRef<int32_t> numbers = trace.numbersOf(box, grid.extents.size());
  size_t numDims = grid.extents.size();
  int64_t inner = 1; // chunks of the dimensions that the box has as a whole
  for (; numDims > 0 && numbers[2 * numDims - 2] == 0 && numbers[2 * numDims - 1] == grid.extents[numDims - 1];
       --numDims)
    inner *= grid.extents[numDims - 1];
  std::vector<Range> ranges{{0, 1}}, longer;
  for (size_t dim = 0; dim < numDims; ++dim) {
    int64_t extent = grid.extents[dim], offset = numbers[2 * dim], end = offset + numbers[2 * dim + 1];
    longer.clear();
    for (const Range &range : ranges) {
      int64_t base = range.first * extent, step = dim + 1 < numDims ? 1 : extent;
      for (int64_t i = offset; i < std::min(end, extent); i += step)
        longer.push_back({base + i, std::min(step, std::min(end, extent) - i)});
      for (int64_t i = extent; i < end; i += step)
        longer.push_back({base + i - extent, std::min(step, end - i)});
    }
    std::swap(ranges, longer);
  }
  for (Range &range : ranges)
    range = {range.first * inner, range.size * inner};
  return ranges;
}

class Cutter {
public:
  explicit Cutter(const Tracer &tracer) : tracer(tracer), starts(tracer.grids().size()) {}

  /// False where it would take too long, or would leave most chunks by themselves.
  bool run(const TracedGroup &traced);
  std::vector<std::vector<int32_t>> take() const;

private:
  struct Side {
    uint32_t buffer;
    std::vector<Range> ranges;
  };
  using Move = std::pair<Side, Side>;

  bool pairInputAndOutput();
  bool addMoves(const Trace &trace);
  bool addMove(Side source, Side destination);
  Side wholeOf(uint32_t buffer) const { return {buffer, {{0, tracer.grids()[buffer].numChunks}}}; }
  void cut(uint32_t buffer, int64_t chunk);
  void cutAlong(const Side &from, const Side &to, uint32_t buffer, int64_t chunk);

  static constexpr size_t mostRanges = 1024, mostStarts = 4096;
  const Tracer &tracer;
  std::set<std::vector<int32_t>> known; // moves, as the numbers of their boxes
  std::vector<Move> moves;
  std::vector<std::set<int64_t>> starts; // by buffer
  std::vector<std::pair<uint32_t, int64_t>> pending;
  size_t numRanges = 0, numStarts = 0;
};

void Cutter::cut(uint32_t buffer, int64_t chunk) {
  if (chunk >= tracer.grids()[buffer].numChunks || !starts[buffer].insert(chunk).second)
    return;
  ++numStarts;
  pending.emplace_back(buffer, chunk);
}

bool Cutter::addMove(Side source, Side destination) {
  for (const Side *side : {&source, &destination})
    for (const Range &range : side->ranges) {
      cut(side->buffer, range.first);
      cut(side->buffer, range.first + range.size);
    }
  numRanges += source.ranges.size() + destination.ranges.size();
  moves.emplace_back(std::move(source), std::move(destination));
  return numRanges <= mostRanges;
}

bool Cutter::addMoves(const Trace &trace) {
  std::vector<int32_t> key;
  for (const Event &event : trace.events) {
    if (!tracer.program().ops[event.op].isMove() && event.kind != EventKind::Divide)
      continue;
    const Box &source = event.kind == EventKind::Divide ? event.destination : event.source;
    key.clear();
    for (const Box *box : {&source, &event.destination}) {
      key.push_back(int32_t(box->buffer));
      llvm::append_range(key, trace.numbersOf(*box, tracer.grids()[box->buffer].extents.size()));
    }
    auto sideOf = [&](const Box &box) { return Side{box.buffer, rangesOf(trace, box, tracer.grids()[box.buffer])}; };
    if (known.insert(key).second && !addMove(sideOf(source), sideOf(event.destination)))
      return false;
  }
  return true;
}

/// What the collective asks of an output chunk is the input chunk with its number. In a call in place, the two are one.
bool Cutter::pairInputAndOutput() {
  CollectiveKind kind = tracer.program().program.getCollective().getKind();
  std::optional<uint32_t> input = tracer.bufferOf(BufferRole::Input), output = tracer.bufferOf(BufferRole::Output);
  bool isAlike = !hasBlockPerMember(kind, BufferRole::Input) && !hasBlockPerMember(kind, BufferRole::Output);
  return isAlike && input && output && tracer.grids()[*input].numChunks == tracer.grids()[*output].numChunks &&
         addMove(wholeOf(*input), wholeOf(*output));
}

/// A cut of one side of a move is one of the other side.
void Cutter::cutAlong(const Side &from, const Side &to, uint32_t buffer, int64_t chunk) {
  if (from.buffer != buffer)
    return;
  int64_t place = 0;
  auto range = from.ranges.begin();
  for (; range != from.ranges.end() && (chunk < range->first || chunk >= range->first + range->size); ++range)
    place += range->size;
  if (range == from.ranges.end())
    return;
  place += chunk - range->first;
  auto other = to.ranges.begin();
  for (; place >= other->size; ++other)
    place -= other->size;
  cut(to.buffer, other->first + place);
}

bool Cutter::run(const TracedGroup &traced) {
  if (!pairInputAndOutput())
    return false;
  for (uint32_t buffer = 0; buffer < starts.size(); ++buffer)
    cut(buffer, 0);
  for (const Trace &trace : traced.traces)
    if (!addMoves(trace))
      return false;
  while (!pending.empty() && numStarts <= mostStarts) {
    auto [buffer, chunk] = pending.back();
    pending.pop_back();
    for (const auto &[source, destination] : moves) {
      cutAlong(source, destination, buffer, chunk);
      cutAlong(destination, source, buffer, chunk);
    }
  }
  return pending.empty();
}

std::vector<std::vector<int32_t>> Cutter::take() const {
  std::vector<std::vector<int32_t>> result(starts.size());
  for (auto [grid, cuts, list] : llvm::zip_equal(tracer.grids(), starts, result))
    if (int64_t(cuts.size()) < grid.numChunks)
      list.assign(cuts.begin(), cuts.end());
  return result;
}

} // namespace

ChunkRuns::ChunkRuns(const Tracer &tracer, const TracedGroup &traced, const BufferCodecs &codecs)
    : tracer(tracer), starts(tracer.grids().size()) {
  bool hasSlots = llvm::any_of(tracer.grids(), [](const Grid &grid) { return grid.isSlots; });
  if (!traced.group.isTrivial() || codecs.isAny() || hasSlots)
    return;
  if (Cutter cutter(tracer); cutter.run(traced))
    starts = cutter.take();
}

int64_t ChunkRuns::count(uint32_t buffer) const {
  return starts[buffer].empty() ? tracer.grids()[buffer].numChunks : int64_t(starts[buffer].size());
}

int64_t ChunkRuns::numberOf(uint32_t buffer, int64_t first) const {
  return starts[buffer].empty() ? first : llvm::lower_bound(starts[buffer], first) - starts[buffer].begin();
}

int64_t ChunkRuns::next(uint32_t buffer, int64_t first) const {
  if (starts[buffer].empty())
    return first + 1;
  auto number = size_t(numberOf(buffer, first)) + 1;
  return number < starts[buffer].size() ? starts[buffer][number] : tracer.grids()[buffer].numChunks;
}

void ChunkRuns::expand(const Trace &trace, const Box &box, std::vector<int32_t> &firsts) const {
  const Grid &grid = tracer.grids()[box.buffer];
  if (starts[box.buffer].empty())
    return expandBox(trace, box, grid, firsts);
  firsts.clear();
  for (const Range &range : rangesOf(trace, box, grid)) {
    auto first = llvm::lower_bound(starts[box.buffer], range.first);
    for (; first != starts[box.buffer].end() && *first < range.first + range.size; ++first)
      firsts.push_back(*first);
  }
}

} // namespace kolo
