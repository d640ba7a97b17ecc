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

struct PredictedProgram {
  std::string program; // Candidate::program()
  double seconds = 0;  // of one call
  std::string bottleneck = {};
};

/// The predictions for one cell, one per candidate, the fastest first. A candidate that is left out is not measured.
using Predictor =
    std::function<std::vector<PredictedProgram>(const PredictedCell &cell, const std::vector<std::string> &programs)>;

/// The numbers of the predicted candidates among `programs`, in the predictions' order; at least one. Throws ToolError
/// (Failed) if there is no prediction. Throws it, naming the program, if that is unknown, was predicted before, takes
/// no positive time, or is out of order.
std::vector<size_t> choosePredicted(const std::vector<PredictedProgram> &predictions,
                                    const std::vector<std::string> &programs);

/// How many predictions of each cell, the fastest first, are worth one of `most` measurements. Every cell gets one,
/// even if these are more. The others go to the predictions that are nearest to the fastest of their cell.
std::vector<size_t> shareMeasurements(const std::vector<std::vector<PredictedProgram>> &cells, size_t most);

} // namespace kolo::tools
