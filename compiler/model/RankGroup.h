// The symmetry of a program on one mesh: translations of the ranks, along some dimensions, that turn the steps of one
// rank into the steps of another. Used by the checker, which then follows one rank of every orbit.
#pragma once

#include "compiler/model/MovedNumber.h"
#include "compiler/model/Trace.h"

#include <tuple>

namespace kolo {

/// Semaphore, sender and receiver of signals and waits, moved so that the sender is a representative.
using Channel = std::tuple<int32_t, int64_t, int64_t>;

/// A group of translations. The name of an element is the rank to which it moves its orbit's representative.
/// Representatives have coordinate 0 along all dimensions that are translated.
class RankGroup {
public:
  RankGroup(const Tracer &tracer, llvm::ArrayRef<Translation> kinds);

  int64_t numRanks() const { return int64_t(coordinates.size()); }
  llvm::ArrayRef<int32_t> representatives() const { return representativeRanks; }
  /// Number, among the representatives, of the one in a rank's orbit.
  size_t orbitOf(int64_t rank) const { return orbits[size_t(rank)]; }
  bool isRepresentative(int64_t rank) const { return representativeRanks[orbitOf(rank)] == rank; }
  bool isTrivial() const { return representativeRanks.size() == coordinates.size(); }
  /// `rank`, moved by the element, or its inverse, that takes a representative to `element`.
  int64_t move(int64_t element, int64_t rank) const { return translate<false>(element, rank); }
  int64_t moveBack(int64_t element, int64_t rank) const { return translate<true>(element, rank); }
  /// Of a signal or a wait of `rank`.
  Channel channelOf(int64_t rank, const Event &event) const {
    bool isSignal = event.kind == EventKind::Signal;
    int64_t sender = isSignal ? rank : event.peer, receiver = isSignal ? event.peer : rank;
    return {event.semaphore, representativeRanks[orbitOf(sender)], moveBack(sender, receiver)};
  }
  int64_t moveChunk(int64_t element, uint32_t buffer, int64_t chunk) const;
  int64_t moveChunkBack(int64_t element, uint32_t buffer, int64_t chunk) const;
  /// All chunks of a box of these offsets and sizes. False where they would come in another order than that of a box.
  bool moveBoxBack(int64_t element, uint32_t buffer, llvm::MutableArrayRef<int32_t> numbers) const;
  /// Neighbours of a representative whose elements generate the group.
  std::vector<int64_t> generators() const;

  /// A mesh dimension along which translated ranks do not have translated outputs in this collective. `rootMoves`: the
  /// root is translated with the ranks.
  std::optional<size_t> dimAgainstCollective(bool rootMoves = false) const;
  /// Finds out how chunks are translated along a mesh dimension, from the traces of rank 0 and of its neighbour there.
  /// False when they contradict a translation of the dimension's kind. With `ignoresLoops`, an op that goes through all
  /// indices along a grid dimension, in the same order on both ranks, says nothing about it.
  bool findChunkDims(size_t dim, const Trace &first, const Trace &neighbour, bool ignoresLoops = false);
  /// Whether `other`, the trace of rank `element`, is the trace of its representative, moved.
  bool isMoved(const Trace &representative, const Trace &other, int64_t element) const;

  llvm::SmallVector<Translation, 4> kinds;
  /// [buffer][grid dimension]: the mesh dimension that it is translated with; -1: none.
  std::vector<llvm::SmallVector<int8_t, 4>> chunkDims;

private:
  template <bool isBack> int64_t translate(int64_t element, int64_t rank) const;
  template <bool isBack> int64_t translateChunk(int64_t element, uint32_t buffer, int64_t chunk) const;
  bool moveBlocksLikeRanks(uint32_t buffer) const;
  int32_t shift(size_t dim, int32_t value, int32_t amount, bool isBack) const;
  bool isMovedPair(const Trace &a, const Event &eventA, const Trace &b, const Event &eventB, int64_t element) const;
  /// How the chunks of a range are permuted, beside being moved: by nothing (size 0), or by rotation or exclusive or.
  struct Permutation {
    int8_t dim = -1;
    int32_t size = 0;
    bool operator==(const Permutation &) const = default;
  };
  bool isMovedBox(const Trace &a, const Box &boxA, const Trace &b, const Box &boxB, int64_t element,
                  llvm::SmallVectorImpl<Permutation> &permutations) const;

  const Tracer &tracer;
  llvm::SmallVector<int32_t, 4> sizes;
  std::vector<std::array<int32_t, 4>> coordinates; // of every rank
  std::vector<size_t> orbits;                      // of every rank
  std::vector<int32_t> representativeRanks;
};

/// Whether a rooted program with another root is the same program with all ranks translated. Then a proof for root 0
/// holds for every root. False where finding out takes more than `maxLines` lines of the program.
bool rootsAreAlike(Code &code, llvm::ArrayRef<int64_t> mesh, bool isInPlace, int64_t maxLines);

/// The traces of one rank per orbit, under the largest group of translations that holds for all ranks.
struct TracedGroup {
  RankGroup group;
  std::vector<Trace> traces; // by orbit
};

/// Nothing when the tracer found a mistake, when the program is longer than it may be, or when the traces take more
/// than `maxBytes`. With `mayReorder`, moves of other ranks than the traced ones may come in another order than that of
/// their program, where nobody can tell: see MovedTrace.
std::optional<TracedGroup> traceAll(Tracer &tracer, int64_t maxBytes, bool mayReorder = false);

} // namespace kolo
