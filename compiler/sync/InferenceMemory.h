// What InferSynchronisation has found, so that it searches once for all depths of a pipeline. Exploration keeps one for
// each context that it works in.
#pragma once

#include "ir/Kolo.h"

#include "mlir/Pass/Pass.h"

#include "llvm/ADT/StringMap.h"

namespace kolo {

struct InferSynchronisationOptions;

/// Programs of one context, which must outlive it. Not for several threads at once.
class InferenceMemory {
public:
  /// What was found for a program with this text; null: it is too large for the search. Nothing: it is not known.
  std::optional<ProgramOp> find(llvm::StringRef program) const {
    auto found = programs.find(program);
    return found == programs.end() ? std::nullopt : std::optional(found->second.get());
  }
  void add(llvm::StringRef program, mlir::OwningOpRef<ProgramOp> synchronised) {
    programs[program] = std::move(synchronised);
  }
  void clear() { programs.clear(); }

private:
  llvm::StringMap<mlir::OwningOpRef<ProgramOp>> programs; // by their text before the search
};

/// The pass with a memory, which may be null. What it makes of a program does not depend on what is remembered.
std::unique_ptr<mlir::Pass> createInferSynchronisation(const InferSynchronisationOptions &options,
                                                       InferenceMemory *memory);

} // namespace kolo
