// Declarations of every pass; the order is Pipeline.cpp's.
#pragma once

#include "compiler/Schedule.h"
#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kolo {

/// On programs that have data signals only: from Project until InferHandshake or InferSynchronisation.
inline constexpr char needsHandshakeName[] = "kolo.needs_handshake";

/// On the top-level ops of a program that Project made: the number of the statement or loop, among those at the top
/// level of the choreography, that they come from. From Project until PlacePipeline.
inline constexpr char phaseName[] = "kolo.phase";

/// On the branches into which PlacePipeline puts the phases: the number of the phase. From PlacePipeline until
/// InferHandshake or InferSynchronisation.
inline constexpr char pipelinePhaseName[] = "kolo.pipeline_phase";

#define GEN_PASS_DECL
#include "compiler/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/Passes.h.inc"

} // namespace kolo
