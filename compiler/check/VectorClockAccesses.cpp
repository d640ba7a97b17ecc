// The moves of a run: accesses to chunks, their contents, and the outputs at the end of every call.
#include "compiler/check/VectorClockRun.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kolo {

void VectorClockRun::move(size_t orbit, const Event &event) {
  RankState &state = states[orbit];
  const Trace &trace = traced.traces[orbit];
  int64_t rank = group.representatives()[orbit];
  bool isPut = event.kind == EventKind::Put;
  int64_t sourceOwner = isPut ? rank : event.peer, destinationOwner = isPut ? event.peer : rank;
  if (isPut) {
    state.putQueues[event.peer].numbers.push_back(uint32_t(state.puts.size()));
    state.puts.push_back({event.peer});
    state.putTimes.push_back(state.time);
  }
  Cells sources = findChunks(trace, event.source, sourceOwner, event.part, sourceChunks, sourcePlaces);
  Cells destinations =
      findChunks(trace, event.destination, destinationOwner, event.part, destinationChunks, destinationPlaces);
  if (sourceOwner == destinationOwner && event.source.buffer == event.destination.buffer)
    checkOverlap(orbit, event);
  work += int64_t(sourceChunks.size());
  // All sources first: what is written here is not what is read here.
  movedContents.clear();
  Access read = accessOf(orbit, sourceOwner, event.source.buffer, false, isPut);
  for (auto [chunk, place] : llvm::zip_equal(sourceChunks, sourcePlaces)) {
    Cell &cell = sources[place];
    access(read, chunk, cell);
    movedContents.push_back(contents.move(sourceOwner, cell.content));
  }
  Access write = accessOf(orbit, destinationOwner, event.destination.buffer, true, isPut);
  for (auto [chunk, place, content] : llvm::zip_equal(destinationChunks, destinationPlaces, movedContents)) {
    Cell &cell = destinations[place];
    access(write, chunk, cell);
    if (isPackets(event.destination.buffer))
      sendPacket(event, orbit, chunk);
    Contents::Id arrived =
        contents.moveBack(destinationOwner, leavesSlot(event) ? leaveSlot(event, content, chunk) : content);
    if (event.kind == EventKind::Reduce)
      arrived = contents.combine(cell.content, arrived, tracer.program().ops[event.op].op,
                                 {rank, event.destination.buffer, chunk}, state.time);
    cell.content = arrived;
  }
  if (codecs.isAny())
    convert(event, sourceOwner, destinationOwner);
}

bool VectorClockRun::leavesSlot(const Event &event) const {
  return tracer.grids()[event.source.buffer].isSlots && !tracer.grids()[event.destination.buffer].isSlots;
}

Contents::Id VectorClockRun::leaveSlot(const Event &event, Contents::Id content, int64_t chunk) {
  int64_t perBlock = tracer.grids()[event.destination.buffer].chunksPerBlock;
  return contents.leaveSlot(content, chunk % perBlock, perBlock, tracer.program().ops[event.op].op);
}

/// A step reads and writes its chunks in any order. It may write a chunk that it reads only onto that chunk itself.
void VectorClockRun::checkOverlap(size_t orbit, const Event &event) {
  if (sourceChunks == destinationChunks && event.kind != EventKind::Reduce)
    return;
  llvm::DenseMap<int32_t, size_t> position;
  for (auto [i, chunk] : llvm::enumerate(sourceChunks))
    position[chunk] = i;
  for (auto [i, chunk] : llvm::enumerate(destinationChunks)) {
    auto found = position.find(chunk);
    if (found == position.end() || (found->second == i && event.kind != EventKind::Reduce))
      continue;
    int64_t owner = event.kind == EventKind::Put ? event.peer : group.representatives()[orbit];
    Entry own;
    own.rank = int32_t(group.moveBack(owner, group.representatives()[orbit]));
    own.time = states[orbit].time;
    report(own, accessOf(orbit, owner, event.destination.buffer, true, false), chunk, false, Order::None);
    return;
  }
}

void VectorClockRun::divide(size_t orbit, const Event &event) {
  int64_t rank = group.representatives()[orbit];
  chunkRuns.expand(traced.traces[orbit], event.destination, destinationChunks);
  Access write = accessOf(orbit, rank, event.destination.buffer, true, false);
  for (int32_t chunk : destinationChunks) {
    Cell &cell = cellOf(rank, event.destination.buffer, chunk, event.part);
    access(write, chunk, cell);
    cell.content = contents.divide(cell.content, tracer.program().ops[event.op].op);
  }
}

