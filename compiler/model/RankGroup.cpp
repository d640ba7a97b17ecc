// Translations of ranks and chunks, and what two traces tell of the dimensions along which they move.
#include "compiler/model/RankGroup.h"
#include "compiler/model/Unfold.h"
#include "ir/Members.h"

#include <map>
#include <set>

using namespace mlir;

namespace kolo {

RankGroup::RankGroup(const Tracer &tracer, ArrayRef<Translation> kinds) : kinds(kinds), tracer(tracer) {
  for (int64_t size : tracer.mesh())
    sizes.push_back(int32_t(size));
  for (const Grid &grid : tracer.grids())
    chunkDims.emplace_back(grid.extents.size(), int8_t(-1));
  coordinates.resize(size_t(tracer.numRanks()));
  orbits.resize(coordinates.size());
  for (size_t rank = 0; rank < coordinates.size(); ++rank) {
    auto position = tracer.coordinatesOf(int64_t(rank));
    llvm::copy(position, coordinates[rank].begin());
    int64_t representative = 0;
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      representative = representative * sizes[dim] + (kinds[dim] == Translation::None ? position[dim] : 0);
    if (representative == int64_t(rank)) {
      orbits[rank] = representativeRanks.size();
      representativeRanks.push_back(int32_t(rank));
    } else {
      orbits[rank] = orbits[size_t(representative)]; // representatives come first in their orbits
    }
  }
}

int32_t RankGroup::shift(size_t dim, int32_t value, int32_t amount, bool isBack) const {
  return translatePlace(kinds[dim], value, amount, sizes[dim], isBack);
}

template <bool isBack> int64_t RankGroup::translate(int64_t element, int64_t rank) const {
  int64_t result = 0;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    result =
        result * sizes[dim] + shift(dim, coordinates[size_t(rank)][dim], coordinates[size_t(element)][dim], isBack);
  return result;
}
template int64_t RankGroup::translate<false>(int64_t, int64_t) const;
template int64_t RankGroup::translate<true>(int64_t, int64_t) const;

template <bool isBack> int64_t RankGroup::translateChunk(int64_t element, uint32_t buffer, int64_t chunk) const {
  ArrayRef<int32_t> extents = tracer.grids()[buffer].extents;
  int64_t result = 0, stride = 1;
  for (size_t i = extents.size(); i-- > 0; chunk /= extents[i]) {
    auto index = int32_t(chunk % extents[i]);
    if (int8_t dim = chunkDims[buffer][i]; dim >= 0)
      index = shift(size_t(dim), index, coordinates[size_t(element)][size_t(dim)], isBack);
    result += index * stride;
    stride *= extents[i];
  }
  return result;
}

int64_t RankGroup::moveChunk(int64_t element, uint32_t buffer, int64_t chunk) const {
  return isRepresentative(element) ? chunk : translateChunk<false>(element, buffer, chunk);
}
int64_t RankGroup::moveChunkBack(int64_t element, uint32_t buffer, int64_t chunk) const {
  return isRepresentative(element) ? chunk : translateChunk<true>(element, buffer, chunk);
}

bool RankGroup::moveBoxBack(int64_t element, uint32_t buffer, MutableArrayRef<int32_t> numbers) const {
  for (auto [i, chunkDim] : llvm::enumerate(chunkDims[buffer])) {
    if (chunkDim < 0)
      continue;
    auto dim = static_cast<uint8_t>(chunkDim);
    int32_t amount = coordinates[size_t(element)][dim];
    if (amount == 0)
      continue;
    if (numbers[2 * i + 1] != 1 && kinds[dim] != Translation::Cyclic)
      return false;
    numbers[2 * i] = shift(dim, numbers[2 * i], amount, /*isBack=*/true);
  }
  return true;
}

std::vector<int64_t> RankGroup::generators() const {
  std::vector<int64_t> result;
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0; stride *= sizes[dim])
    for (int32_t amount = 1; amount < sizes[dim]; amount *= 2) {
      if (kinds[dim] == Translation::None || (kinds[dim] == Translation::Cyclic && amount > 1))
        break;
      result.push_back(amount * stride);
    }
  return result;
}

