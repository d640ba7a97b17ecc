#include "driver/Prediction.h"
#include "driver/ToolError.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kolo::tools {

std::vector<size_t> choosePredicted(const std::vector<Prediction> &predictions,
                                    const std::vector<std::string> &programs, const PredictionLimits &limits) {
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
  double limit = limits.within * predictions.front().seconds;
  auto isWithin = [&](const Prediction &prediction) { return prediction.seconds <= limit; };
  auto numWithin = size_t(std::ranges::count_if(predictions, isWithin));
  numbers.resize(std::clamp<size_t>(std::min(numWithin, limits.most), 1, numbers.size()));
  return numbers;
}

} // namespace kolo::tools
