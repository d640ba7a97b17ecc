// A statement in two steps: into memory of its own, and from there to where it belongs. Used by PlaceStaging and
// PlacePackets.
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
  /// Those around the statement for whose iterations memory is kept apart, the outermost first, which is at the top
  /// level; what they start from, end at and step by is known outside of it.
  llvm::ArrayRef<mlir::scf::ForOp> loops = {};
  bool keepsSendersApart = true; // that one rank receives from
  bool isOfLines = false;        // of packets
};

/// Rewrites one statement. Its memory is shaped like the destination, which has no slots, as often as has to be kept
/// apart.
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
  /// Of the leading dimensions of the memory: the numbers of the iterations, and the coordinates of the sender.
  llvm::SmallVector<mlir::Value> registersOf(mlir::ValueRange sender);
  llvm::SmallVector<mlir::Value> ones();

  StatementInterface statement;
  TransferOp transfer; // null: a local statement
  mlir::OpBuilder builder;
  mlir::Location loc;
  StagingMemory memory;
  llvm::SmallVector<size_t, 4> slotDims; // mesh dimensions along which a rank has many senders, to be kept apart
  llvm::SmallVector<mlir::Value, 4> dimSizes;
  mlir::Value staging;
};

} // namespace kolo
