// Tune: measures candidates against each other, and chooses.
#pragma once

#include "tools/compile/TuningTable.h"
#include "tools/run/RankRunner.h"
#include "tools/tune/Candidates.h"
#include "tools/tune/Predictor.h"

#include <functional>
#include <string>
#include <vector>

namespace kolo::tools {

/// How well one candidate does at one size.
struct Measurement {
  std::vector<double> microseconds; // of single calls, over all rounds
  std::vector<double> roundsUs;     // the median of each round
  bool isLeftOut = false;           // by the predictions: never measured
  bool isLeftBehind = false;        // far behind in the first rounds, and not measured again
  bool isMeasuredOn() const { return !isLeftOut && !isLeftBehind; }
  /// The mean of the rounds but for the slowest, which may have been disturbed.
  double typicalUs() const;
};

struct Cell {
  int64_t bytes = 0;                     // of the larger buffer of one rank
  std::vector<Measurement> measurements; // by candidate
  size_t chosen = 0;                     // by number, as is the fastest of the others that were measured to the end
  std::optional<size_t> next = std::nullopt;
};

struct TuneOptions {
  int64_t maxBytes = int64_t(64) << 20; // at least one f32 for every rank
  double secondsPerCell = 1;
  Predictor predict = {};  // says which candidates to measure; empty: all
  bool isLaunched = false; // this process is one rank of a launcher's: see RankJob
  bool isQuick = false;    // sizes by factors of 8; fewer calls and rounds; results checked up to 256 KiB
  /// The program, by size, that stays chosen unless another one clearly beats it, as `choose` says. Empty: none.
  std::function<std::string(int64_t bytes)> incumbent = {};
};

/// The sizes of a table's cells, which are all that a call can have from 16 bytes to maxBytes, by factors of 4 or 8.
std::vector<int64_t> sizesToTune(runtime::CollectiveKind collective, const runtime::Mesh &mesh, int64_t maxBytes,
                                 bool isQuick = false);

/// Whether input and output of the calls that are measured are one buffer. Those of a broadcast are in MPI and PyTorch.
inline bool isTunedInPlace(runtime::CollectiveKind collective) {
  return collective == runtime::CollectiveKind::Broadcast;
}

/// One cell per size. Calls are f32, sum, with ranks as processes. The ranks of a launcher all come to the same cells.
/// In the first round every candidate's result is checked byte by byte, then a few calls are timed. The second round
/// times the same; a candidate that is far behind in both is not measured again. The rounds that follow alternate among
/// the others, as many as fit into the time of a cell, but at least one. Memory that is in no window is on huge pages,
/// if the kernel gives them, in every round but the last ones, which use small pages, as malloc gives them. A virtual
/// machine whose cores move is in one of two states for seconds. A candidate that is good in both is better than the
/// fastest in one, so each cell chooses by its worst round
/// (`choose`). Throws as runRanks does, Refused where results are wrong, and as choosePredicted.
std::vector<Cell> tune(const Candidates &candidates, const runtime::Mesh &mesh, runtime::MemoryKind memory,
                       const TuneOptions &options);

struct CellChoice {
  size_t chosen = 0;
  std::optional<size_t> next; // the best of the others
};

/// Chooses among the candidates of one cell that were measured to the end, of which there is one at least. The first
/// rounds, of few calls, count only where there are no others. The best is nearest to the fastest in its own worst
/// round; `before`, the choice at the size below, stays if it is as good within 3 %. The incumbent stays unless another
/// is no slower in any round, within 3 %, and more than 10 % faster in most: one disturbed round moves nobody.
CellChoice choose(const std::vector<Measurement> &measurements, size_t numFirstRounds, std::optional<size_t> before,
                  std::optional<size_t> incumbent);

/// How many pairs of a size and a candidate there are, and how many of them were measured.
struct Effort {
  size_t measured = 0, all = 0;
};
Effort effortOf(const std::vector<Cell> &cells);

/// The largest size, from cell.bytes to below next.bytes, at which cell's choice is as fast as next's. Both choices'
/// times are taken as lines between the two cells, over logarithms of size and time. Half way by ratio where a cell
/// lacks a time, or where both are equally fast in both.
int64_t lastSizeOf(const Cell &cell, const Cell &next);

/// The entries of a table: for any mesh of so many ranks, if this one has one dimension, else for this mesh. A size
/// between two measured ones goes by lastSizeOf.
std::vector<TableEntry> entriesFor(const Candidates &candidates, const std::vector<Cell> &cells,
                                   runtime::CollectiveKind collective, const runtime::Mesh &mesh,
                                   runtime::MemoryKind memory);

} // namespace kolo::tools
