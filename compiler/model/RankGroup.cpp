// Finds translations in the traces of neighbours, and verifies them on the traces of all ranks.
#include "compiler/model/RankGroup.h"
#include "compiler/model/Unfold.h"

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
  switch (kinds[dim]) {
  case Translation::None:
    return value;
  case Translation::Xor:
    return value ^ amount;
  case Translation::Cyclic:
    value += isBack ? sizes[dim] - amount : amount;
    return value >= sizes[dim] ? value - sizes[dim] : value;
  }
  llvm_unreachable("every kind is handled");
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
    if (!rootMoves && hasRoot(collective.getKind()) && kinds[size_t(dim)] != Translation::None)
      return size_t(dim); // the root is one rank of the group, and stays where it is
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
  ChunkDimFinder(const Tracer &tracer, RankGroup &group, size_t dim) : tracer(tracer), group(group), dim(dim) {}

  /// False when the traces contradict a translation of this kind.
  bool run(const Trace &a, const Trace &b) {
    if (a.events.size() != b.events.size())
      return false;
    for (const Grid &grid : tracer.grids())
      votes.emplace_back(grid.extents.size(), Vote::Any);
    for (auto [eventA, eventB] : llvm::zip_equal(a.events, b.events)) {
      if (eventA.op != eventB.op)
        return false;
      bool hasSource =
          eventA.kind == EventKind::Copy || eventA.kind == EventKind::Reduce || eventA.kind == EventKind::Put;
      if (hasSource && !look(a, eventA.source, b, eventB.source))
        return false;
      if ((hasSource || eventA.kind == EventKind::Divide) && !look(a, eventA.destination, b, eventB.destination))
        return false;
    }
    settle();
    return true;
  }

private:
  enum class Vote : uint8_t { Any, Fixed, Moved };

  bool look(const Trace &a, const Box &boxA, const Trace &b, const Box &boxB) {
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
  std::vector<SmallVector<Vote, 4>> votes;
};

} // namespace

bool RankGroup::findChunkDims(size_t dim, const Trace &first, const Trace &neighbour) {
  return ChunkDimFinder(tracer, *this, dim).run(first, neighbour);
}

bool rootsAreAlike(Code &code, ArrayRef<int64_t> mesh, bool isInPlace, int64_t maxEvents) {
  CollectiveAttr collective = code.program.getCollective();
  SmallVector<Translation, 4> kinds(mesh.size(), Translation::None);
  for (int64_t dim : collective.getGroupDims())
    kinds[size_t(dim)] = Translation::Cyclic;
  Tracer base(code, mesh, 0, isInPlace);
  base.maxEvents = maxEvents;
  std::vector<Trace> traces(size_t(base.numRanks()));
  for (auto [rank, trace] : llvm::enumerate(traces))
    if (!base.run(int64_t(rank), trace))
      return false;
  RankGroup group(base, kinds);
  Trace trace;
  // The rank that a root is, with coordinate 0 outside of the group.
  auto rankOfRoot = [&](int64_t root) {
    SmallVector<int64_t, 4> coordinates(mesh.size(), 0);
    for (int64_t dim : llvm::reverse(collective.getGroupDims())) {
      coordinates[size_t(dim)] = root % mesh[size_t(dim)];
      root /= mesh[size_t(dim)];
    }
    int64_t rank = 0;
    for (auto [coordinate, size] : llvm::zip_equal(coordinates, mesh))
      rank = rank * size + coordinate;
    return rank;
  };
  int64_t stride = 1;
  for (int64_t dim : llvm::reverse(collective.getGroupDims())) {
    if (mesh[size_t(dim)] > 1) {
      Tracer next(code, mesh, stride, isInPlace);
      if (!next.run(rankOfRoot(stride), trace) || !group.findChunkDims(size_t(dim), traces.front(), trace))
        return false;
    }
    stride *= mesh[size_t(dim)];
  }
  if (group.dimAgainstCollective(/*rootMoves=*/true))
    return false;
  for (int64_t root = 1; root < stride; ++root) {
    Tracer other(code, mesh, root, isInPlace);
    for (int64_t rank = 0; rank < base.numRanks(); ++rank)
      if (!other.run(rank, trace) ||
          !group.isMoved(traces[size_t(group.moveBack(rankOfRoot(root), rank))], trace, rankOfRoot(root)))
        return false;
    for (auto [a, b] : llvm::zip_equal(base.grids(), other.grids()))
      if (a.numParts != b.numParts)
        return false;
  }
  return true;
}

