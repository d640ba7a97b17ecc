// What InferSynchronisation has found, so that it searches once for all depths of a pipeline. Exploration keeps one for
// all of its threads, so programs are kept as text.
#pragma once

#include "mlir/Pass/Pass.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace kolo {

struct InferSynchronisationOptions;

/// For several threads at once.
class InferenceMemory {
public:
  /// What was found for a program with this text; empty: it is too large for the search. Nothing: it is not known.
  std::optional<std::string> find(const std::string &program) {
    std::lock_guard lock(mutex);
    auto found = programs.find(program);
    return found == programs.end() ? std::nullopt : std::optional(found->second);
  }
  void add(std::string program, const std::string &synchronised) {
    std::lock_guard lock(mutex);
    programs.try_emplace(std::move(program), synchronised);
  }

private:
  std::mutex mutex;
  std::map<std::string, std::string> programs; // by their text before the search
};

/// The pass with a memory, which may be null. What it makes of a program does not depend on what is remembered.
std::unique_ptr<mlir::Pass> createInferSynchronisation(const InferSynchronisationOptions &options,
                                                       InferenceMemory *memory);

} // namespace kolo
