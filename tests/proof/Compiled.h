// A choreography as the compiler's channel pipeline packs it, and whether what it calls proved is so. Used by the tests
// of this folder.
#pragma once

#include "tests/support/Algorithms.h"

#include "compiler/Pipeline.h"
#include "compiler/check/Verdict.h"

namespace kolo::proof {

using test::Sizes;

/// How a choreography is compiled.
struct CompileSetup {
  Schedule schedule = {};
  Setting setting = {};
  bool usesNetwork = false; // along the first dimension
  int64_t guessBudget = 0;  // as of PipelineOptions
  int64_t budget = PipelineOptions().budget;
  bool represented = false; // as of PipelineOptions
  bool isOnlyGuess = false; // what guesses find is not confirmed, and nothing is proved
  std::string text() const;
};

/// One that `resolve` takes. With the same `guessBudget` and `budget` as by default, or less.
CompileSetup randomSetup(uint64_t seed);

class Compiled {
public:
  Compiled(mlir::MLIRContext &context, const dsl::Definition &definition, const Sizes &mesh, const CompileSetup &setup);
  /// Whether the pipeline took it.
  bool isAccepted() const { return accepted; }
  /// The diagnostics.
  const std::string &said() const { return diagnostics; }
  ProgramOp operator*() { return *module->getOps<ProgramOp>().begin(); }

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
  bool accepted = false;
  std::string diagnostics;
};

/// Of the mesh itself, with all slices, without limits.
CheckOptions withoutLimits(ProgramOp program);

/// Why a program is not what "proved" says, in words; empty if there is no doubt. Asks whether its proof is of the mesh
/// itself, the checker without limits, its run with every rank by itself, and the reference interpreter in so many
/// interleavings.
std::vector<std::string> doubtsAbout(ProgramOp program, const Sizes &mesh, int64_t numInterleavings);

} // namespace kolo::proof
