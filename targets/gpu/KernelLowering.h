// The lowering of one channel program to a kernel. Private to the pass LowerPrograms: LowerMoves.cpp does what moves
// data, LowerPrograms.cpp all the rest.
#pragma once

#include "compiler/lower/ChunkLoops.h"
#include "ir/IndexArithmetic.h"
#include "targets/Statements.h"
#include "targets/gpu/DeviceFunctions.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace kolo::gpu {

/// Nothing where there are no packets.
inline std::optional<PacketFormat> packetFormatOf(ProgramOp program) {
  for (auto buffer : program.getBody().getOps<BufferOp>())
    if (std::optional<PacketFormat> format = kolo::packetFormatOf(buffer))
      return format;
  return std::nullopt;
}

class KernelLowering {
public:
  KernelLowering(ProgramOp program, int64_t listEntries)
      : listEntries(listEntries), program(program), module(program->getParentOfType<mlir::ModuleOp>()),
        builder(program.getContext()), loc(program.getLoc()), statements(collectStatements(program)),
        hasPackets(packetFormatOf(program).has_value()) {}

  void run();

private:
  struct BufferValues {
    int64_t role;
    BufferShape shape;
    mlir::Value offset; // bytes from the role's base to this buffer, of type index
  };
  /// A slice on one side of a move.
  struct Side {
    SliceValues slice;
    mlir::Value begin; // where its buffer begins
  };
  /// What threads of the block may not have done yet with this rank's memory, as far as no barrier settled it.
  struct Unsettled {
    bool reads = false, writes = false;
  };

  std::string createRun();
  void readShape();
  void readCall();
  void lowerBlock(mlir::Block &block);
  void lowerOp(mlir::Operation &op);
  void lowerRegions(mlir::Operation &op);
  void lowerMove(MoveInterface move);
  void lowerReceive(MoveInterface move);
  void outline(mlir::Operation *op, bool mayFail, llvm::function_ref<void()> build);
  llvm::SmallVector<mlir::Operation *> arithmeticAbove(mlir::Operation *op, llvm::SetVector<mlir::Value> &passed);
  SliceValues sliceOf(mlir::Value buffer, mlir::OperandRange offsets, mlir::OperandRange sizes);
  Side sourceOf(MoveInterface move);
  Side destinationOf(MoveInterface move);
  mlir::Value beginOf(mlir::Value buffer, mlir::Value rank);
  mlir::Value addressIn(const Side &side, mlir::Value firstElement);
  void buildRange(MoveInterface move, mlir::Value from, mlir::Value to, mlir::Value length);
  mlir::Value callCounter();
  void startPackets();
  void placePackets();
  void endPackets();
  void lowerFuse(FuseOp fuse);
  void lowerDivide(DivideOp divide);
  mlir::Value groupSize();
  void lowerSignal(SignalOp signal);
  void lowerWait(WaitOp wait);
  void lowerLookup(LookupOp lookup);
  void addBuffer(BufferOp buffer);
  void settle(bool isNeeded);

  mlir::Value mapped(mlir::Value value) { return value ? mapping.lookupOrDefault(value) : mlir::Value(); }
  mlir::Value constant(int64_t value) { return createConstant(builder, loc, value); }
  mlir::Value integer(mlir::Value index) { return toInteger(builder, loc, index); }
  mlir::Value readField(size_t offset) { return load(builder, loc, builder.getI64Type(), invocation, int64_t(offset)); }
  mlir::Value field(size_t offset) {
    return toIndex(builder, loc, call(builder, loc, uniformFunction, {readField(offset)}));
  }
  mlir::Value pointerField(size_t offset) {
    return load(builder, loc, pointerType(builder), invocation, int64_t(offset));
  }
  mlir::Value primitive(llvm::StringRef name) { return toIndex(builder, loc, call(builder, loc, name)); }
  mlir::Value bytesOf(mlir::Value elements) { return createMul(builder, loc, elements, elementBytes); }
  /// Bytes to the place of an element, or of a packet.
  mlir::Value bytesTo(const BufferShape &buffer, mlir::Value number) {
    return buffer.packets ? createMul(builder, loc, number, constant(buffer.packets->bytes)) : bytesOf(number);
  }

  const int64_t listEntries;
  ProgramOp program;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location loc;
  StatementTable statements;
  mlir::IRMapping mapping;
  mlir::Value invocation, elementBytes, scratchEnd, type, reduction;
  // Of a program with packets: calls so far, what this one writes in its packets, elements from block to block of them,
  // and where the next buffer for them begins, in this call's turn.
  bool hasPackets;
  mlir::Value numCalls, sequence, packetStride, packetsEnd;
  CallValues callValues;
  llvm::SmallVector<mlir::Value, KOLO_MAX_MESH_DIMS> dimSizes, coordinates;
  mlir::Value lane, numLanes;
  llvm::DenseMap<mlir::Value, BufferValues> buffers;
  Unsettled unsettled;
  int numTables = 0, numMoves = 0;
};

} // namespace kolo::gpu
