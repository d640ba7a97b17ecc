// Chooses the mesh that a program is checked on: the mesh that was asked for, if small ones show that the budget
// suffices, else none or, if another may represent it, the largest within a part of the budget. Used by the checker.
#pragma once

#include "compiler/check/Verdict.h"

namespace kolo {

class MeshChoice {
public:
  /// Checks one mesh with a part of the budget, or a multiple. The verdict's `share` is of what was allowed.
  using Check = llvm::function_ref<Verdict(llvm::ArrayRef<int64_t> mesh, double part)>;

  MeshChoice(llvm::ArrayRef<int64_t> mesh, llvm::ArrayRef<bool> mayShrink, const CheckOptions &options, Check check);
  Verdict run();

private:
  enum class Climb { ReachedWhole, Measured, Unknown };
  Climb climb();
  Verdict runOnItself();
  Verdict runOnStandIn();
  Verdict refuse(double share) const;
  double predict(size_t place) const;
  Verdict checkStandIn(size_t place);

  std::vector<llvm::SmallVector<int64_t>> chain; // the mesh itself, then each one half as large
  const CheckOptions &options;
  double standInPart, probePart;
  Check check;
  size_t lowest = 0;          // place in the chain of the smallest mesh that was measured
  std::vector<double> shares; // of the whole budget, from that mesh up
  std::optional<Verdict> last;
};

} // namespace kolo
