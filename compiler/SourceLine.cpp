#include "compiler/SourceLine.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace kolo {

SourceLine sourceLineOf(mlir::Location location) {
  auto place = location->findInstanceOf<mlir::FileLineColLoc>();
  if (!place)
    return {};
  return {place.getFilename().str(), place.getLine(), place.getColumn()};
}

std::vector<SourceLine> callersOf(mlir::Location location) {
  std::vector<SourceLine> callers;
  for (auto call = location->findInstanceOf<mlir::CallSiteLoc>(); call;
       call = llvm::dyn_cast<mlir::CallSiteLoc>(call.getCaller()))
    callers.push_back(sourceLineOf(call.getCaller()));
  return callers;
}

} // namespace kolo
