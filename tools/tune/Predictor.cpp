#include "tools/tune/Predictor.h"
#include "tools/compile/ToolError.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace kolo::tools {

std::vector<size_t> choosePredicted(const std::vector<PredictedProgram> &predictions,
                                    const std::vector<std::string> &programs) {
  if (predictions.empty())
    throw ToolError(ExitCode::Failed, "the model predicts nothing of any candidate");
  std::vector<size_t> numbers;
  double before = 0;
  for (const auto &[program, seconds, _] : predictions) {
    auto found = std::ranges::find(programs, program);
    if (found == programs.end())
      throw ToolError(ExitCode::Failed, fmt::format("the model predicts {}, which is no candidate", program));
    auto number = size_t(found - programs.begin());
    if (std::ranges::find(numbers, number) != numbers.end())
      throw ToolError(ExitCode::Failed, fmt::format("the model predicts {} twice", program));
    if (!std::isfinite(seconds) || seconds <= 0 || seconds < before)
      throw ToolError(ExitCode::Failed,
                      fmt::format("the model predicts {} s for {}, after {} s", seconds, program, before));
    numbers.push_back(number);
    before = seconds;
  }
  return numbers;
}

std::vector<size_t> shareMeasurements(const std::vector<std::vector<PredictedProgram>> &cells, size_t most) {
  struct Pair {
    double ratio; // to the fastest of its cell
    size_t cell;
  };
  std::vector<Pair> pairs; // but for the fastest
  for (size_t cell = 0; cell < cells.size(); ++cell)
    for (const PredictedProgram &prediction : std::span(cells[cell]).subspan(1))
      pairs.push_back({prediction.seconds / cells[cell].front().seconds, cell});
  std::ranges::sort(pairs, {}, [](const Pair &pair) { return std::pair(pair.ratio, pair.cell); });
  std::vector<size_t> shares(cells.size(), 1);
  pairs.resize(std::min(pairs.size(), most - std::min(most, cells.size())));
  for (const Pair &pair : pairs)
    ++shares[pair.cell];
  return shares;
}

} // namespace kolo::tools
