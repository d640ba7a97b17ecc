// What InferSynchronisation does with a program once its credits are chosen: drops what the proof does not need, and
// moves the ends of transfers.
#pragma once

#include "compiler/check/Verdict.h"
#include "compiler/sync/PlaceCredit.h"

namespace kolo {

/// The checker, on all meshes that a program is compiled for: on the smallest first, where a counterexample is found
/// soonest.
class MeshChecks {
public:
  MeshChecks(ProgramOp program, const CheckOptions &options);
  /// Why the program is not proved: a refutation, with its places, or that the limits leave it undecided.
  std::optional<Verdict> explain(ProgramOp program) { return findUnproved(program, options); }
  /// The same, soonest, without places.
  std::optional<Verdict> findAny(ProgramOp program) { return findUnproved(program, soon); }
  bool isProved(ProgramOp program) { return !findAny(program); }
  ReducibleProgram reduce(ProgramOp program);
  /// Whether the limits sufficed for all that was asked. If not, more synchronisation may be left than is needed.
  bool hasFollowed() const { return isFollowed; }

private:
  std::optional<Verdict> findUnproved(ProgramOp program, const CheckOptions &wanted);

  const CheckOptions &options;
  CheckOptions soon; // the same, for changes of which only the answer counts
  std::vector<llvm::SmallVector<int64_t>> meshes;
  bool isFollowed = true;
};

/// Puts the body of one program into another.
void replaceBody(ProgramOp program, ProgramOp other);

enum class WaitsMove { Last, First };
struct EndPlaces;

/// Of a program that is proved.
class Settling {
public:
  Settling(ProgramOp program, MeshChecks &checks) : program(program), checks(checks) {}
  /// Waits that move first may need a credit that they would make redundant where they were.
  void run(WaitsMove order);

  size_t numMoved = 0;     // waits
  bool keepsWaits = false; // in a pipeline: data of some transfer is waited for in the phase that sends it

private:
  using Part = llvm::SmallVector<mlir::Operation *, 4>;
  void runPipeline();
  void elide();
  llvm::SmallVector<bool> elideParts(llvm::ArrayRef<Part> parts, size_t numAtOnce);
  void elideFlushes(bool keepsLast);
  void elideSignals();
  size_t moveEnds(const EndPlaces &places);
  size_t deferWaits();
  void reorderPhases();
  bool tryChange(llvm::function_ref<bool(ProgramOp changed)> change);

  ProgramOp program;
  MeshChecks &checks;
};

} // namespace kolo
