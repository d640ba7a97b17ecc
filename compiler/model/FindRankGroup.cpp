// Finds translations in the traces of neighbours, and verifies them for all ranks: for whole orbits where MovedTrace
// can, else on the trace of every rank.
#include "compiler/model/MovedTrace.h"
#include "compiler/model/Unfold.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace kolo {

namespace {

/// Compares the program for every root with the program for root 0.
class RootMover {
public:
  RootMover(Code &code, ArrayRef<int64_t> mesh, bool isInPlace, int64_t maxLines)
      : code(code), mesh(mesh), isInPlace(isInPlace), groupDims(code.program.getCollective().getGroupDims()),
        base(code, mesh, 0, isInPlace) {
    base.maxLines = maxLines;
    for (int64_t dim : groupDims)
      numRoots *= mesh[size_t(dim)];
  }

  bool run();

private:
  bool findGroup(Translation kind, std::optional<RankGroup> &group);
  bool areAllMoved(const RankGroup &group);
  /// The rank that a root is, with coordinate 0 outside of the group.
  int64_t rankOfRoot(int64_t root) const;

  Code &code;
  ArrayRef<int64_t> mesh;
  bool isInPlace;
  ArrayRef<int64_t> groupDims;
  Tracer base;
  int64_t numRoots = 1;
};

int64_t RootMover::rankOfRoot(int64_t root) const {
  SmallVector<int64_t, 4> coordinates(mesh.size(), 0);
  for (int64_t dim : llvm::reverse(groupDims)) {
    coordinates[size_t(dim)] = root % mesh[size_t(dim)];
    root /= mesh[size_t(dim)];
  }
  int64_t rank = 0;
  for (auto [coordinate, size] : llvm::zip_equal(coordinates, mesh))
    rank = rank * size + coordinate;
  return rank;
}

/// The root may touch other buffers than other ranks do, so several ranks tell how chunks move.
static bool append(Tracer &tracer, int64_t rank, Trace &all) {
  Trace trace;
  if (!tracer.run(rank, trace))
    return false;
  auto numNumbers = uint32_t(all.numbers.size());
  for (Event event : trace.events) {
    event.source.first += numNumbers;
    event.destination.first += numNumbers;
    all.events.push_back(event);
  }
  llvm::append_range(all.numbers, trace.numbers);
  return true;
}

bool RootMover::findGroup(Translation kind, std::optional<RankGroup> &group) {
  SmallVector<Translation, 4> kinds(mesh.size(), Translation::None);
  for (int64_t dim : groupDims)
    kinds[size_t(dim)] = kind;
  group.emplace(base, kinds);
  int64_t stride = 1;
  for (int64_t dim : llvm::reverse(groupDims)) {
    if (mesh[size_t(dim)] > 1) {
      // All places move when the last one comes to the front.
      int64_t root = kind == Translation::ToFront ? stride * (mesh[size_t(dim)] - 1) : stride;
      Tracer next(code, mesh, root, isInPlace);
      Trace first, trace;
      for (int64_t rank : {int64_t(0), rankOfRoot(stride), rankOfRoot(stride * (mesh[size_t(dim)] - 1))})
        if (!append(base, rank, first) || !append(next, group->move(rankOfRoot(root), rank), trace))
          return false;
      if (!group->findChunkDims(size_t(dim), first, trace))
        return false;
    }
    stride *= mesh[size_t(dim)];
  }
  return !group->dimAgainstCollective(/*rootMoves=*/true);
}

/// Rank by rank, or, where MovedTrace cannot tell for one, for every root.
bool RootMover::areAllMoved(const RankGroup &group) {
  MovedTrace moved(base, group, /*rootMoves=*/true);
  Trace mine, trace;
  std::vector<Tracer> others;
  for (int64_t rank = 0; rank < base.numRanks(); ++rank) {
    if (!base.run(rank, mine))
      return false;
    if (moved.coversOrbit(rank, mine, base.numLinesRun, /*mayReorder=*/true))
      continue;
    for (int64_t root = 1; root < numRoots; ++root) {
      if (others.size() < size_t(root))
        others.emplace_back(code, mesh, root, isInPlace);
      Tracer &other = others[size_t(root) - 1];
      int64_t linesBefore = other.numLinesRun;
      if (!other.run(group.move(rankOfRoot(root), rank), trace) || !group.isMoved(mine, trace, rankOfRoot(root)))
        return false;
      base.numLinesRun += other.numLinesRun - linesBefore;
      if (base.numLinesRun > base.maxLines)
        return false;
    }
  }
  return llvm::all_of(others, [&](const Tracer &other) {
    return llvm::equal(base.grids(), other.grids(),
                       [](const Grid &a, const Grid &b) { return b.numParts == 0 || a.numParts == b.numParts; });
  });
}

bool RootMover::run() {
  return llvm::any_of(std::array{Translation::Cyclic, Translation::ToFront}, [&](Translation kind) {
    std::optional<RankGroup> group;
    return findGroup(kind, group) && areAllMoved(*group);
  });
}

} // namespace

bool rootsAreAlike(Code &code, ArrayRef<int64_t> mesh, bool isInPlace, int64_t maxLines) {
  return RootMover(code, mesh, isInPlace, maxLines).run();
}