namespace {

/// Looks for the translations of one kind along every dimension, then for the other where there is none.
class GroupFinder {
public:
  GroupFinder(Tracer &tracer, int64_t maxBytes) : tracer(tracer), maxBytes(maxBytes) {}
  std::optional<TracedGroup> run();

private:
  bool makeGroup(ArrayRef<Translation> kinds, std::optional<RankGroup> &group);
  /// Traces all ranks and compares them with their representatives. Gives the first rank that differs, or -1; nothing
  /// as traceAll.
  std::optional<int64_t> verify(TracedGroup &traced);

  Tracer &tracer;
  int64_t maxBytes;
  Trace first;                   // of rank 0
  std::vector<Trace> neighbours; // of rank 0, one step along every dimension
};

bool GroupFinder::makeGroup(ArrayRef<Translation> kinds, std::optional<RankGroup> &group) {
  group.emplace(tracer, kinds);
  for (size_t dim = 0; dim < kinds.size(); ++dim)
    if (kinds[dim] != Translation::None && !group->findChunkDims(dim, first, neighbours[dim]))
      return false;
  return true;
}

std::optional<int64_t> GroupFinder::verify(TracedGroup &traced) {
  int64_t numBytes = 0;
  for (int32_t rank : traced.group.representatives()) {
    Trace &trace = traced.traces.emplace_back();
    if (!tracer.run(rank, trace))
      return std::nullopt;
    numBytes += int64_t(trace.events.size() * sizeof(Event) + trace.numbers.size() * sizeof(int32_t));
    if (numBytes > maxBytes)
      return std::nullopt;
  }
  Trace trace;
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
    if (traced.group.isRepresentative(rank))
      continue;
    if (!tracer.run(rank, trace))
      return std::nullopt;
    if (!traced.group.isMoved(traced.traces[traced.group.orbitOf(rank)], trace, rank))
      return rank;
  }
  return -1;
}

std::optional<TracedGroup> GroupFinder::run() {
  if (!tracer.run(0, first))
    return std::nullopt;
  SmallVector<Translation, 4> kinds;
  int64_t stride = tracer.numRanks();
  for (int64_t size : tracer.mesh()) {
    stride /= size;
    neighbours.emplace_back();
    if (size > 1 && !tracer.run(stride, neighbours.back()))
      return std::nullopt;
  }
  // One dimension after the other, each with the translations that fit rank 0 and its neighbour.
  for (size_t dim = 0; dim < tracer.mesh().size(); ++dim) {
    int64_t size = tracer.mesh()[dim];
    kinds.push_back(Translation::None);
    for (Translation kind : {Translation::Cyclic, Translation::Xor}) {
      if (size == 1 || (kind == Translation::Xor && !llvm::isPowerOf2_64(uint64_t(size))))
        continue;
      SmallVector<Translation, 4> attempt(kinds);
      attempt.back() = kind;
      attempt.resize(tracer.mesh().size(), Translation::None);
      std::optional<RankGroup> group;
      int64_t neighbour = 1;
      for (size_t later = dim + 1; later < tracer.mesh().size(); ++later)
        neighbour *= tracer.mesh()[later];
      if (makeGroup(attempt, group) && group->isMoved(first, neighbours[dim], neighbour)) {
        kinds.back() = kind;
        break;
      }
    }
  }
  while (true) {
    std::optional<RankGroup> group;
    if (!makeGroup(kinds, group)) { // guesses for several dimensions contradict each other
      *llvm::find_if(llvm::reverse(kinds), [](Translation kind) { return kind != Translation::None; }) =
          Translation::None;
      continue;
    }
    TracedGroup traced{std::move(*group), {}};
    std::optional<int64_t> different = verify(traced);
    if (!different)
      return std::nullopt;
    if (*different < 0) {
      std::optional<size_t> dim = traced.group.dimAgainstCollective();
      if (!dim)
        return traced;
      kinds[*dim] = Translation::None;
      continue;
    }
    // The last dimension along which the rank that differs was moved gives way.
    SmallVector<int64_t, 4> coordinates = tracer.coordinatesOf(*different);
    size_t dim = kinds.size();
    while (kinds[--dim] == Translation::None || coordinates[dim] == 0)
      ;
    kinds[dim] = Translation::None;
  }
}

} // namespace

std::optional<TracedGroup> traceAll(Tracer &tracer, int64_t maxBytes) { return GroupFinder(tracer, maxBytes).run(); }

} // namespace kolo
