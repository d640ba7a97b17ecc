// Declarations of the cuda target's pass.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo::cuda {

#define GEN_PASS_DECL
#include "targets/cuda/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "targets/cuda/Passes.h.inc"

} // namespace kolo::cuda