namespace {

/// Looks for the translations of one kind along every dimension, then for the other where there is none.
class GroupFinder {
public:
  GroupFinder(Tracer &tracer, int64_t maxBytes, bool mayReorder)
      : tracer(tracer), maxBytes(maxBytes), mayReorder(mayReorder) {}
  std::optional<TracedGroup> run();

private:
  bool makeGroup(ArrayRef<Translation> kinds, std::optional<RankGroup> &group);
  bool fitsNeighbour(ArrayRef<Translation> attempt, size_t dim);
  Translation findKind(ArrayRef<Translation> kinds, size_t dim);
  /// Traces representatives and compares all ranks with them. Gives the first rank that differs, or -1; nothing as
  /// traceAll.
  std::optional<int64_t> verify(TracedGroup &traced);

  Tracer &tracer;
  int64_t maxBytes;
  bool mayReorder;
  Trace first; // of rank 0
  int64_t linesOfFirst = 0;
  std::vector<Trace> neighbours;     // of rank 0, one step along every dimension
  SmallVector<bool, 4> ignoresLoops; // by dimension: see findChunkDims
};

bool GroupFinder::makeGroup(ArrayRef<Translation> kinds, std::optional<RankGroup> &group) {
  group.emplace(tracer, kinds);
  for (size_t dim = 0; dim < kinds.size(); ++dim)
    if (kinds[dim] != Translation::None && !group->findChunkDims(dim, first, neighbours[dim], ignoresLoops[dim]))
      return false;
  return true;
}

std::optional<int64_t> GroupFinder::verify(TracedGroup &traced) {
  const RankGroup &group = traced.group;
  int64_t numBytes = 0, numLines = tracer.numLinesRun - linesOfFirst;
  for (int32_t rank : group.representatives()) {
    Trace &trace = traced.traces.emplace_back();
    if (rank == 0)
      trace = first;
    else if (!tracer.run(rank, trace))
      return std::nullopt;
    numBytes += int64_t(trace.events.size() * sizeof(Event) + trace.numbers.size() * sizeof(int32_t));
    if (numBytes > maxBytes) {
      double part = double(traced.traces.size()) / double(group.representatives().size());
      tracer.end = Tracer::End{rank, std::nullopt, double(numBytes) / double(maxBytes) / part};
      return std::nullopt;
    }
  }
  if (group.isTrivial())
    return -1;
  numLines = (tracer.numLinesRun - numLines) / int64_t(traced.traces.size()); // of one rank
  MovedTrace moved(tracer, group);
  BitVector isCovered(unsigned(traced.traces.size()));
  for (auto [orbit, trace] : llvm::enumerate(traced.traces))
    isCovered[unsigned(orbit)] =
        moved.coversOrbit(group.representatives()[orbit], trace, tracer.numLinesRun, mayReorder);
  int64_t numRanksLeft =
      int64_t(isCovered.size() - isCovered.count()) * (group.numRanks() / int64_t(traced.traces.size()));
  if (numRanksLeft > 0 && tracer.isMoreThanAllowed(double(numLines) * double(numRanksLeft)))
    return std::nullopt;
  Trace trace;
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
    size_t orbit = group.orbitOf(rank);
    if (isCovered[unsigned(orbit)] || group.isRepresentative(rank))
      continue;
    if (!tracer.run(rank, trace))
      return std::nullopt;
    if (!group.isMoved(traced.traces[orbit], trace, rank))
      return rank;
  }
  return -1;
}

/// Whether the neighbour of rank 0 along a dimension takes its steps, moved.
bool GroupFinder::fitsNeighbour(ArrayRef<Translation> attempt, size_t dim) {
  std::optional<RankGroup> group;
  if (!makeGroup(attempt, group))
    return false;
  int64_t neighbour = 1;
  for (int64_t size : tracer.mesh().drop_front(dim + 1))
    neighbour *= size;
  return group->isMoved(first, neighbours[dim], neighbour) ||
         (ignoresLoops[dim] && MovedTrace(tracer, *group).coversOrbit(0, first, tracer.numLinesRun, mayReorder));
}

Translation GroupFinder::findKind(ArrayRef<Translation> kinds, size_t dim) {
  int64_t size = tracer.mesh()[dim];
  for (bool ignores : {false, true})
    for (Translation kind : {Translation::Cyclic, Translation::Xor}) {
      if (size == 1 || (ignores && !mayReorder) || (kind == Translation::Xor && !llvm::isPowerOf2_64(uint64_t(size))))
        continue;
      ignoresLoops[dim] = ignores;
      SmallVector<Translation, 4> attempt(kinds);
      attempt.push_back(kind);
      attempt.resize(tracer.mesh().size(), Translation::None);
      if (fitsNeighbour(attempt, dim))
        return kind;
    }
  ignoresLoops[dim] = false;
  return Translation::None;
}

std::optional<TracedGroup> GroupFinder::run() {
  int64_t linesBefore = tracer.numLinesRun;
  if (!tracer.run(0, first))
    return std::nullopt;
  linesOfFirst = tracer.numLinesRun - linesBefore;
  SmallVector<Translation, 4> kinds;
  int64_t stride = tracer.numRanks();
  for (int64_t size : tracer.mesh()) {
    stride /= size;
    neighbours.emplace_back();
    if (size > 1 && !tracer.run(stride, neighbours.back()))
      return std::nullopt;
  }
  // One dimension after the other, each with the translations that fit rank 0 and its neighbour.
  ignoresLoops.assign(tracer.mesh().size(), false);
  for (size_t dim = 0; dim < tracer.mesh().size(); ++dim)
    kinds.push_back(findKind(kinds, dim));
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

std::optional<TracedGroup> traceAll(Tracer &tracer, int64_t maxBytes, bool mayReorder) {
  return GroupFinder(tracer, maxBytes, mayReorder).run();
}

} // namespace kolo
