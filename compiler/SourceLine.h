// The author's line that an op comes from. Used wherever messages or files name it.
#pragma once

#include "mlir/IR/Location.h"

#include <string>
#include <vector>

namespace kolo {

/// A line of C++ or of textual IR.
struct SourceLine {
  std::string file = "?";
  unsigned line = 0, column = 0;
  bool operator==(const SourceLine &) const = default;
};

/// The first line in a location; the default, "?", if it has none.
SourceLine sourceLineOf(mlir::Location location);

/// The lines that called the building blocks that a location is in, innermost first; none outside of building blocks.
std::vector<SourceLine> callersOf(mlir::Location location);

} // namespace kolo
