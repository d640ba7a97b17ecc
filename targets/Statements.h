// The numbers by which generated code names the author's statements in error messages. Shared by the targets.
#ifndef KOLO_TARGETS_STATEMENTS_H
#define KOLO_TARGETS_STATEMENTS_H

#include "ir/Kolo.h"

namespace kolo {

/// The locations of a program's waits, each once, in the order of the text.
struct StatementTable {
  llvm::SmallVector<mlir::Location> locations;

  int64_t numberOf(mlir::Location location) const { return llvm::find(locations, location) - locations.begin(); }
};

inline StatementTable collectStatements(ProgramOp program) {
  StatementTable table;
  program.walk([&](WaitOp wait) {
    if (!llvm::is_contained(table.locations, wait.getLoc()))
      table.locations.push_back(wait.getLoc());
  });
  return table;
}

} // namespace kolo

#endif
