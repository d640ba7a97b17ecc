// From slices of chunks to contiguous ranges of elements, as loops in IR. Shared by all targets.
#pragma once

#include "compiler/lower/BufferLayout.h"
#include "ir/BlockTables.h"

namespace kolo {

/// A slice of a buffer, as values of type index.
struct SliceValues {
  BufferShape buffer;
  llvm::SmallVector<mlir::Value> offsets, sizes;
  BufferRole role = BufferRole::Scratch;
  mlir::Value rank = {}; // whose buffer it is; null: this one's
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
/// slots. `measure`: where a call with tables says how long a chunk is. The side of a table has no slots. Where the
/// destination has notes, the lengths are noted there before.
void buildRangeLoops(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call, const SliceValues &source,
                     const SliceValues &destination, const PartValues &part, const Measure &measure,
                     RangeBuilder build);

} // namespace kolo
