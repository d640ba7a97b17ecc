// Declarations of every pass; the order is Pipeline.cpp's.
#ifndef KOLO_COMPILER_PASSES_H
#define KOLO_COMPILER_PASSES_H

#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo {

/// On programs that have data signals only: those that Project makes, until InferHandshake has run.
inline constexpr char needsHandshakeName[] = "kolo.needs_handshake";

#define GEN_PASS_DECL
#include "compiler/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/Passes.h.inc"

} // namespace kolo

#endif
