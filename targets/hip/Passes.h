// Declarations of the hip target's pass.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo::hip {

#define GEN_PASS_DECL
#include "targets/hip/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "targets/hip/Passes.h.inc"

} // namespace kolo::hip
