// The order of the compiler's passes, target-neutral part.
#pragma once

#include "compiler/Schedule.h"

#include "mlir/Pass/PassManager.h"

namespace kolo {

class InferenceMemory;

struct PipelineOptions {
  ResolvedSchedule schedule = {};
  bool check = true;      // false: the caller checks the programs, and reports what is wrong with them
  bool isChecked = false; // true: the caller has checked the choreographies already
  bool unproved = false;  // true: mark a program that is not proved instead of refusing it
  /// Bytes that a check may take, and time in proportion: see setBudget. `meshBudget` is for a mesh itself, where small
  /// meshes predict that it suffices: some seconds, enough for 75,264 ranks where the program is symmetric. `budget` is
  /// for searches, and for the smaller mesh that represents any other one: a fraction of a second.
  int64_t budget = int64_t(1) << 16, meshBudget = int64_t(1) << 23;
  bool wantSteps = true;             // of a refutation; see CheckOptions
  InferenceMemory *memory = nullptr; // of inferred synchronisation, for callers that compile much that is alike
  bool sanitizeThread = false;       // true: the target's code reports its accesses to its process's thread sanitizer
};

/// From choreography form to channel form, synchronised and split over lanes, for any target. Programs in channel form
/// keep the synchronisation that their author wrote.
void buildChannelPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Its two parts: what changes choreographies, and from there to programs. Costs are found between them.
void buildChoreographyPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);
void buildProgramPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// The proof at the end of buildProgramPipeline, for a caller that gave a program other meshes after it.
void buildProof(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Registers the pipeline as --kolo-to-channel.
void registerKoloPipelines();

} // namespace kolo
