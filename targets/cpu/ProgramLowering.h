// The lowering of one channel program to functions over the plugin ABI. Private to the pass LowerMoves: LowerFuse.cpp
// does what has a chunk in common, LowerMoves.cpp all the rest.
#pragma once

#include "compiler/lower/ChunkLoops.h"
#include "ir/IndexArithmetic.h"
#include "targets/Statements.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

namespace kolo::cpu {

class ProgramLowering {
public:
  explicit ProgramLowering(ProgramOp program)
      : program(program), module(program->getParentOfType<mlir::ModuleOp>()), builder(program.getContext()),
        loc(program.getLoc()), statements(collectStatements(program)),
        reduces(program.walk([](ChannelReduceOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted()) {}

  mlir::LogicalResult run();

private:
  struct BufferValues {
    int64_t role;
    BufferShape shape;
    mlir::Value base;   // this rank's memory; null pointer where it has none
    mlir::Value offset; // bytes from the role's base to this buffer, of type index
  };

  void startFunction(const std::string &name, mlir::Type result);
  void forgetFunction();
  void lowerRun();
  void lowerPublish();
  mlir::LogicalResult lowerBytes(BufferRole role, const std::string &name);
  mlir::LogicalResult cloneShapeArithmetic(mlir::Value value);
  BufferShape shapeOf(BufferOp buffer);
  mlir::Value createSize(BufferRole role, const BufferShape &shape);
  void lowerBlock(mlir::Block &block);
  void lowerOp(mlir::Operation &op);
  void lowerRegions(mlir::Operation &op);
  void lowerMove(MoveInterface move);
  void lowerDivide(DivideOp divide);
  void lowerFuse(FuseOp fuse);
  void lowerSignal(SignalOp signal);
  void lowerWait(WaitOp wait);
  void lowerLookup(LookupOp lookup);
  void addBuffer(BufferOp buffer);
  bool hasBuffers(BufferRole role);

  mlir::Value mapped(mlir::Value value) { return value ? mapping.lookupOrDefault(value) : mlir::Value(); }
  SliceValues sliceOf(mlir::Value buffer, mlir::OperandRange offsets, mlir::OperandRange sizes);
  mlir::Value constant(int64_t value) { return createConstant(builder, loc, value); }
  mlir::Value integer(mlir::Value index) { return toInteger(builder, loc, index); }
  void call(llvm::StringRef name, mlir::ValueRange arguments) {
    mlir::LLVM::CallOp::create(builder, loc, mlir::TypeRange(), name, arguments);
  }
  /// Elements in 16 bytes.
  mlir::Value createAlignment() { return mlir::arith::DivUIOp::create(builder, loc, constant(16), elementBytes); }
  mlir::Value bytesOf(mlir::Value elements) { return createMul(builder, loc, elements, elementBytes); }
  mlir::Value addressOf(const BufferValues &buffer, mlir::Value firstElement) {
    return advance(builder, loc, buffer.base, byteOffset(buffer, firstElement));
  }
  mlir::Value byteOffset(const BufferValues &buffer, mlir::Value firstElement) {
    return integer(createAdd(builder, loc, buffer.offset, bytesTo(buffer.shape, firstElement)));
  }
  /// Bytes to the place of an element, or of a packet.
  mlir::Value bytesTo(const BufferShape &buffer, mlir::Value number) {
    return buffer.packets ? createMul(builder, loc, number, constant(buffer.packets->bytes)) : bytesOf(number);
  }

  mlir::Value storesNonTemporal(const BufferValues &destination);
  /// Ranks that an average is of.
  mlir::Value groupSize();

  // LowerFuse.cpp
  struct FusedLists;
  void lowerFusedRange(FuseOp fuse, mlir::Value begin, mlir::Value length);
  void moveListed(const FusedLists &made, mlir::Value length);
  void listMove(MoveInterface move);
  mlir::Value createVariable();
  mlir::Value load(mlir::Value variable);
  void store(mlir::Value variable, mlir::Value value);
  void append(mlir::Value list, mlir::Value number, mlir::Value address);

  ProgramOp program;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location loc;
  StatementTable statements;
  bool reduces;
  mlir::IRMapping mapping;
  mlir::Value invocation, elementBytes, packetStride, numLanes;
  llvm::SmallVector<mlir::Value, KOLO_NUM_BUFFER_ROLES> ends; // by role: where the next buffer begins
  CallValues callValues;
  llvm::SmallVector<mlir::Value, KOLO_MAX_MESH_DIMS> dimSizes;
  llvm::SmallVector<mlir::Value, 2> blockElements; // of input and output
  llvm::DenseMap<mlir::Value, BufferValues> buffers;
  int numTables = 0;
  FusedLists *lists = nullptr; // while the moves of a fuse are being listed
};

} // namespace kolo::cpu
