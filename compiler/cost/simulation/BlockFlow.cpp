#include "compiler/cost/simulation/BlockFlow.h"

namespace kolo::cost {

static int32_t numParts(const Grid &grid) { return std::max(grid.numParts, 1); }

BlockFlow::BlockFlow(const Tracer &tracer, const TracedGroup &traced, const BlockCounts &counts, const CallSize &call)
    : tracer(tracer), traced(traced), counts(counts), call(call), moved(size_t(tracer.numRanks())) {
  const Code &code = tracer.program();
  for (const OpInfo &op : code.ops)
    measures.push_back(op.isMove() ? measureOf(code.program.getCollective().getKind(), llvm::cast<MoveInterface>(op.op))
                                   : std::nullopt);
  for (auto [buffer, grid] : llvm::zip_equal(code.buffers, tracer.grids()))
    notes.emplace_back(notesPerLane(buffer.op) ? size_t(tracer.numRanks() * grid.numChunks * numParts(grid)) : 0);
  // A program that is proved leaves no rank waiting.
  for (bool isMoving = true; std::exchange(isMoving, false);)
    for (int64_t rank = 0; rank < tracer.numRanks(); ++rank)
      isMoving |= advance(rank);
}

/// As far as the signals let a rank. Whether it took a step.
bool BlockFlow::advance(int64_t rank) {
  const Trace &trace = traced.traces[traced.group.orbitOf(rank)];
  std::vector<int64_t> &own = moved[size_t(rank)];
  const size_t before = own.size();
  while (own.size() < trace.events.size()) {
    const Event &event = trace.events[own.size()];
    if (event.kind == EventKind::Enter) {
      entered.insert(rank);
      if (int64_t(entered.size()) < tracer.numRanks())
        break;
    }
    if (event.kind == EventKind::Signal)
      ++signals[{event.semaphore, rank, traced.group.move(rank, event.peer)}];
    if (event.kind == EventKind::Wait) {
      int64_t &arrived = signals[{event.semaphore, traced.group.move(rank, event.peer), rank}];
      if (arrived == 0)
        break;
      --arrived;
    }
    own.push_back(measures[event.op] ? move(rank, trace, event) : 0);
  }
  return own.size() > before;
}

BlockFlow::Side BlockFlow::sideOf(int64_t rank, const Trace &trace, const Event &event, MoveSide side) const {
  auto move = llvm::cast<MoveInterface>(tracer.program().ops[event.op].op);
  const bool isSource = side == MoveSide::Source;
  const Box &box = isSource ? event.source : event.destination;
  const bool isAtPeer = bool(isSource ? move.getSourceRank() : move.getDestinationRank());
  Side result{box.buffer, isAtPeer ? traced.group.move(rank, event.peer) : rank, {}};
  expandBox(trace, box, tracer.grids()[box.buffer], result.chunks);
  for (int32_t &chunk : result.chunks)
    chunk = int32_t(traced.group.moveChunk(rank, box.buffer, chunk));
  return result;
}

int64_t &BlockFlow::noteOf(const Side &side, size_t chunk, int32_t part) {
  const Grid &grid = tracer.grids()[side.buffer];
  return notes[side.buffer]
              [size_t((side.owner * grid.numChunks + side.chunks[chunk]) * numParts(grid) + part % numParts(grid))];
}

int64_t BlockFlow::move(int64_t rank, const Trace &trace, const Event &event) {
  const Measure &measure = *measures[event.op];
  const Side source = sideOf(rank, trace, event, MoveSide::Source),
             destination = sideOf(rank, trace, event, MoveSide::Destination);
  const bool isBySource = measure.table ? measure.side == MoveSide::Source : !tracer.grids()[source.buffer].isSlots;
  const Side &measured = isBySource ? source : destination;
  const Grid &grid = tracer.grids()[measured.buffer];
  int64_t elements = 0;
  for (size_t i = 0; i < source.chunks.size(); ++i) {
    const int64_t chunk = measured.chunks[i];
    CallSize ofBlock = call;
    ofBlock.count = measure.table
                        ? counts.of(*measure.table, tracer.numberInGroup(measured.owner), chunk / grid.chunksPerBlock)
                        : noteOf(source, i, event.part);
    if (!notes[destination.buffer].empty())
      noteOf(destination, i, event.part) = ofBlock.count;
    const ElementRange whole = chunkRange(grid, chunk % grid.chunksPerBlock, ofBlock);
    elements += partRange(whole, grid.chunksPerBlock, event.part, numParts(grid), call).size;
  }
  return elements;
}

} // namespace kolo::cost
