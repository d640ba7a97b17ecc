// From slices of chunks to contiguous ranges of elements, as loops in IR. Shared by all targets.
#pragma once

#include "compiler/lower/BufferLayout.h"

namespace kolo {

/// A slice of a buffer, as values of type index.
struct SliceValues {
  BufferShape buffer;
  llvm::SmallVector<mlir::Value> offsets, sizes;
};

/// One part of every chunk; both null: all of it.
struct PartValues {
  mlir::Value part, parts;
};

/// Builds the move of one range, at the builder's position. The beginnings are elements of the source's and of the
/// destination's buffer, or packets of a buffer of packets; `length` counts elements and may be 0. To and from packets,
/// a range is at most one chunk.
using RangeBuilder = llvm::function_ref<void(mlir::OpBuilder &, mlir::Value sourceBegin, mlir::Value destinationBegin,
                                             mlir::Value length)>;

/// Builds loops over contiguous ranges, which together cover the paired chunks of two slices. Chunks that follow each
/// other in both buffers are one range, unless parts cut them or blocks lie apart. At most one of the buffers has
/// slots.
void buildRangeLoops(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call, const SliceValues &source,
                     const SliceValues &destination, const PartValues &part, RangeBuilder build);

} // namespace kolo
