// The terms of a closed form: what ClosedForm.cpp adds up, for any number of bytes. Private to the closed form.
#pragma once

#include "compiler/SourceLine.h"
#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/cost/closedform/StatementMoves.h"

#include <optional>

namespace kolo::cost {

/// What an author's statement costs in one phase: a + b x bytes.
struct Part {
  struct Time {
    size_t resource;
    double perByte = 0, messageSeconds = 0;
  };
  size_t row = 0, phase = 0;
  double executions = 0, latency = 0, perByte = 0;
  double messageSeconds = 0; // MessageTime's
  double share = 0;          // of the call's bytes, over its most loaded resources
  std::vector<Time> times;   // of the last two, by the resource that is the bottleneck
};

struct Phase {
  double latency = 0, perByte = 0;               // latency: and what messages take
  double lastLatency = 0, lastPerByte = 0;       // of its last execution: what the next phase need not wait for
  bool hasTransfer = false, waitsInside = false; // for peers, after it has moved something
};

struct Row {
  SourceLine place;
  bool operator==(const Row &) const = default;
};

struct TotalLoad {
  std::string resource, from, to;
  double share = 0, bandwidth = 0, messageSeconds = 0;
};

/// For working sets of one step of the bandwidths.
struct ClosedForm::Terms {
  int64_t upToWorkingSet = beyondCaches; // bytes
  int64_t depth = 1;                     // of a pipeline; 1: none
  bool hasPulls = false;
  double launch = 0;
  std::optional<double> entry;
  std::vector<Row> rows;
  std::vector<Part> parts;
  std::vector<Phase> phases;
  double steadyPerByte = 0;  // of the resource that all phases together load most
  double steadyMessages = 0; // seconds of each slice
  std::vector<TotalLoad> loads;
  std::vector<std::vector<double>> traffic; // as Prediction's, for each byte
  std::vector<std::string> resourceNames;
};

/// As ProgramFacts knows statements.
inline const void *statementKey(mlir::Operation *op) { return op->getLoc().getAsOpaquePointer(); }

Protocol protocolOf(const ResolvedSchedule &schedule);

/// What findTerms gives.
struct FoundTerms {
  std::unique_ptr<ClosedForm::Terms> terms;
  double workingSet = 0; // bytes of the call's working set for each byte
};

/// Fails with a diagnostic at the author's line.
mlir::FailureOr<FoundTerms> findTerms(ChoreographyOp choreography, const ResolvedSchedule &schedule,
                                      const Machine &machine, const Placement &placement, const ProgramFacts *facts,
                                      int64_t elementBytes, const Speeds &speeds);

} // namespace kolo::cost
