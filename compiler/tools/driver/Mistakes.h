// What the compiler says of a program while it is compiled. Private to this folder.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <set>
#include <source_location>
#include <string>
#include <vector>

namespace kolo::tools {

/// Collects a context's diagnostics while it lives, sorted by place and without repetitions.
class Mistakes {
public:
  explicit Mistakes(mlir::MLIRContext &context);

  /// One that is not a diagnostic of the context.
  void add(const std::source_location &location, const std::string &message);
  bool isEmpty() const { return errors.empty(); }
  /// All errors; each with its notes, one line each, "file:line:column: error: message".
  std::string text() const;
  /// The lines of the warnings, without notes.
  std::vector<std::string> warnings() const;

private:
  struct Entry {
    std::string file;
    unsigned line, column;
    std::string message;
    std::vector<std::string> notes; // whole lines
    auto operator<=>(const Entry &) const = default;
  };
  static Entry makeEntry(mlir::Diagnostic &diagnostic);

  std::set<Entry> errors, warned;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kolo::tools
