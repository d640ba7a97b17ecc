// From slices of chunks to contiguous ranges of elements, as loops in IR. Shared by all targets.
#pragma once

#include "compiler/lower/PacketFormat.h"
#include "ir/Kolo.h"

#include <optional>

namespace kolo {

/// The shape of a buffer, as values of type index.
struct BufferShape {
  llvm::SmallVector<mlir::Value> grid;
  unsigned numBlockDims;   // leading grid dimensions that enumerate blocks
  mlir::Value cut;         // of slots: number of chunks of the blocks whose chunks they hold; else null
  mlir::Value stride = {}; // elements from one block to the next; null: as many as a block has
  std::optional<PacketFormat> packets = {}; // then places in it are packets, not elements: see createNumPackets
};

/// Nothing where the buffer holds elements.
std::optional<PacketFormat> packetFormatOf(BufferOp buffer);

/// A slice of a buffer, with all of its numbers at hand.
struct SliceValues {
  BufferShape buffer;
  llvm::SmallVector<mlir::Value> offsets, sizes;
};

/// One part of every chunk; both null: all of it.
struct PartValues {
  mlir::Value part, parts;
};

/// Sizes that are the same for all buffers of a call, of type index.
struct CallValues {
  mlir::Value count;        // elements per block
  mlir::Value alignment;    // elements in 16 bytes
  mlir::Value isDense = {}; // i1: no buffer has other strides than blocks are long; null: always
};

/// Called with the builder where one range is to be moved: first element in the source's and in the destination's
/// buffer, or first packet, and number of elements, which may be 0. Into packets, and out of them, a range is at most
/// one chunk.
using RangeBuilder = llvm::function_ref<void(mlir::OpBuilder &, mlir::Value sourceBegin, mlir::Value destinationBegin,
                                             mlir::Value length)>;

/// Builds loops over contiguous ranges that together are the paired chunks of two slices. Chunks that follow each other
/// in both buffers are one range, unless parts cut them or blocks lie apart. At most one of the buffers has slots.
void buildRangeLoops(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call, const SliceValues &source,
                     const SliceValues &destination, const PartValues &part, RangeBuilder build);

/// Packets that a buffer of them takes: as many as its data fills, rounded down, and one for every part of every chunk,
/// which says that the part has arrived though it be empty, or takes the end of its data. The packets of a part begin
/// at those that the data before it fills, and one for every part before it: no two parts have one in common, since a
/// part of x packets' data, from the data of b packets on, has max(1, ceil(x)) <= floor(b + x) - floor(b) + 1.
mlir::Value createNumPackets(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                             const BufferShape &buffer, mlir::Value parts);

/// Elements from one block of packets to the next: a block begins with a packet of its own.
mlir::Value createPacketStride(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call);

/// Number of elements that a buffer takes, which need not be a multiple of 16 bytes.
mlir::Value createNumElements(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                              const BufferShape &buffer);

} // namespace kolo
