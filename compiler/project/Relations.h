// The peers of a relation, as index arithmetic: from a sender to its receivers and, by the inverse relation, from a
// receiver to its senders; and which of the two moves the data. Used by Project, by the passes that rewrite transfers,
// and by the closed form of costs.
#pragma once

#include "ir/Kolo.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include <optional>

namespace kolo {

enum class Transfers;

/// The attribute of a choreography, and of its program, with the dimensions along which ranks may be on different
/// hosts, by index.
inline constexpr llvm::StringLiteral networkAttrName = "network_dims";

/// The unit attribute of a choreography, and of its program, whose data crosses a network in memory of hosts. A sender
/// copies it to an outbox, and it arrives in an inbox of the receiver. For devices whose memory no NIC reaches.
inline constexpr llvm::StringLiteral stagedAttrName = "network_staged";

inline bool usesStagedNetwork(mlir::Operation *of) { return of->hasAttr(stagedAttrName); }
/// Whether a move of a program is a put to a peer's inbox. Where a staged network is between the two, a kernel hands it
/// to the host.
bool isPutToInbox(MoveInterface move);

/// The dimension along which a transfer may cross a network, if there is one.
std::optional<llvm::StringRef> networkDimOf(TransferOp transfer);

/// The loops around a statement, the outermost first.
llvm::SmallVector<mlir::scf::ForOp> loopsAround(mlir::Operation *statement);

/// Whether the receiver reads the data. What combines it reads always; packets never.
bool isPulled(TransferOp transfer, Transfers transfers);

enum class Direction { ToReceivers, ToSenders };

/// Per dimension: the loop index that tells the peers apart, if the relation has many there; else null.
using FanIndices = llvm::SmallVector<mlir::Value, 4>;

/// Opens one scf.for per dimension with many peers, and leaves the builder in the innermost.
FanIndices openFanLoops(mlir::OpBuilder &builder, TransferOp transfer, llvm::ArrayRef<mlir::Value> dimSizes,
                        Direction direction);

struct PeerCoordinates {
  llvm::SmallVector<mlir::Value, 4> coordinates;
  mlir::Value condition; // null: there always is such a peer
};

/// The coordinates of the peer that `mine` is related to.
PeerCoordinates createPeer(mlir::OpBuilder &builder, TransferOp transfer, llvm::ArrayRef<mlir::Value> mine,
                           llvm::ArrayRef<mlir::Value> dimSizes, const FanIndices &fan, Direction direction);

/// Whether a sender that createPeer gave is a rank; null: it always is. If some receivers of a `flip` need not exist,
/// because of a condition, so need some senders.
mlir::Value createIsSender(mlir::OpBuilder &builder, TransferOp transfer, llvm::ArrayRef<mlir::Value> sender,
                           llvm::ArrayRef<mlir::Value> dimSizes);

/// What a statement's body computes for one sender and one receiver.
struct InlinedSlices {
  llvm::SmallVector<mlir::Value> sourceOffsets, sourceSizes, destinationOffsets, destinationSizes;
  mlir::Value condition; // null: always
};

/// Clones a statement's body in front of the builder. `mapping` holds values of the surroundings that are cloned too.
InlinedSlices inlineBody(mlir::OpBuilder &builder, StatementInterface statement, mlir::ValueRange sender,
                         mlir::ValueRange receiver, mlir::IRMapping mapping);

} // namespace kolo
