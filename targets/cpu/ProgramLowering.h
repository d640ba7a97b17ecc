// The lowering of one channel program to functions over the plugin ABI. Private to the pass LowerMoves: LowerFuse.cpp
// lowers fuses, LowerMoves.cpp all the rest.
#pragma once

#include "targets/ChannelLowering.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kolo::cpu {

/// The tables of a KoloInvocation.
class InvocationTables final : public BlockTableReader {
public:
  InvocationTables(mlir::Value invocation, bool takesRows) : invocation(invocation), takesRows(takesRows) {}
  mlir::Value isGiven(mlir::OpBuilder &builder, mlir::Location loc) const override;
  mlir::Value hasRows(mlir::OpBuilder &builder, mlir::Location loc) const override;
  mlir::Value count(mlir::OpBuilder &builder, mlir::Location loc, BufferRole role, mlir::Value block) const override;
  mlir::Value place(mlir::OpBuilder &builder, mlir::Location loc, BufferRole role, mlir::Value rank,
                    mlir::Value block) const override;
  mlir::Value noted(mlir::OpBuilder &builder, mlir::Location loc, const NumbersPlace &place) const override;
  void note(mlir::OpBuilder &builder, mlir::Location loc, const NumbersPlace &from, const NumbersPlace &to,
            mlir::Value number) const override;

private:
  mlir::Value addressOf(mlir::OpBuilder &builder, mlir::Location loc, const NumbersPlace &place) const;

  mlir::Value invocation;
  bool takesRows;
};

class ProgramLowering : ChannelLowering {
public:
  explicit ProgramLowering(ProgramOp lowered) : ChannelLowering(lowered) {}

  mlir::LogicalResult run();

private:
  void startFunction(const std::string &name, mlir::Type result);
  void lowerRun();
  void lowerPublish();
  mlir::LogicalResult lowerBytes(BufferRole role, const std::string &name);
  mlir::LogicalResult cloneShapeArithmetic(mlir::Value value);
  void lowerOwn(mlir::Operation &op) override;
  void lowerMove(MoveInterface move);
  void lowerRows(MoveInterface move, mlir::Value sourceBegin, mlir::Value destinationBegin, mlir::Value length);
  /// Where a conversion finds elements in this rank's memory if not at their places; null: there.
  struct ConvertedPlaces {
    mlir::Value source, destination;
  };
  void lowerConversion(MoveInterface move, mlir::Value sourceBegin, mlir::Value destinationBegin, mlir::Value length,
                       const ConvertedPlaces &aside);
  /// A rank of a move, this one for null, i64.
  mlir::Value holderOf(mlir::Value rank);
  void lowerDivide(DivideOp divide);
  void lowerFuse(FuseOp fuse);
  void lowerSignal(SignalOp signal);
  void lowerWait(WaitOp wait);
  void addBuffer(BufferOp buffer);

  InvocationAccess access() { return {builder, loc, frame.invocation}; }
  void call(llvm::StringRef name, mlir::ValueRange arguments) {
    mlir::LLVM::CallOp::create(builder, loc, mlir::TypeRange(), name, arguments);
  }
  /// See CallValues.
  mlir::Value createAlignment() {
    if (findCoded(program))
      return constant(codec::granule);
    return mlir::arith::DivUIOp::create(builder, loc, constant(16), frame.call.elementBytes);
  }
  /// In this rank's memory; `number` counts elements, or packets.
  mlir::Value addressOf(mlir::Value buffer, mlir::Value number) {
    return advance(builder, loc, bases.lookup(buffer), byteOffset(bufferOf(buffer), number));
  }
  mlir::Value byteOffset(const PlacedBuffer &buffer, mlir::Value number) {
    return integer(createAdd(builder, loc, buffer.offset, bytesTo(buffer, number)));
  }
  mlir::Value storesNonTemporal(const PlacedBuffer &destination);

  // LowerFuse.cpp
  struct FusedLists;
  void lowerFusedRange(FuseOp fuse, mlir::Value begin, mlir::Value length);
  void moveListed(const FusedLists &made, mlir::Value length);
  void convertListed(const FusedLists &made, mlir::Value begin, mlir::Value length);
  void listMove(MoveInterface move);
  void listPut(MoveInterface move);
  void increase(mlir::Value variable, mlir::Value number);
  mlir::Value createVariable();
  mlir::Value load(mlir::Value variable);
  void store(mlir::Value variable, mlir::Value value);
  void append(mlir::Value list, mlir::Value number, mlir::Value address, const codec::Codec &codec);

  llvm::DenseMap<mlir::Value, mlir::Value> bases; // by buffer: this rank's memory of its role, null where it has none
  FusedLists *lists = nullptr;                    // while the moves of a fuse are being listed
};

/// Makes peersFunctionName of a program that uses a staged network.
mlir::LogicalResult lowerPeers(ProgramOp program);

} // namespace kolo::cpu
