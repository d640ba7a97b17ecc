#include "compiler/check/ChunkAccesses.h"

using namespace mlir;

namespace kolo {

ChunkAccesses::ChunkAccesses(const Tracer &tracer, const TracedGroup &traced, const ChunkRuns &chunkRuns,
                             EventOrder &order, Contents &contents, const BufferCodecs &codecs, bool followsLengths,
                             VectorClockResult &found)
    : tracer(tracer), traced(traced), group(traced.group), chunkRuns(chunkRuns), order(order), contents(contents),
      codecs(codecs), result(found), cells(tracer, traced, chunkRuns),
      lengths(tracer, traced.group, contents, followsLengths, found.whyNoBlockTables) {}

void ChunkAccesses::setCall(int64_t number) {
  currentCall = number;
  cells.setCall(number);
}

void ChunkAccesses::move(size_t orbit, const Event &event) {
  const Trace &trace = traced.traces[orbit];
  int64_t rank = group.representatives()[orbit];
  bool isPut = event.kind == EventKind::Put;
  int64_t sourceOwner = isPut ? rank : event.peer, destinationOwner = isPut ? event.peer : rank;
  if (isPut)
    order.beginPut(orbit, event.peer);
  ChunkCells::OfOwner sources =
      cells.find(trace, event.source, sourceOwner, event.part, moved.sources, moved.sourcePlaces);
  ChunkCells::OfOwner destinations =
      cells.find(trace, event.destination, destinationOwner, event.part, moved.destinations, moved.destinationPlaces);
  if (sourceOwner == destinationOwner && event.source.buffer == event.destination.buffer)
    checkOverlap(orbit, event);
  numLooks += int64_t(moved.sources.size());
  // All sources first: what is written here is not what is read here.
  moved.contents.clear();
  Access read = accessOf(orbit, sourceOwner, event.source.buffer, false, isPut);
  for (auto [chunk, place] : llvm::zip_equal(moved.sources, moved.sourcePlaces)) {
    Cell &cell = sources[place];
    access(read, chunk, cell);
    moved.contents.push_back(contents.move(sourceOwner, cell.content));
  }
  Access write = accessOf(orbit, destinationOwner, event.destination.buffer, true, isPut);
  for (auto [chunk, place, content] : llvm::zip_equal(moved.destinations, moved.destinationPlaces, moved.contents)) {
    Cell &cell = destinations[place];
    access(write, chunk, cell);
    if (isPackets(event.destination.buffer))
      sendPacket(event, orbit, chunk);
    Contents::Id arrived =
        contents.moveBack(destinationOwner, leavesSlot(event) ? leaveSlot(event, content, chunk) : content);
    if (event.kind == EventKind::Reduce)
      arrived = contents.combine(cell.content, arrived, tracer.program().ops[event.op].op,
                                 {rank, event.destination.buffer, chunk}, order.time(orbit));
    cell.content = arrived;
  }
  if (codecs.isAny())
    store(event, sourceOwner, destinationOwner);
  if (lengths.isFollowed())
    for (auto [source, destination, content] : llvm::zip_equal(moved.sources, moved.destinations, moved.contents))
      lengths.follow(event, {sourceOwner, source, destinationOwner, destination, content});
}

bool ChunkAccesses::leavesSlot(const Event &event) const {
  return tracer.grids()[event.source.buffer].isSlots && !tracer.grids()[event.destination.buffer].isSlots;
}

Contents::Id ChunkAccesses::leaveSlot(const Event &event, Contents::Id content, int64_t chunk) {
  int64_t perBlock = tracer.grids()[event.destination.buffer].chunksPerBlock;
  return contents.leaveSlot(content, chunk % perBlock, perBlock, tracer.program().ops[event.op].op);
}

/// What a move has written is stored by the codec of its destination. Bytes move as they are between equal codecs; a
/// combination is rounded when it is stored.
void ChunkAccesses::store(const Event &event, int64_t sourceOwner, int64_t destinationOwner) {
  uint32_t from = event.source.buffer, to = event.destination.buffer;
  if (codecs.ofBuffer[from] == codecs.ofBuffer[to] && event.kind != EventKind::Reduce)
    return;
  int64_t holder = group.moveBack(destinationOwner, sourceOwner);
  bool isSlot = tracer.grids()[from].isSlots; // whose places are no elements of a buffer
  uint32_t drawn = isSlot ? to : from;
  for (auto [source, destination] : llvm::zip_equal(moved.sources, moved.destinations)) {
    Terms::Origin origin{holder, drawn, group.moveChunkBack(destinationOwner, drawn, isSlot ? destination : source)};
    Cell &cell = cells.cellOf(destinationOwner, to, destination, event.part);
    cell.content = contents.store(cell.content, codecs.ofBuffer[to], origin, tracer.program().ops[event.op].op);
  }
}

/// A step reads and writes its chunks in any order. It may write a chunk that it reads only onto that chunk itself.
void ChunkAccesses::checkOverlap(size_t orbit, const Event &event) {
  if (moved.sources == moved.destinations && event.kind != EventKind::Reduce)
    return;
  llvm::DenseMap<int32_t, size_t> position;
  for (auto [i, chunk] : llvm::enumerate(moved.sources))
    position[chunk] = i;
  for (auto [i, chunk] : llvm::enumerate(moved.destinations)) {
    auto found = position.find(chunk);
    if (found == position.end() || (found->second == i && event.kind != EventKind::Reduce))
      continue;
    int64_t owner = event.kind == EventKind::Put ? event.peer : group.representatives()[orbit];
    report(order.entryOf(orbit, owner, false), accessOf(orbit, owner, event.destination.buffer, true, false), chunk,
           false, EventOrder::Order::None);
    return;
  }
}

void ChunkAccesses::divide(size_t orbit, const Event &event) {
  int64_t rank = group.representatives()[orbit];
  chunkRuns.expand(traced.traces[orbit], event.destination, moved.destinations);
  Access write = accessOf(orbit, rank, event.destination.buffer, true, false);
  for (int32_t chunk : moved.destinations) {
    Cell &cell = cells.cellOf(rank, event.destination.buffer, chunk, event.part);
    access(write, chunk, cell);
    if (lengths.isFollowed())
      lengths.followDivision(event, rank, chunk, cell.content);
    cell.content = contents.divide(cell.content, tracer.program().ops[event.op].op);
  }
}

/// A packet may replace neither a packet of the same call, nor one that its owner has not read.
void ChunkAccesses::sendPacket(const Event &event, size_t orbit, int32_t chunk) {
  ChunkCells::Packet &packet = cells.packetOf(event.peer, event.destination.buffer, chunk, event.part);
  auto rank = int32_t(group.moveBack(event.peer, group.representatives()[orbit]));
  if (packet.call == currentCall || (packet.call >= 0 && !packet.isRead)) {
    AccessEntry earlier;
    earlier.rank = packet.rank;
    earlier.time = packet.time;
    report(earlier, accessOf(orbit, event.peer, event.destination.buffer, true, true), chunk, true,
           EventOrder::Order::None);
    hasLost = true;
  }
  packet = {order.sendPacket(orbit), rank, order.time(orbit), currentCall, false};
}

bool ChunkAccesses::receivePackets(size_t orbit, const Event &event) {
  int64_t rank = group.representatives()[orbit];
  chunkRuns.expand(traced.traces[orbit], event.source, moved.sources);
  for (int32_t chunk : moved.sources)
    if (cells.packetOf(rank, event.source.buffer, chunk, event.part).call != currentCall)
      return false;
  for (int32_t chunk : moved.sources) {
    ChunkCells::Packet &packet = cells.packetOf(rank, event.source.buffer, chunk, event.part);
    if (packet.isRead)
      continue;
    packet.isRead = true;
    order.receivePacket(orbit, std::move(packet.clock), packet.rank, packet.time);
  }
  return true;
}

void ChunkAccesses::startCall(size_t orbit) {
  int64_t rank = group.representatives()[orbit];
  for (BufferRole role : {BufferRole::Output, BufferRole::Input}) {
    std::optional<uint32_t> buffer = tracer.bufferOf(role);
    if (!buffer || !tracer.exists(rank, role))
      continue;
    numLooks += chunkRuns.count(*buffer);
    Contents::Id content = role == BufferRole::Input ? contents.input(currentCall, rank, 0) : Contents::undefined;
    Access write = accessOf(orbit, rank, tracer.resolve(rank, *buffer, 0).first, true, false);
    for (int64_t chunk = 0; chunk < tracer.grids()[*buffer].numChunks; chunk = chunkRuns.next(*buffer, chunk)) {
      auto [outer, place] = tracer.resolve(rank, *buffer, chunk);
      for (int32_t part = 0; part < std::max(tracer.grids()[outer].numParts, 1); ++part) {
        Cell &cell = cells.cellOf(rank, outer, place, part);
        access(write, place, cell);
        cell.content = role == BufferRole::Input ? Contents::ofChunk(content, chunk) : Contents::undefined;
      }
    }
  }
}

void ChunkAccesses::endCall(size_t orbit, const RankRows &rows) {
  int64_t rank = group.representatives()[orbit];
  std::optional<uint32_t> output = tracer.bufferOf(BufferRole::Output);
  if (!output || !tracer.exists(rank, BufferRole::Output))
    return;
  const RankSet combined = combinedRanks(tracer, rows, rank);
  numLooks += chunkRuns.count(*output);
  Access read = accessOf(orbit, rank, tracer.resolve(rank, *output, 0).first, false, false);
  for (int64_t chunk = 0; chunk < tracer.grids()[*output].numChunks; chunk = chunkRuns.next(*output, chunk)) {
    auto [outer, place] = tracer.resolve(rank, *output, chunk);
    for (int32_t part = 0; part < std::max(tracer.grids()[outer].numParts, 1); ++part) {
      Cell &cell = cells.cellOf(rank, outer, place, part);
      access(read, place, cell);
      checkOutput(rank, chunk, cell.content, combined);
    }
  }
}

void ChunkAccesses::checkOutput(int64_t rank, int64_t chunk, Contents::Id held, const RankSet &combined) {
  if (result.wrongOutput)
    return;
  WantedContent wanted = wantedContent(tracer, rank, chunk);
  if (contents.isWanted(held, wanted, currentCall, combined))
    return;
  result.wrongOutput = {rank,
                        currentCall,
                        chunk,
                        contents.describe(held),
                        contents.describe(wanted, currentCall, combined),
                        contents.mistakeOf(held)};
}

void ChunkAccesses::access(Access &access, int64_t chunk, Cell &cell) {
  if (access.isWrite || !isPackets(access.buffer)) // packets were waited for: see receivePackets
    check(access, chunk, cell.lastWrite, true);
  if (!access.isWrite) {
    cells.addRead(cell, access.entry);
    return;
  }
  for (const AccessEntry &read : cell.reads)
    check(access, chunk, read, false);
  numLooks += int64_t(cell.reads.size());
  cells.setWrite(cell, access.entry);
}

/// Of an access to the same chunk before this one, a write or a read.
void ChunkAccesses::check(Access &access, int64_t chunk, const AccessEntry &earlier, bool isWrite) {
  AccessEntry &settled = access.settled[isWrite];
  // See checkOverlap for what one step does to itself.
  if (earlier.rank < 0 || earlier == access.entry || earlier == settled)
    return;
  EventOrder::Order ordering = order.orderOf(earlier, isWrite, access.orbit, access.owner);
  if (ordering != EventOrder::Order::Settled)
    report(earlier, access, chunk, isWrite, ordering);
  else
    settled = earlier;
}

void ChunkAccesses::report(const AccessEntry &entry, const Access &access, int64_t chunk, bool isEntryWrite,
                           EventOrder::Order ordering) {
  Moment earlier{int32_t(group.move(access.owner, entry.rank)), order.timeOf(entry)};
  Moment later{group.representatives()[access.orbit], order.time(access.orbit)};
  // One conflict per pair of steps in the text, and per pair of calls.
  auto [place, isNew] = conflictOf.try_emplace({stepOf(earlier), stepOf(later)}, result.conflicts.size());
  if (isNew)
    result.conflicts.push_back({earlier, later, isEntryWrite, access.isWrite,
                                ordering == EventOrder::Order::HiddenByTransport, access.owner, access.buffer, chunk});
}

/// The op and the call of a step.
uint64_t ChunkAccesses::stepOf(const Moment &moment) const {
  size_t orbit = group.orbitOf(moment.rank);
  uint32_t steps = order.stepsPerCall(orbit), position = moment.time % steps, call = moment.time / steps;
  bool isStep = position != 0 && position != steps - 1;
  uint64_t op = isStep ? traced.traces[orbit].events[position - 1].op : uint64_t(1) << 40 | uint64_t(position != 0);
  return op << 2 | call;
}

const ChunkCells::Cell &ChunkAccesses::outputCell(int64_t rank, int64_t chunk, int32_t part) {
  auto [outer, place] = tracer.resolve(rank, *tracer.bufferOf(BufferRole::Output), chunk);
  return cells.cellOf(rank, outer, place, part);
}

} // namespace kolo