/// The chunks that the application of every representative looks at in all calls.
int64_t VectorClockRun::workOfApplications() const {
  int64_t numChunks = 0;
  for (int64_t rank : group.representatives())
    for (BufferRole role : {BufferRole::Output, BufferRole::Input})
      if (std::optional<uint32_t> buffer = tracer.bufferOf(role); buffer && tracer.exists(rank, role))
        numChunks += (role == BufferRole::Output ? 2 : 1) * chunkRuns.count(*buffer);
  return calls * numChunks;
}

/// The steps, and the chunks that they move, in all calls: without what clocks take.
int64_t VectorClockRun::workOfSteps() const {
  int64_t sum = 0;
  for (const Trace &trace : traced.traces)
    for (const Event &event : trace.events) {
      bool isMove = tracer.program().ops[event.op].isMove();
      int64_t numChunks = isMove ? 1 : 0;
      if (isMove)
        for (size_t i = 0; i < tracer.grids()[event.source.buffer].extents.size(); ++i)
          numChunks *= trace.numbers[event.source.first + 2 * i + 1];
      sum += workOfStep + (isMove ? std::min(numChunks, chunkRuns.count(event.source.buffer)) : 0);
    }
  return calls * sum;
}

/// The application has written its input and spoilt its output.
void VectorClockRun::startCall(size_t orbit, int64_t call) {
  int64_t rank = group.representatives()[orbit];
  for (BufferRole role : {BufferRole::Output, BufferRole::Input}) {
    std::optional<uint32_t> buffer = tracer.bufferOf(role);
    if (!buffer || !tracer.exists(rank, role))
      continue;
    work += chunkRuns.count(*buffer);
    Contents::Id content = role == BufferRole::Input ? contents.input(call, rank, 0) : Contents::undefined;
    Access write = accessOf(orbit, rank, tracer.resolve(rank, *buffer, 0).first, true, false);
    for (int64_t chunk = 0; chunk < tracer.grids()[*buffer].numChunks; chunk = chunkRuns.next(*buffer, chunk)) {
      auto [outer, place] = tracer.resolve(rank, *buffer, chunk);
      for (int32_t part = 0; part < std::max(tracer.grids()[outer].numParts, 1); ++part) {
        Cell &cell = cellOf(rank, outer, place, part);
        access(write, place, cell);
        cell.content = role == BufferRole::Input ? Contents::ofChunk(content, chunk) : Contents::undefined;
      }
    }
  }
}

/// The application reads its output, and may overwrite its buffers from then on.
void VectorClockRun::endCall(size_t orbit, int64_t call) {
  int64_t rank = group.representatives()[orbit];
  std::optional<uint32_t> output = tracer.bufferOf(BufferRole::Output);
  if (!output || !tracer.exists(rank, BufferRole::Output))
    return;
  ArrayRef<int64_t> groupDims = tracer.program().program.getCollective().getGroupDims();
  RankSet members = RankSet::group(moves.rows, {tracer.mesh().data(), tracer.mesh().size()},
                                   {groupDims.data(), groupDims.size()}, rank);
  work += chunkRuns.count(*output);
  Access read = accessOf(orbit, rank, tracer.resolve(rank, *output, 0).first, false, false);
  for (int64_t chunk = 0; chunk < tracer.grids()[*output].numChunks; chunk = chunkRuns.next(*output, chunk)) {
    auto [outer, place] = tracer.resolve(rank, *output, chunk);
    for (int32_t part = 0; part < std::max(tracer.grids()[outer].numParts, 1); ++part) {
      Cell &cell = cellOf(rank, outer, place, part);
      access(read, place, cell);
      WantedContent wanted = wantedContent(tracer, rank, chunk);
      if (result.wrongOutput || contents.isWanted(cell.content, wanted, call, members))
        continue;
      std::string text = "input chunk " + std::to_string(wanted.inputChunk) + " of " +
                         (wanted.rank < 0 ? "all ranks in the group" : "rank " + std::to_string(wanted.rank)) +
                         (call == 0 ? "" : " in the " + ordinal(call) + " call") +
                         (wanted.isDivided ? ", divided for an average" : "");
      result.wrongOutput = {rank, call, chunk, contents.describe(cell.content), text, contents.mistakeOf(cell.content)};
    }
  }
}

} // namespace kolo
