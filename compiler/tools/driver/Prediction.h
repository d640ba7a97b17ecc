// Predictions: which candidates `kolo tune` measures where a model has costed all of them. Knows no model.
#pragma once

#include "kolo/runtime/Plugin.h"

#include <functional>
#include <string>
#include <vector>

namespace kolo::tools {

/// A choice that `kolo tune` makes: one cell of a table.
struct PredictedCell {
  runtime::CollectiveKind collective;
  runtime::Mesh mesh;
  runtime::MemoryKind memory;
  int64_t bytes; // of the larger buffer of one rank
};

struct Prediction {
  std::string program; // Candidate::program()
  double seconds = 0;  // of one call
  std::string bottleneck = {};
};

/// The predictions for one cell, one per candidate, the fastest first. A candidate that is left out is not measured.
using Predictor =
    std::function<std::vector<Prediction>(const PredictedCell &cell, const std::vector<std::string> &programs)>;

/// How many of the predicted candidates are measured.
struct PredictionLimits {
  double within = 1.5; // candidates of at most so many times the best prediction
  size_t most = SIZE_MAX;
};

/// The numbers, among `programs`, of the candidates to measure, the fastest prediction first; at least one. Throws
/// ToolError (Failed), naming the program: a prediction of an unknown program, of one that was predicted before, of no
/// positive time, or out of order; or no prediction at all.
std::vector<size_t> choosePredicted(const std::vector<Prediction> &predictions,
                                    const std::vector<std::string> &programs, const PredictionLimits &limits);

} // namespace kolo::tools
