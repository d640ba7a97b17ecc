// Declarations of every pass; the order is Pipeline.cpp's.
#pragma once

#include "compiler/Schedule.h"
#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo {

/// On programs that have data signals only: those that Project makes, until InferHandshake has run.
inline constexpr char needsHandshakeName[] = "kolo.needs_handshake";

/// On the ops at the top level of a program that Project made: the number of the choreography's statement or loop,
/// counted at its top level, that they come from. Until PlacePipeline has run.
inline constexpr char phaseName[] = "kolo.phase";

/// On the branches that PlacePipeline puts the phases into: the number of the phase. Until synchronisation has been
/// inferred.
inline constexpr char pipelinePhaseName[] = "kolo.pipeline_phase";

#define GEN_PASS_DECL
#include "compiler/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/Passes.h.inc"

} // namespace kolo
