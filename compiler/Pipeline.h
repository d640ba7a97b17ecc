// The order of the compiler's passes, target-neutral part.
#pragma once

#include "compiler/Schedule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace kolo {

class InferenceMemory;

struct PipelineOptions {
  ResolvedSchedule schedule = {};
  bool check = true;      // false: the caller checks the programs, and reports what is wrong with them
  bool isChecked = false; // true: the caller has checked the choreographies already
  bool unproved = false;  // true: mark a program that is not proved instead of refusing it
  /// Bytes that the proof of a mesh may take, and time in proportion: see setBudget. Beyond, the program is refused,
  /// unless a smaller mesh may represent the mesh, which takes a fraction of a second.
  int64_t budget = int64_t(1) << 31, standInBudget = int64_t(1) << 20;
  bool represented = false;
  /// Passes that ask the checker what a program may do without: true: ask about the meshes themselves. False: ask about
  /// small meshes, for a caller that proves the program afterwards, as runChannelPipeline does.
  bool searchesInFull = false;
  int64_t guessBudget = 0;           // bytes that the first guess of such a pass may take; 0: as each pass has it
  bool wantSteps = true;             // of a refutation; see CheckOptions
  InferenceMemory *memory = nullptr; // of inferred synchronisation, for callers that compile much that is alike
  bool sanitizeThread = false;       // true: the target's code reports its accesses to its process's thread sanitizer
};

/// From choreography form to channel form, synchronised and split over lanes, for any target. Programs in channel form
/// keep the synchronisation that their author wrote. What small meshes show is a guess: where the proof refutes it, the
/// module is compiled again, with searches in full. Diagnostics are those of the run that counts.
mlir::LogicalResult runChannelPipeline(mlir::ModuleOp module, const PipelineOptions &options);

/// The passes of one such run.
void buildChannelPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Its two parts: what changes choreographies, and from there to programs. Costs are found between them.
void buildChoreographyPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);
void buildProgramPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// The proof at the end of buildProgramPipeline, for a caller that gave a program other meshes after it.
void buildProof(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Registers the pipeline as --kolo-to-channel.
void registerKoloPipelines();

} // namespace kolo
