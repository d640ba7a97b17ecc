// What the compiler says of a program while it is compiled. Private to this folder.
#pragma once

#include "compiler/check/ShowVerdict.h"

#include "mlir/IR/Diagnostics.h"

#include <set>
#include <source_location>
#include <string>
#include <vector>

namespace kolo::tools {

/// "file:line:column: KIND: MESSAGE".
std::string lineAt(mlir::Location location, const char *kind, const std::string &message);

/// The lines below an error: the calls of the building blocks that it is in, innermost first, then its notes. The calls
/// of a note's building blocks follow it where they are not those of the error.
std::vector<std::string> noteLines(mlir::Location error, llvm::ArrayRef<Remark> notes);

/// Collects a context's diagnostics while it lives, sorted by place and without repetitions.
class Mistakes {
public:
  explicit Mistakes(mlir::MLIRContext &context);

  /// One that is not a diagnostic of the context, in building blocks that these lines called, innermost first.
  void add(const std::source_location &location, const std::string &message,
           const std::vector<std::source_location> &callers = {});
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
