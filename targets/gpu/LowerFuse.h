// The lowering of a fuse, inside of that of its program. Private to the pass LowerPrograms.
#pragma once

#include "compiler/lower/ChunkLoops.h"

#include "mlir/IR/IRMapping.h"

namespace kolo::gpu {

/// What the lowering of a fuse needs from the lowering of its program: the builder, in a function for this fuse alone,
/// and the values of that function.
struct FuseContext {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::IRMapping &mapping;
  mlir::Value elementBytes; // of the call, an index
  int64_t listEntries;      // addresses that a list holds; at least 2, with codecs at least 4
  /// Reads the call's type and reduction, i64, anew: loops over peers leave few registers to keep them in.
  llvm::function_ref<std::pair<mlir::Value, mlir::Value>()> readReduction;
  /// Loops over the contiguous ranges of a move, or of the slice of the fuse itself.
  llvm::function_ref<void(mlir::Operation *moveOrFuse, RangeBuilder build)> buildRanges;
  /// Address of an element of a buffer, in the memory of a peer, or of this rank for a null rank.
  llvm::function_ref<mlir::Value(mlir::Value buffer, mlir::Value rank, mlir::Value element)> addressOf;
  llvm::function_ref<void(mlir::Operation &)> lowerArithmetic;
  /// A codec's number in calls of kolo.convert.
  llvm::function_ref<int64_t(mlir::Value buffer)> codecNumber;
  /// What kolo.convert gets to draw by, from an element of the common chunk on; nothing where no codec is stochastic.
  llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value element)> drawKey;
  /// Number of ranks that an average divides by.
  llvm::function_ref<mlir::Value()> groupSize;
};

/// Builds the fuse as lists of addresses, and calls of the functions that work off the lists.
void lowerFuse(FuseOp fuse, const FuseContext &context);

} // namespace kolo::gpu
