// What the targets share when they lower a channel program: the walk over its ops, the values of the function at hand,
// and the positions of buffers. A target derives its own lowering from this.
#pragma once

#include "compiler/lower/ChunkLoops.h"
#include "ir/IndexArithmetic.h"
#include "targets/Values.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

#include <memory>

namespace kolo {

/// The author's statements in which a program waits, each once, in the order of the text. Generated code and the
/// manifest name a statement by its number here.
struct StatementTable {
  llvm::SmallVector<mlir::Location> locations;

  int64_t numberOf(mlir::Location location) const;
};

StatementTable collectStatements(ProgramOp program);

class ChannelLowering {
protected:
  /// Tables of kolo.lookup become constants in this address space, which must have room for large ones.
  explicit ChannelLowering(ProgramOp program, unsigned tableSpace = 0);
  ~ChannelLowering() = default;

  /// The values of the generated function at hand. A new function begins with a new frame.
  struct Frame {
    mlir::Value invocation;
    mlir::IRMapping mapping; // from values of the program
    CallValues call = {};
    std::unique_ptr<BlockTableReader> tables;   // of `call`, if the program takes any
    llvm::SmallVector<mlir::Value, 4> dimSizes; // of the mesh, of type index
    BufferLayout layout;
    llvm::DenseMap<mlir::Value, PlacedBuffer> buffers;
  };

  /// Lowers an op that each target lowers in its own way: reads of the call, buffers, moves, signals and waits.
  virtual void lowerOwn(mlir::Operation &op) = 0;
  /// Called where control flow meets: at the beginning of every region of a loop or condition, and behind the last.
  virtual void meetPaths() {}

  /// Clones a loop or a condition, and lowers the ops in it.
  virtual void lowerRegions(mlir::Operation &op);

  void lowerBlock(mlir::Block &block);
  void lowerOp(mlir::Operation &op);
  void placeBuffer(BufferOp buffer);

  const PlacedBuffer &bufferOf(mlir::Value buffer) const { return frame.buffers.find(buffer)->second; }
  /// Loops over the contiguous ranges of a move.
  void buildRanges(MoveInterface move, RangeBuilder build);
  /// Likewise over the slice of a fuse or of a division.
  template <typename SliceOp> void buildSliceRanges(SliceOp op, RangeBuilder build) {
    SliceValues slice = sliceOf(op.getBuffer(), op.getOffsets(), op.getSizes(), {}), written = slice;
    written.buffer.notes = {}; // they are there already
    buildRangeLoops(builder, loc, frame.call, slice, written, {mapped(op.getPart()), mapped(op.getParts())},
                    measureOf(op), build);
  }
  /// What stochastic codecs draw by, of type index: the number in the call of an element of a buffer, or of the one
  /// that a move begins with. The place in a slot says nothing about which element it is.
  mlir::Value elementNumber(const PlacedBuffer &buffer, mlir::Value begin);
  mlir::Value elementNumber(MoveInterface move, mlir::Value sourceBegin, mlir::Value destinationBegin);
  /// Number of ranks that the collective runs over: an average divides by it.
  mlir::Value groupSize();

  /// Null for null.
  mlir::Value mapped(mlir::Value value) { return value ? frame.mapping.lookupOrDefault(value) : mlir::Value(); }
  mlir::Value constant(int64_t value) { return createConstant(builder, loc, value); }
  mlir::Value integer(mlir::Value index) { return toInteger(builder, loc, index); }
  mlir::Value bytesOf(mlir::Value elements) { return createMul(builder, loc, elements, frame.call.elementBytes); }
  /// Bytes from the beginning of a buffer to an element or packet, of type index.
  mlir::Value bytesTo(const PlacedBuffer &buffer, mlir::Value number) {
    return createBytesTo(builder, loc, frame.call, buffer.shape, number);
  }

  ProgramOp program;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location loc;
  const StatementTable statements;
  Frame frame;

private:
  SliceValues sliceOf(mlir::Value buffer, mlir::OperandRange offsets, mlir::OperandRange sizes, mlir::Value rank);
  Measure measureOf(MoveInterface move);
  template <typename SliceOp> Measure measureOf(SliceOp op) {
    if (frame.call.tables)
      return *kolo::measureOf(program.getCollective().getKind(), op);
    return {MoveSide::Source, BufferRole::Input};
  }
  void lowerLookup(LookupOp lookup);
  const std::string &globalOf(mlir::DenseI64ArrayAttr table);

  const unsigned tableSpace;
  llvm::DenseMap<mlir::Attribute, std::string> tables; // names of their globals, by entries
};

} // namespace kolo
