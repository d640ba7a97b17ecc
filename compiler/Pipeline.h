// The order of the compiler's passes, target-neutral part.
#ifndef KOLO_COMPILER_PIPELINE_H
#define KOLO_COMPILER_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace kolo {

struct PipelineOptions {
  bool optimize = true; // false: required passes only
  int64_t slices = 1;   // of every chunk, that go through the phases of the program one behind the other
};

/// From choreography form to channel form, synchronised and split over lanes; ready for any target.
void buildChannelPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Registers the pipeline as --kolo-to-channel.
void registerKoloPipelines();

} // namespace kolo

#endif
