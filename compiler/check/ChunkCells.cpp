#include "compiler/check/ChunkCells.h"

using namespace mlir;

namespace kolo {

/// Reads of a chunk that are looked up by rank.
static constexpr size_t manyReads = 16;

static int64_t numPlacesOf(const BufferInfo &buffer, const Grid &grid, int64_t numChunks) {
  return numChunks * std::max(grid.numParts, 1) * ChunkCells::numTurns(buffer.role);
}

double ChunkCells::leastBytes(const Tracer &tracer, size_t numOrbits) {
  double numPlaces = 0;
  for (auto [buffer, grid] : llvm::zip_equal(tracer.program().buffers, tracer.grids()))
    numPlaces += double(numPlacesOf(buffer, grid, grid.numChunks));
  return double(numOrbits) * numPlaces * sizeof(Cell);
}

ChunkCells::ChunkCells(const Tracer &tracer, const TracedGroup &traced, const ChunkRuns &chunkRuns)
    : tracer(tracer), group(traced.group), chunkRuns(chunkRuns), ranks(traced.traces.size()) {
  for (RankCells &rank : ranks) {
    rank.cells.resize(tracer.grids().size());
    rank.packets.resize(tracer.grids().size());
  }
}

template <typename Place> Place &ChunkCells::at(std::vector<Place> &places, uint32_t buffer, size_t number) {
  if (places.empty()) {
    places.resize(
        size_t(numPlacesOf(tracer.program().buffers[buffer], tracer.grids()[buffer], chunkRuns.count(buffer))));
    numBytes += int64_t(places.size() * sizeof(Place));
  }
  return places[number];
}

ChunkCells::Cell &ChunkCells::cellOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) {
  return at(ranks[group.orbitOf(owner)].cells[buffer], buffer, placeOf(owner, buffer, chunk, part));
}

ChunkCells::Packet &ChunkCells::packetOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) {
  return at(ranks[group.orbitOf(owner)].packets[buffer], buffer, placeOf(owner, buffer, chunk, part));
}

ChunkCells::OfOwner ChunkCells::find(const Trace &trace, const Box &box, int64_t owner, int32_t part,
                                     std::vector<int32_t> &chunks, std::vector<int32_t> &places) {
  const Grid &grid = tracer.grids()[box.buffer];
  chunkRuns.expand(trace, box, chunks);
  places.clear();
  if (chunks.empty())
    return {nullptr, 0};
  SmallVector<int32_t, 8> numbers(trace.numbersOf(box, grid.extents.size()));
  if (chunkRuns.hasLongRuns(box.buffer) || !group.moveBoxBack(owner, box.buffer, numbers))
    for (int32_t chunk : chunks)
      places.push_back(int32_t(chunkRuns.numberOf(box.buffer, group.moveChunkBack(owner, box.buffer, chunk))));
  else if (group.isRepresentative(owner))
    places = chunks;
  else
    expandNumbers(numbers, grid, places);
  Cell &first = at(ranks[group.orbitOf(owner)].cells[box.buffer], box.buffer, firstOfTurn(box.buffer, part));
  return {&first, size_t(std::max(grid.numParts, 1))};
}

/// Of the part of a buffer that the call at hand uses.
size_t ChunkCells::firstOfTurn(uint32_t buffer, int32_t part) const {
  int64_t turn = call % numTurns(tracer.program().buffers[buffer].role);
  return size_t(turn * chunkRuns.count(buffer) * std::max(tracer.grids()[buffer].numParts, 1) + part);
}

size_t ChunkCells::placeOf(int64_t owner, uint32_t buffer, int64_t chunk, int32_t part) const {
  int64_t place = chunkRuns.numberOf(buffer, group.moveChunkBack(owner, buffer, chunk));
  return firstOfTurn(buffer, part) + size_t(place * std::max(tracer.grids()[buffer].numParts, 1));
}

void ChunkCells::addRead(Cell &cell, const AccessEntry &read) {
  if (AccessEntry *earlier = read.isPut ? nullptr : readOf(cell, read.rank)) {
    *earlier = read;
    return;
  }
  bool hadOrderedReads = cell.hasOrderedReads; // then there are no `readPlaces` yet
  cell.hasOrderedReads &= !read.isPut && (cell.reads.empty() || cell.reads.back().rank < read.rank);
  if (!read.isPut && !hadOrderedReads && cell.reads.size() >= manyReads)
    readPlaces[&cell][read.rank] = uint32_t(cell.reads.size());
  cell.reads.push_back(read);
}

void ChunkCells::setWrite(Cell &cell, const AccessEntry &write) {
  if (cell.reads.size() >= manyReads)
    readPlaces.erase(&cell);
  cell.reads.clear();
  cell.hasOrderedReads = true;
  cell.lastWrite = write;
}

/// A rank's read since the last write, other than by a put.
AccessEntry *ChunkCells::readOf(Cell &cell, int32_t rank) {
  if (cell.hasOrderedReads) {
    AccessEntry *found =
        llvm::lower_bound(cell.reads, rank, [](const AccessEntry &read, int32_t r) { return read.rank < r; });
    return found != cell.reads.end() && found->rank == rank ? found : nullptr;
  }
  if (cell.reads.size() < manyReads) {
    AccessEntry *found =
        llvm::find_if(cell.reads, [&](const AccessEntry &read) { return read.rank == rank && !read.isPut; });
    return found == cell.reads.end() ? nullptr : found;
  }
  auto &places = readPlaces[&cell];
  if (places.empty())
    for (auto [place, read] : llvm::enumerate(cell.reads))
      if (!read.isPut)
        places.try_emplace(read.rank, uint32_t(place));
  auto found = places.find(rank);
  return found == places.end() ? nullptr : &cell.reads[found->second];
}

} // namespace kolo
