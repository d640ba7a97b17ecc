// Goes through a choreography for the closed form: ClosedFormTerms.cpp walks, StatementGroups.cpp costs what it finds.
// Private to the closed form.
#pragma once

#include "compiler/cost/closedform/ClosedFormTerms.h"
#include "compiler/cost/closedform/RankChains.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>

namespace kolo::cost {

/// Goes through a choreography once, and adds up what its statements cost.
class Calculator {
public:
  Calculator(ChoreographyOp choreography, const ResolvedSchedule &schedule, const Machine &machine,
             const Placement &placement, const ProgramFacts *facts, int64_t elementBytes)
      : choreography(choreography), schedule(schedule), machine(machine), placement(placement), facts(facts),
        elementBytes(elementBytes) {}

  mlir::LogicalResult run(const Speeds &speeds, ClosedForm::Terms &into);
  /// Of one rank's buffers, as a share of the call's bytes. Once the terms are known.
  double workingSet();

private:
  /// Statements that run at the same time, or as one.
  struct Group {
    enum class Kind { Single, Stripe, Fused } kind = Kind::Single;
    llvm::SmallVector<mlir::Operation *, 4> members;
    const ProgramFacts::Fused *fused = nullptr;
  };
  struct Member {
    double latency = 0;
    Bottleneck own;
    MessageTime messages;
  };
  struct Result {
    double latency = 0, perByte = 0;
    double messageSeconds = 0; // beside those: MessageTime's
    bool isPutLast = false;
    llvm::SmallVector<Member, 4> members;
    Loads total, messages;
    std::vector<ChainedMove> told; // where rounds of a loop may overlap: what moves,
    Accesses accesses;             // and what it reads and writes
  };
  /// Rounds of a loop that are under way at once. In a pipeline, no put sends what another one brings. Else ranks wait
  /// in every round for what it brings them, but not for the other ranks.
  struct Rounds {
    std::vector<std::pair<Group, Result>> groups;
    std::vector<Access> written; // by what is under way: in a pipeline by all, else in this round
    RankChains chains;           // not in a pipeline
    bool arePuts = false;        // the last ones
    double times = 0;
  };

  mlir::LogicalResult prepare(const Speeds &speeds);
  double blocksOfLarger();
  mlir::LogicalResult walkBlock(mlir::Block &block, double times);
  mlir::LogicalResult walkLoop(mlir::scf::ForOp loop, double times);
  mlir::LogicalResult walkTrips(mlir::scf::ForOp loop, int64_t first, int64_t trips, double times);
  bool varies(mlir::scf::ForOp loop);
  bool isAlike(mlir::scf::ForOp loop, int64_t first, int64_t trips);
  Group groupFrom(mlir::Operation *first);
  mlir::LogicalResult addGroup(const Group &group, double times);
  mlir::FailureOr<llvm::SmallVector<Moves, 4>> movesOf(const Group &group);
  Result evaluate(const Group &group, llvm::ArrayRef<Moves> moves);
  void combine(const Group &group, Result &result, const std::vector<Loads> &loads);
  std::vector<int64_t> indexKey(const Group &group);
  std::vector<int64_t> valueKey(const Group &group, llvm::ArrayRef<Moves> moves);
  double stored(mlir::Value buffer) const;
  MoveCost costOf(mlir::Operation *op, const Group &group);
  bool isPipelined() const { return schedule.pipelineDepth() > 1; }
  bool mayOverlap(const Group &group);
  void settle(const Group &group, const Result &result, double times);
  std::vector<ChainedMove::Use> usesOf(const Moves &moves, const EnumeratedMoves &one);
  std::vector<ChainedMove> chainedMoves(const Moves &moves, double latency);
  void endRound();
  void endRounds();
  void commit(const Group &group, const Result &result, double times);
  size_t rowOf(mlir::Operation *op);
  Part &partOf(mlir::Operation *op);
  bool isPut(mlir::Operation *op);
  void finish();

  ChoreographyOp choreography;
  const ResolvedSchedule &schedule;
  const Machine &machine;
  const Placement &placement;
  const ProgramFacts *facts;
  int64_t elementBytes; // of the call
  ClosedForm::Terms *terms = nullptr;
  Protocol protocol = Protocol::Bulk;
  std::optional<IndexEvaluator> evaluator;
  std::optional<LoadModel> model;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<StatementMoves>> statements;
  llvm::DenseMap<mlir::Operation *, bool> variesWithIndex;
  llvm::DenseMap<mlir::Operation *, size_t> parts; // of this phase
  std::map<std::vector<int64_t>, Result> memo;
  double blocks = 0, entryLatency = 0;
  int64_t budget = ClosedForm::mostMoves;
  static constexpr int64_t mostUnlike = int64_t(1) << 22; // rounds of loops, in all
  int64_t numUnlike = 0;
  Loads total, totalMessages;
  /// What whole blocks use that move from one rank to another, where counted dimensions are kept.
  struct KnownUses {
    MoveCost cost;
    llvm::DenseMap<std::pair<int64_t, int64_t>, std::vector<ChainedMove::Use>> byEnds;
  };
  std::vector<KnownUses> knownUses;
  bool isInRounds = false; // of a loop whose rounds differ, and of no other loop in it
  Rounds rounds;
};

} // namespace kolo::cost
