// Declarations of every pass; the order is Pipeline.cpp's.
#pragma once

#include "compiler/Schedule.h"
#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo {

#define GEN_PASS_DECL
#include "compiler/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/Passes.h.inc"

} // namespace kolo
