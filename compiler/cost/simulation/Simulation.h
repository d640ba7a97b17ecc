// What a channel program costs on a machine, by simulation of all its ranks. Used by `kolo simulate` and exploration.
//
// The rows of a prediction add up to its seconds: they follow the chain of events that ends last, back to the call. On
// this chain, the time of a transfer and the latency of the signal that announces it go to the transfer's statement. A
// lane that waits is not on the chain: what it waits for is. Launch has a row of its own, "launch", and so have
// entry credits and `enter`: "entry".
// A row's bytes and bottleneck are those of all its transfers, on the chain or not.
#pragma once

#include "compiler/cost/LevelTraffic.h"
#include "compiler/cost/simulation/Network.h"
#include "compiler/model/BlockLaw.h"
#include "ir/Kolo.h"

#include <memory>
#include <optional>

namespace kolo::cost {

struct SimulationOptions {
  Rates rates = Rates::Peak;
  int64_t lanes = 0;                          // of every rank; 0: as many as it takes
  int64_t numCalls = 1;                       // that follow each other at once; predictions are the mean of one
  int64_t elementBytes = defaultElementBytes; // of the call; matters to programs with codecs only
  std::optional<BlockLaw> counts = {};        // of a call with block tables, which the program takes
  bool countsLevels = false;                  // goes through the steps of all ranks for `levels`
};

/// Where the author wrote a statement. A building block has one for each of its calls.
struct SimulatedLine {
  std::string file;
  unsigned line = 0; // 0: the row "entry"
};

struct SimulationOutcome {
  Prediction prediction;
  int64_t numTransfers = 0;              // of all calls
  std::vector<LevelTraffic> levels = {}; // of one call on several nodes, from the inside out; empty if not counted
};

/// A program's steps on the mesh of a placement, for any number of bytes.
class Simulation {
public:
  static constexpr int64_t mostRanks = 16'384;
  static constexpr int64_t mostSteps = int64_t(1) << 27;    // of all ranks in all calls: about a minute
  static constexpr int64_t mostOwnSteps = int64_t(1) << 24; // where ranks do not share programs
  static constexpr int64_t mostTraceBytes = int64_t(1) << 30;
  static constexpr int64_t mostLines = int64_t(1) << 32; // of programs, to list the steps of ranks

  /// The program, the machine and the placement must outlive the simulation. Root: rank 0 of its group. Reduction: a
  /// sum. Fails where the program has no concrete steps, or too many.
  static std::variant<Simulation, CostMistake> create(ProgramOp program, const Machine &machine,
                                                      const Placement &placement, const SimulationOptions &options);
  Simulation(Simulation &&) noexcept;
  Simulation &operator=(Simulation &&) noexcept;
  ~Simulation();

  /// `bytes`: as LowerBound counts; rounded up so that all blocks have as many. With `counts`, those of the vector that
  /// is cut into blocks: see BlockCounts; one thread predicts at a time then. Fails where the program needs too much
  /// memory, or does not end. `timeline`, if any, gets what every rank does when.
  std::variant<SimulationOutcome, CostMistake> predict(int64_t bytes, Timeline *timeline = nullptr) const;

  /// By a statement's number in a timeline.
  std::span<const SimulatedLine> statements() const;

private:
  struct Parts;
  explicit Simulation(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts;
};

} // namespace kolo::cost
