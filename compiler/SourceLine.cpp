#include "compiler/SourceLine.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace kolo {

SourceLine sourceLineOf(mlir::Location location) {
  auto place = location->findInstanceOf<mlir::FileLineColLoc>();
  if (!place)
    return {};
  return {place.getFilename().str(), place.getLine(), place.getColumn()};
}

} // namespace kolo
