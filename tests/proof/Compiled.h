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
  std::string text() const;
};

/// One that `resolve` takes. With the same `guessBudget` and `budget` as by default, or less.
CompileSetup randomSetup(uint64_t seed);

class Compiled {
public:
  Compiled(mlir::MLIRContext &context, const dsl::Definition &definition, const Sizes &mesh, const CompileSetup &setup);
  /// Whether runChannelPipeline took it.
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

/// Of a program that is called proved. It fails the test unless the proof is of the mesh itself, the checker proves it
/// there without limits, the oracle of the checker finds nothing, and the reference interpreter gives the right result
/// in so many interleavings.
void expectProved(ProgramOp program, const Sizes &mesh, int64_t numInterleavings);

} // namespace kolo::proof