bool RankGroup::isMovedBox(const Trace &a, const Box &boxA, const Trace &b, const Box &boxB, int64_t element,
                           SmallVectorImpl<Permutation> &permutations) const {
  if (boxA.buffer != boxB.buffer)
    return false;
  ArrayRef<int32_t> extents = tracer.grids()[boxA.buffer].extents;
  ArrayRef<int32_t> numbersA = a.numbersOf(boxA, extents.size()), numbersB = b.numbersOf(boxB, extents.size());
  for (size_t i = 0; i < extents.size(); ++i) {
    int32_t offset = numbersA[2 * i], size = numbersA[2 * i + 1];
    if (size != numbersB[2 * i + 1])
      return false;
    int8_t dim = chunkDims[boxA.buffer][i];
    int32_t wanted = offset;
    Permutation permutation;
    if (dim >= 0) {
      int32_t amount = coordinates[size_t(element)][size_t(dim)];
      wanted = shift(size_t(dim), offset, amount, false);
      if (size > 1 && kinds[size_t(dim)] == Translation::Xor) {
        if (!llvm::isPowerOf2_32(uint32_t(size)) || offset % size != 0)
          return false;
        wanted &= ~(size - 1);
        if (amount & (size - 1))
          permutation = {dim, size};
      } else if (size > 1 && kinds[size_t(dim)] == Translation::ToFront) {
        if (size != extents[i] || offset != 0)
          return false;
        wanted = 0;
        permutation = {dim, size};
      } else if (size == extents[i] && size > 1 && numbersB[2 * i] != wanted) {
        wanted = numbersB[2 * i] == offset ? offset : -1;
        permutation = {dim, size};
      }
    }
    if (numbersB[2 * i] != wanted)
      return false;
    if (size != 1)
      permutations.push_back(permutation);
  }
  return true;
}

bool RankGroup::isMovedPair(const Trace &a, const Event &eventA, const Trace &b, const Event &eventB,
                            int64_t element) const {
  if (eventA.op != eventB.op || eventA.part != eventB.part || eventB.peer != move(element, eventA.peer))
    return false;
  SmallVector<Permutation, 4> source, destination;
  bool isMove = eventA.kind == EventKind::Copy || eventA.kind == EventKind::Reduce || eventA.kind == EventKind::Put;
  if (isMove && !isMovedBox(a, eventA.source, b, eventB.source, element, source))
    return false;
  if ((isMove || eventA.kind == EventKind::Divide) &&
      !isMovedBox(a, eventA.destination, b, eventB.destination, element, destination))
    return false;
  return !isMove || source == destination; // or other chunks would be paired
}

bool RankGroup::isMoved(const Trace &representative, const Trace &other, int64_t element) const {
  return representative.events.size() == other.events.size() &&
         llvm::all_of(llvm::zip_equal(representative.events, other.events), [&](auto pair) {
           return isMovedPair(representative, std::get<0>(pair), other, std::get<1>(pair), element);
         });
}

/// Whether the dimensions that enumerate a buffer's blocks, one per rank of the group, are translated as those ranks
/// are.
bool RankGroup::moveBlocksLikeRanks(uint32_t buffer) const {
  ArrayRef<int64_t> groupDims = tracer.program().program.getCollective().getGroupDims();
  size_t numBlockDims = tracer.program().buffers[buffer].numBlockDims;
  if (numBlockDims != groupDims.size())
    return false;
  for (size_t i = 0; i < numBlockDims; ++i) {
    auto dim = size_t(groupDims[i]);
    int8_t wanted = kinds[dim] == Translation::None ? int8_t(-1) : int8_t(dim);
    if (chunkDims[buffer][i] != wanted || tracer.grids()[buffer].extents[i] != sizes[dim])
      return false;
  }
  return true;
}

std::optional<size_t> RankGroup::dimAgainstCollective(bool rootMoves) const {
  CollectiveAttr collective = tracer.program().program.getCollective();
  std::optional<size_t> last;
  for (size_t dim = 0; dim < kinds.size(); ++dim)
    if (kinds[dim] != Translation::None)
      last = dim;
  if (!last)
    return std::nullopt;
  std::optional<uint32_t> input = tracer.bufferOf(BufferRole::Input), output = tracer.bufferOf(BufferRole::Output);
  if (!input || !output)
    return last;
  for (int64_t dim : collective.getGroupDims())
    if (!rootMoves && !areMembersAlike(collective.getKind()) && kinds[size_t(dim)] != Translation::None)
      return size_t(dim); // such as the root, which is one rank of the group, and stays where it is
  const auto &buffers = tracer.program().buffers;
  auto innerDims = [&](uint32_t buffer) {
    return ArrayRef(chunkDims[buffer]).drop_front(buffers[buffer].numBlockDims);
  };
  for (uint32_t buffer : {*input, *output})
    if (buffers[buffer].numBlockDims != 0 && !moveBlocksLikeRanks(buffer))
      return last;
  // Chunks inside of blocks correspond by their numbers.
  auto isMoved = [](int8_t dim) { return dim >= 0; };
  ArrayRef<int32_t> inExtents = ArrayRef(tracer.grids()[*input].extents).drop_front(buffers[*input].numBlockDims);
  ArrayRef<int32_t> outExtents = ArrayRef(tracer.grids()[*output].extents).drop_front(buffers[*output].numBlockDims);
  if (innerDims(*input) == innerDims(*output) && inExtents == outExtents)
    return std::nullopt;
  return llvm::none_of(innerDims(*input), isMoved) && llvm::none_of(innerDims(*output), isMoved) ? std::nullopt : last;
}

namespace {

/// Guesses how chunks are translated along one mesh dimension, from the traces of rank 0 and of its neighbour there.
class ChunkDimFinder {
public:
  ChunkDimFinder(const Tracer &tracer, RankGroup &group, size_t dim, bool ignoresLoops)
      : tracer(tracer), group(group), dim(dim), ignoresLoops(ignoresLoops) {}

