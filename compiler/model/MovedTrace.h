// Verifies for all ranks of an orbit at once that their steps are those of one rank, translated: runs the program with
// numbers that depend on the translation. Used by RankGroup, which traces the ranks one by one where this cannot tell.
#pragma once

#include "compiler/model/MovedNumber.h"
#include "compiler/model/RankGroup.h"

namespace kolo {

class MovedTrace {
public:
  /// With `rootMoves`, translations move the root with the ranks: a trace for another root then is one for root 0,
  /// moved.
  MovedTrace(const Tracer &tracer, const RankGroup &group, bool rootMoves = false);

  /// Whether every translation of `trace`, of this rank, is the trace of the translated rank, without a mistake of the
  /// kinds that Tracer finds. False: this is not known. Counts the lines that it runs.
  /// With `mayReorder`, iterations of a loop over all coordinates along a dimension may come in another order, the
  /// translated one, where nobody can tell.
  bool coversOrbit(int64_t rank, const Trace &trace, int64_t &numLinesRun, bool mayReorder = false);

private:
  bool run(const Trace &trace, int64_t &numLinesRun);
  void beginLoop(const Code::Line &line, uint32_t number);
  bool continueLoop(const Code::Line &line);
  bool reinterpretLoop();
  struct Loop;
  bool keepsOrder(const Loop &loop) const;
  bool areIterationsIndependent(const Trace &trace) const;
  bool areMovesIndependent(const Loop &loop, const Trace &trace) const;
  MovedNumber evaluate(const IndexEvaluator::Instruction &instruction);
  bool isNext(const Trace &trace, uint32_t op);
  bool isPeer(const OpInfo &info, const Event &event) const;
  bool isPart(const OpInfo &info, const Event &event) const;
  /// How the chunks of a range are permuted, beside being moved: see RankGroup.
  struct Permutation {
    int8_t dim = -1;
    int32_t size = 0;
    bool operator==(const Permutation &) const = default;
  };
  using Permutations = llvm::SmallVector<Permutation, 4>;
  bool isBox(const SliceRegisters &slice, const Box &box, const Trace &trace, Permutations &permutations) const;
  bool isBlockOfOwner(const Box &box, size_t dim) const;
  bool isRange(const MovedNumber &offset, int32_t first, int32_t size, int32_t extent, int8_t dim,
               Permutations &permutations) const;
  bool keepsSizes(const Event &event, const Trace &trace) const;
  bool keepsGrids() const;
  /// Coordinate `offset` along a mesh dimension, moved.
  MovedNumber coordinate(size_t dim, int64_t offset) const;
  std::optional<int64_t> constantIn(unsigned number) const { return registers[number].asConstant(); }

  const Tracer &tracer;
  const RankGroup &group;
  bool rootMoves;
  llvm::SmallVector<int64_t, 4> coordinates; // of the traced rank
  MovedNumber root;
  std::vector<MovedNumber> registers;
  /// A loop that is run.
  struct Loop {
    uint32_t line;
    int64_t numIterations, iteration;
    std::vector<size_t> starts; // of the iterations, as numbers of events, and the end of the last one
  };
  std::vector<Loop> loops;      // those that contain the line at hand, the outermost one first
  std::vector<Loop> movedLoops; // that were run with a translated order
  std::vector<int8_t> loopDims; // by line: along which dimension the iterations of a loop are translated; -1: none
  size_t numEvents = 0;         // of the trace that were met
  MovedNumber::Condition numConditions = 0;
};

} // namespace kolo
