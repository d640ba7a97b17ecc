// The checker's verdict on one mesh and one root.
#pragma once

#include "compiler/check/SliceInduction.h"
#include "compiler/check/VectorClockRun.h"
#include "compiler/check/Verdict.h"

namespace kolo {

/// One run: one mesh, one root, in place or not.
class ProgramCheck {
public:
  /// With `few`, the program has few slices of that pipeline, and is only proved if its proof stands for more.
  ProgramCheck(Code &code, llvm::ArrayRef<int64_t> mesh, int64_t root, bool isInPlace, const CheckOptions &options,
               const SlicePipeline *few = nullptr)
      : tracer(code, mesh, root, isInPlace), options(options), isInPlace(isInPlace), few(few) {}

  void run(Verdict &verdict);
  /// After a run that proved the program: whether it is refuted without these flushes, and signals and waits.
  bool isRefutedWithout(const llvm::SmallPtrSetImpl<mlir::Operation *> &ops);

private:
  bool isTooLarge(Verdict &verdict);
  bool checkBalance();
  void follow(Verdict &verdict);
  void followTerms(VectorClockResult &result, Verdict &verdict);
  std::string needsMoreSteps() const;
  std::string needsMoreMemory() const;
  std::string describe(const Tracer::End &end) const;
  std::string describe(const EndedEarly &ended) const;
  std::string rootOf() const;
  void explain(const VectorClockResult &result);
  void name(const VectorClockResult &result);
  void explainConflict(const std::vector<Conflict> &conflicts);
  void explainDeadlock(const std::vector<Blocked> &blocked);
  void explainOutput(const WrongOutput &wrong);
  void explainBits(const OtherBits &bits);
  void explainOrder(const VectorClockResult &result);
  std::string describeChunk(int64_t owner, uint32_t buffer, int64_t chunk) const;
  Refutation &refute(Property property, std::string message, mlir::Operation *op);

  Tracer tracer;
  const CheckOptions options;
  bool isInPlace;
  const SlicePipeline *few;
  std::optional<TracedGroup> traced;
  std::optional<TracedGroup> fewer; // the same, without some steps
  std::optional<Refutation> refutation;
};

} // namespace kolo
