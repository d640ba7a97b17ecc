// Declarations of the passes that all device targets share; the order is GpuPipeline.cpp's.
#pragma once

#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo::gpu {

#define GEN_PASS_DECL
#include "targets/gpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "targets/gpu/Passes.h.inc"

} // namespace kolo::gpu
