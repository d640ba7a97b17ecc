// The lowering of a fuse, inside of that of its program. Private to the pass LowerPrograms.
#pragma once

#include "compiler/lower/ChunkLoops.h"

#include "mlir/IR/IRMapping.h"

namespace kolo::gpu {

/// What the lowering of a program lends: its builder, in a function for this fuse alone, and what it knows there.
struct FuseContext {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::IRMapping &mapping;
  mlir::Value elementBytes; // of the call, an index
  int64_t listEntries;      // addresses that are gathered before they are used; at least 2
  /// The call's type and its reduction, i64, read anew: in loops over peers there are few registers to keep them in.
  llvm::function_ref<std::pair<mlir::Value, mlir::Value>()> readReduction;
  /// Loops over the contiguous ranges of a move, or of the slice of the fuse itself.
  llvm::function_ref<void(mlir::Operation *moveOrFuse, RangeBuilder build)> buildRanges;
  /// Of an element of a buffer, of a peer, or of this rank for null.
  llvm::function_ref<mlir::Value(mlir::Value buffer, mlir::Value rank, mlir::Value element)> addressOf;
  llvm::function_ref<void(mlir::Operation &)> lowerArithmetic;
  /// Ranks that an average is of.
  llvm::function_ref<mlir::Value()> groupSize;
};

/// Builds the fuse as lists of addresses and calls of what goes through memory once.
void lowerFuse(FuseOp fuse, const FuseContext &context);

} // namespace kolo::gpu