  /// False when the traces contradict a translation of this kind.
  bool run(const Trace &a, const Trace &b) {
    if (a.events.size() != b.events.size())
      return false;
    for (const Grid &grid : tracer.grids())
      votes.emplace_back(grid.extents.size(), Vote::Any);
    if (ignoresLoops)
      findLoops(a);
    for (auto [eventA, eventB] : llvm::zip_equal(a.events, b.events)) {
      if (eventA.op != eventB.op)
        return false;
      bool hasSource =
          eventA.kind == EventKind::Copy || eventA.kind == EventKind::Reduce || eventA.kind == EventKind::Put;
      if (hasSource && !look(eventA.op, a, eventA.source, b, eventB.source))
        return false;
      if ((hasSource || eventA.kind == EventKind::Divide) &&
          !look(eventA.op, a, eventA.destination, b, eventB.destination))
        return false;
    }
    settle();
    return true;
  }

private:
  enum class Vote : uint8_t { Any, Fixed, Moved };

  /// What indices an op's boxes of one buffer start at, along a grid dimension.
  using Place = std::tuple<uint32_t, uint32_t, size_t>;

  /// Looks for ops that take every index along a dimension, and each as often as the others.
  void findLoops(const Trace &trace) {
    std::map<Place, std::vector<uint32_t>> numbers;
    auto count = [&](uint32_t op, const Box &box) {
      ArrayRef<int32_t> extents = tracer.grids()[box.buffer].extents;
      for (size_t i = 0; i < extents.size(); ++i) {
        std::vector<uint32_t> &counts = numbers[{op, box.buffer, i}];
        counts.resize(size_t(extents[i]));
        if (extents[i] > 0)
          ++counts[size_t(trace.numbersOf(box, extents.size())[2 * i])];
      }
    };
    for (const Event &event : trace.events) {
      bool isMove = event.kind == EventKind::Copy || event.kind == EventKind::Reduce || event.kind == EventKind::Put;
      if (isMove)
        count(event.op, event.source);
      if (isMove || event.kind == EventKind::Divide)
        count(event.op, event.destination);
    }
    for (const auto &[place, counts] : numbers)
      if (llvm::all_equal(counts))
        loops.insert(place);
  }

  bool look(uint32_t op, const Trace &a, const Box &boxA, const Trace &b, const Box &boxB) {
    ArrayRef<int32_t> extents = tracer.grids()[boxA.buffer].extents;
    ArrayRef<int32_t> numbersA = a.numbersOf(boxA, extents.size()), numbersB = b.numbersOf(boxB, extents.size());
    for (size_t i = 0; i < extents.size(); ++i) {
      if (numbersA[2 * i + 1] != numbersB[2 * i + 1])
        return false;
      if (numbersA[2 * i + 1] == extents[i] || numbersA[2 * i + 1] == 0)
        continue;
      // Under exclusive or with 1, only single chunks tell.
      if (group.kinds[dim] == Translation::Xor && numbersA[2 * i + 1] > 1)
        continue;
      Vote vote = numbersA[2 * i] == numbersB[2 * i] ? Vote::Fixed : Vote::Moved;
      if (vote == Vote::Fixed && loops.contains(Place{op, boxA.buffer, i}))
        continue;
      Vote &known = votes[boxA.buffer][i];
      if (known != Vote::Any && known != vote)
        return false;
      known = vote;
    }
    return true;
  }

  /// A dimension about which the traces say nothing moves if it can: whole ranges may be moved, or not, in pairs only.
  void settle() {
    for (auto [buffer, grid] : llvm::enumerate(tracer.grids()))
      for (auto [i, extent] : llvm::enumerate(grid.extents)) {
        bool mayMove = extent == tracer.mesh()[dim] && group.chunkDims[buffer][i] < 0 &&
                       !llvm::is_contained(group.chunkDims[buffer], int8_t(dim));
        if (mayMove && votes[buffer][i] != Vote::Fixed)
          group.chunkDims[buffer][i] = int8_t(dim);
      }
    // In a call in place, nothing touches the buffer that lies inside of the other one by its own name.
    if (auto alias = tracer.innerAndOuter()) {
      auto &inner = group.chunkDims[alias->first], &outer = group.chunkDims[alias->second];
      inner.assign(outer.end() - ptrdiff_t(inner.size()), outer.end());
    }
  }

  const Tracer &tracer;
  RankGroup &group;
  size_t dim;
  bool ignoresLoops;
  std::set<Place> loops;
  std::vector<SmallVector<Vote, 4>> votes;
};

} // namespace

bool RankGroup::findChunkDims(size_t dim, const Trace &first, const Trace &neighbour, bool ignoresLoops) {
  return ChunkDimFinder(tracer, *this, dim, ignoresLoops).run(first, neighbour);
}

} // namespace kolo
