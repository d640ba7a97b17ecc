// Where an op comes from, as people read it. Used wherever messages or files name the author's lines.
#pragma once

#include "mlir/IR/Location.h"

#include <string>

namespace kolo {

/// A line of C++ or of textual IR.
struct SourceLine {
  std::string file = "?";
  unsigned line = 0, column = 0;
};

/// The first place that a location knows of; the default, "?", when it knows none.
SourceLine sourceLineOf(mlir::Location location);

} // namespace kolo
