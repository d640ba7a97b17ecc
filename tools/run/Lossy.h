// Checks of programs whose buffers have codecs: ordinary data, the outputs that the reference interpreter gives for it,
// and how far these are from the exact result.
#pragma once

#include "tools/run/Loss.h"
#include "tools/run/RankRunner.h"

#include "mlir/IR/MLIRContext.h"

namespace kolo::tools {

/// The checked call of every size of a job.
class LossyCalls {
public:
  /// Interprets them, which takes far longer than running them. Throws ToolError; Refused where an element is further
  /// from the exact result than the checker proved.
  explicit LossyCalls(const RankJob &job);

  /// Whether the program of a size has codecs. Only of these sizes:
  bool isFor(size_t size) const { return calls[size].has_value(); }
  void fillInput(size_t size, int rank, void *input) const;
  /// What is wrong with the first byte that is not as the reference has it.
  std::optional<std::string> check(size_t size, int rank, const void *output) const;
  /// Of a size that `isFor`.
  const Loss &lossOf(size_t size) const { return losses[size]; }

private:
  std::unique_ptr<mlir::MLIRContext> context;                 // of the calls' collectives
  std::vector<std::optional<reference::SimulatedCall>> calls; // with outputs
  std::vector<Loss> losses;
};

} // namespace kolo::tools
