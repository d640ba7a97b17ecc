// The numbers by which generated code names the author's statements in error messages. Shared by the targets.
#pragma once

#include "ir/Kolo.h"

namespace kolo {

/// The locations of what a program waits in, each once, in the order of the text.
struct StatementTable {
  llvm::SmallVector<mlir::Location> locations;

  int64_t numberOf(mlir::Location location) const { return llvm::find(locations, location) - locations.begin(); }
};

inline StatementTable collectStatements(ProgramOp program) {
  StatementTable table;
  program.walk([&](mlir::Operation *op) {
    auto move = llvm::dyn_cast<MoveInterface>(op);
    auto source = move ? move.getSource().getDefiningOp<BufferOp>() : BufferOp();
    bool isWaiting = llvm::isa<WaitOp>(op) || (source && source.getRole() == BufferRole::Packets);
    if (isWaiting && !llvm::is_contained(table.locations, op->getLoc()))
      table.locations.push_back(op->getLoc());
  });
  return table;
}

} // namespace kolo
