// Checks of programs whose buffers have codecs: ordinary data, the outputs that the reference interpreter gives for it,
// and how far these are from the exact result.
#pragma once

#include "driver/RankRunner.h"

#include "ir/reference/SimulatedCall.h"

#include "mlir/IR/MLIRContext.h"

namespace kolo::tools {

/// How far the outputs of all ranks are from the exact result, which is computed in f64.
struct Loss {
  double worstError = 0;    // |error| over the largest magnitude, on any rank, of the inputs around the element
  double signalToNoise = 0; // 10 log10 of the sums of squares; infinite where nothing is lost
};

/// The checked call of every size of a job.
class LossyCalls {
public:
  /// Interprets them, which takes far longer than running them. Throws ToolError.
  explicit LossyCalls(const RankJob &job);

  /// Whether the program of a size has codecs. Only of these sizes:
  bool isFor(size_t size) const { return calls[size].has_value(); }
  void fillInput(size_t size, int rank, void *input) const;
  /// What is wrong with the first byte that is not as the reference has it.
  std::optional<std::string> check(size_t size, int rank, const void *output) const;
  Loss lossOf(size_t size) const;

private:
  std::unique_ptr<mlir::MLIRContext> context;                 // of the calls' collectives
  std::vector<std::optional<reference::SimulatedCall>> calls; // with outputs
};

} // namespace kolo::tools
