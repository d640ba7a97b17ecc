// Buffers, grids and slices.
#include "codec/Presets.h"
#include "dsl/Recording.h"

#include <algorithm>

namespace kolo::dsl {

Selector range(const Index &start, const Index &length) { return {start, length}; }

Slice::Slice(const Buffer &whole) : buffer(whole.number) {}

RecordedSlice SliceAccess::get(const Slice &slice) {
  RecordedSlice result{slice.buffer, slice.selectors.empty(), {}};
  for (const Selector &selector : slice.selectors)
    result.axes.push_back(selector.start
                              ? RecordedSlice::Axis{selector.start->expression(), selector.length->expression()}
                              : RecordedSlice::Axis{});
  return result;
}

/// Whether a grid starts with the sizes of the dimensions that the collective runs over.
static bool leadsWithGroup(const std::vector<ExpressionRef> &grid, const std::vector<int> &groupDims) {
  if (grid.size() < groupDims.size())
    return false;
  for (size_t i = 0; i < groupDims.size(); ++i)
    if (grid[i]->kind != Expression::Kind::DimSize || grid[i]->value != groupDims[i])
      return false;
  return true;
}

/// What is wrong with the extent of a grid, as the end of a sentence about the grid; empty when nothing is.
static std::string findMistake(const Recording &recording, const ExpressionRef &extent) {
  if (dependsOnRank(extent))
    return "depends on the rank; it must be the same on every rank";
  if (anyNode(extent, [](const Expression &node) { return node.kind == Expression::Kind::LoopIndex; }))
    return "depends on a loop index; a buffer has one grid";
  return findMisuse(recording, extent, {});
}

Buffer Buffer::cut(std::vector<Index> extents, Location location) const {
  RecordedBuffer &buffer = recording->buffers[size_t(number)];
  if (buffer.role == RecordedBuffer::Role::Input && buffer.sameGridAs >= 0) { // in place: one grid with the output
    Buffer(recording, buffer.sameGridAs).cut(std::move(extents), location);
    return *this;
  }
  auto mistake = [&](const std::string &end) {
    recording->report(location, "the grid of '" + buffer.name + "'" + end);
    buffer.isMistaken = true;
    return *this;
  };
  if (buffer.slotsFor >= 0)
    return mistake(" is that of its slots, which are not cut");
  if (buffer.hasOwnBlocks)
    return mistake(" is that of its blocks, which are not cut");
  std::vector<ExpressionRef> grid;
  for (const Index &extent : extents) {
    grid.push_back(extent.expression());
    if (std::string end = findMistake(*recording, grid.back()); !end.empty())
      return mistake(" " + end);
  }
  if (buffer.hasBlockPerRank && !leadsWithGroup(grid, recording->groupDims))
    return mistake(", which holds one block per rank, must start with the collective's dimensions");
  if (buffer.isGridFixed && !std::ranges::equal(grid, buffer.grid, isSame))
    recording->report(location, "'" + buffer.name + "' is cut into a second, different grid; a buffer has one");
  buffer.grid = std::move(grid);
  buffer.isGridFixed = true;
  buffer.origin = recording->originOf(location);
  buffer.sameGridAs = -1;
  return *this;
}

/// What is wrong with a buffer that gets this codec; empty when nothing is.
static std::string findMistake(const RecordedBuffer &buffer, const Codec &codec) {
  if (buffer.role != RecordedBuffer::Role::Scratch)
    return "'" + buffer.name + "' is the caller's and has no codec; copy between it and scratch memory that has one";
  if (std::string end = codec::findMistake(codec); !end.empty())
    return "the codec of '" + buffer.name + "' " + end;
  if (buffer.codec != none() && buffer.codec != codec)
    return "'" + buffer.name + "' has a codec already, " + codec::nameOf(buffer.codec) + "; a buffer has one";
  return "";
}

Buffer Buffer::as(const Codec &codec, Location location) const {
  RecordedBuffer &buffer = recording->buffers[size_t(number)];
  if (std::string mistake = findMistake(buffer, codec); !mistake.empty()) {
    recording->report(location, mistake);
    buffer.isMistaken |= buffer.role == RecordedBuffer::Role::Scratch;
    return *this;
  }
  buffer.codec = codec.copy();
  buffer.codecParameter = codec.parameter;
  buffer.codecOrigin = recording->originOf(location);
  return *this;
}

Slice Buffer::operator[](const Rank &rank) const {
  std::vector<Selector> selectors;
  for (int dim : recording->groupDims)
    selectors.push_back(rank[Choreography(*recording).dim(recording->definition.mesh.dims[size_t(dim)])]);
  // A block that is cut further is taken whole.
  while (selectors.size() < recording->buffers[size_t(number)].grid.size())
    selectors.push_back(all);
  return Slice(number, std::move(selectors));
}

} // namespace kolo::dsl
