// The author's line that an op comes from. Used wherever messages or files name it.
#pragma once

#include "mlir/IR/Location.h"

#include <string>

namespace kolo {

/// A line of C++ or of textual IR.
struct SourceLine {
  std::string file = "?";
  unsigned line = 0, column = 0;
};

/// The first line in a location; the default, "?", if it has none.
SourceLine sourceLineOf(mlir::Location location);

} // namespace kolo
