// Declarations of the cpu target's passes; the order is CpuPipeline.cpp's.
#pragma once

#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo::cpu {

#define GEN_PASS_DECL
#include "targets/cpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "targets/cpu/Passes.h.inc"

} // namespace kolo::cpu
