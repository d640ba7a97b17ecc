// Which kernels a module's programs become. Used by LowerPrograms and by whoever lists a plugin's kernels.
#ifndef KOLO_TARGETS_GPU_VARIANTS_H
#define KOLO_TARGETS_GPU_VARIANTS_H

#include "ir/Kolo.h"
#include "targets/DeviceCode.h"
#include "targets/Elements.h"

#include "mlir/IR/BuiltinOps.h"

namespace kolo::gpu {

bool reduces(ProgramOp program);

/// In the order of the programs, types and reductions.
std::vector<DeviceKernel> listKernels(mlir::ModuleOp module, const DeviceOptions &options);

} // namespace kolo::gpu

#endif
