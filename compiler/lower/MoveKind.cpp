#include "compiler/lower/MoveKind.h"

using namespace mlir;

namespace kolo {

static bool isOfPackets(Value buffer) {
  return cast<BufferOp>(buffer.getDefiningOp()).getRole() == BufferRole::Packets;
}

MoveKind kindOf(MoveInterface move) {
  if (isOfPackets(move.getSource()))
    return MoveKind::Receive;
  if (isConverting(move))
    return MoveKind::Convert;
  if (isOfPackets(move.getDestination()))
    return MoveKind::Send;
  if (move.getDestinationRank())
    return MoveKind::Put;
  return move.getSourceRank() ? MoveKind::Get : MoveKind::Local;
}

bool isReducing(MoveInterface move) { return isa<ChannelReduceOp>(move.getOperation()); }

} // namespace kolo
