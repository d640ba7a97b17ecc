// Splits a statement into two: one moves data into memory of its own, the other from there to its destination. Used by
// PlaceStaging, PlacePackets and PlaceSlots.
#pragma once

#include "compiler/project/Relations.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kolo {

/// Whether, in a transfer, a rank receives from many along a mesh dimension.
inline bool hasManySenders(TransferOp transfer, size_t dim) {
  StepKind kind = llvm::cast<StepAttr>(transfer.getSteps()[dim]).getKind();
  return kind == StepKind::Others || kind == StepKind::At;
}

/// What a statement is staged in.
struct StagingMemory {
  BufferRole role;
  /// The loops around the statement whose iterations have memory of their own, the outermost first. The outermost one
  /// is at the top level, and the bounds and steps of all of them are known outside of it.
  llvm::ArrayRef<mlir::scf::ForOp> loops = {};
  bool keepsSendersApart = true; // every sender of a receiver has memory of its own
  bool isOfLines = false;        // LL128 packets instead of LL
  bool isOfSlots = false;        // slots, in dimensions of the destination along which the statement moves one chunk
  mlir::scf::ForOp turns = {};   // around the statement: its iterations use two such memories in turn
};

/// Rewrites one statement. The new memory has the shape of the destination, which has no slots, once for every loop
/// iteration and every sender that has memory of its own. Slots are as many as the chunks that
/// the statement moves may be; a constant part of a chunk, which a variant of a stripe has, stays in its place.
class Stager {
public:
  Stager(StatementInterface statement, const StagingMemory &memory)
      : statement(statement), transfer(llvm::dyn_cast<TransferOp>(statement.getOperation())),
        builder(statement->getContext()), loc(statement.getLoc()), memory(memory) {}

  /// Replaces the statement. `name` is what its memory is called.
  void run(const std::string &name);

private:
  void createStaging(const std::string &name);
  void createMoveIn();
  void createMoveOut();
  void requireSender(PeerCoordinates &sender, llvm::SmallVectorImpl<mlir::Value> &me);
  /// Of the leading dimensions of the memory: the numbers of the iterations, and the coordinates of the sender.
  llvm::SmallVector<mlir::Value> registersOf(mlir::ValueRange sender);
  llvm::SmallVector<mlir::Value> ones();
  void findKeptDims(BufferOp destination);
  void appendKept(llvm::ArrayRef<mlir::Value> ofDestination, llvm::SmallVector<mlir::Value> &values);
  mlir::Value iterationOf(mlir::scf::ForOp loop);
  void keepStripe();

  StatementInterface statement;
  TransferOp transfer; // null: a local statement
  mlir::OpBuilder builder;
  mlir::Location loc;
  StagingMemory memory;
  llvm::SmallVector<size_t, 4> keptDims; // of the destination that the memory has too
  llvm::SmallVector<size_t, 4> slotDims; // mesh dimensions along which a rank has many senders, to be kept apart
  llvm::SmallVector<mlir::Value, 4> dimSizes;
  mlir::Value staging;
};

} // namespace kolo
