// The order of the compiler's passes, target-neutral part.
#pragma once

#include "compiler/Schedule.h"

#include "mlir/Pass/PassManager.h"

namespace kolo {

struct PipelineOptions {
  bool optimize = true; // false: required passes only
  Schedule schedule = {};
  bool check = true;     // false: whoever runs the pipeline checks the programs, and says what is wrong with them
  bool unproved = false; // true: a program that is not proved is marked as such instead of refused
  /// Of the check of one mesh, in bytes: see setBudget. The default takes a fraction of a second and is enough for 64
  /// ranks, for 32 where every rank may be the root. A mesh that would take more is replaced by a smaller one.
  int64_t budget = int64_t(1) << 20;
  bool sanitizeThread =
      false; // the target's code reports its accesses to the thread sanitizer of the process that runs it
};

/// From choreography form to channel form, synchronised and split over lanes; ready for any target.
void buildChannelPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Registers the pipeline as --kolo-to-channel.
void registerKoloPipelines();

} // namespace kolo
