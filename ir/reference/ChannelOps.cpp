// What one step of a lane does: begins an op, moves one chunk of it, or finds its wait over.
#include "ir/reference/ChannelInterpreter.h"

using namespace mlir;

namespace kolo::reference {

ChannelInterpreter::Semaphore &ChannelInterpreter::semaphore(int64_t number, int64_t from, int64_t to, int64_t lane) {
  return semaphores[((number * numRanks + from) * numRanks + to) * simulated.numLanes + lane];
}

const ChannelInterpreter::Semaphore &ChannelInterpreter::semaphoreOfWait(const Lane &lane, WaitOp wait) const {
  return const_cast<ChannelInterpreter *>(this)->semaphore(int64_t(wait.getSemaphore()), (*lane.scope)[wait.getRank()],
                                                           lane.rank, lane.number);
}

std::vector<Pending> &ChannelInterpreter::queue(const Lane &lane, int64_t peer) {
  size_t index = (lane.rank * simulated.numLanes + lane.number) * numRanks + peer;
  if (queues[index].empty()) // every caller adds to it
    busyQueues.push_back(index);
  return queues[index];
}

llvm::Expected<int64_t> ChannelInterpreter::peerOf(const Lane &lane, Operation *op, Value rank) const {
  int64_t peer = rank ? (*lane.scope)[rank] : lane.rank;
  if (peer < 0 || peer >= numRanks)
    return lane.scope->fail(op, "there is no rank " + Twine(peer) + " among " + Twine(numRanks));
  return peer;
}

bool ChannelInterpreter::isBlocked(const Lane &lane) const {
  if (isa_and_nonnull<FlushOp>(lane.current))
    return lane.numPendingPuts > 0;
  if (isa_and_nonnull<EnterOp>(lane.current))
    return llvm::any_of(lanes, [&](const std::unique_ptr<Lane> &other) {
      return other->number == lane.number && other->numEntered < lane.numEntered;
    });
  if (std::optional<PacketKey> place = awaitedPackets(lane)) {
    auto found = packets.find(*place);
    return found == packets.end() || found->second != lane.scope->invocation;
  }
  auto wait = dyn_cast_if_present<WaitOp>(lane.current);
  if (!wait)
    return false;
  const Semaphore &counter = semaphoreOfWait(lane, wait);
  return counter.numWaited >= counter.numArrived;
}

static BufferRole roleOf(Value buffer) { return buffer.getDefiningOp<BufferOp>().getRole(); }

static PacketKey packetKeyOf(const ChunkPart &piece, int64_t rank, int64_t invocation) {
  return {piece.buffer.getDefiningOp(), rank, invocation % 2, piece.chunk, piece.part};
}

std::optional<PacketKey> ChannelInterpreter::awaitedPackets(const Lane &lane) const {
  auto move = dyn_cast_if_present<MoveInterface>(lane.current);
  if (!move || roleOf(move.getSource()) != BufferRole::Packets)
    return std::nullopt;
  return packetKeyOf(lane.partsLeft.front().source, lane.rank, lane.scope->invocation);
}

llvm::Error ChannelInterpreter::arrivePackets(const Lane &lane, int64_t peer, const Pending &pending) {
  const ChunkPart &piece = pending.pieces.destination;
  auto [found, isNew] = packets.try_emplace(packetKeyOf(piece, peer, pending.invocation), pending.invocation);
  if (!isNew && found->second >= pending.invocation)
    return lane.scope->fail(pending.op,
                            "puts packets to rank " + Twine(peer) + " where this invocation has put some already");
  found->second = pending.invocation;
  return llvm::Error::success();
}

llvm::Error ChannelInterpreter::stepLane(Lane &lane) {
  if (lane.current)
    return continueOp(lane);
  llvm::Expected<Operation *> op = lane.walker->next();
  if (!op)
    return op.takeError();
  if (!*op) {
    endLane(lane);
    return llvm::Error::success();
  }
  return begin(lane, *op);
}

llvm::Error ChannelInterpreter::begin(Lane &lane, Operation *op) {
  if (auto buffer = dyn_cast<BufferOp>(op))
    return memory.add(buffer, *lane.scope);
  if (auto move = dyn_cast<MoveInterface>(op))
    return beginMove(lane, move);
  if (auto divide = dyn_cast<DivideOp>(op))
    return beginDivide(lane, divide);
  if (auto signal = dyn_cast<SignalOp>(op)) {
    llvm::Expected<int64_t> peer = peerOf(lane, op, signal.getRank());
    if (!peer)
      return peer.takeError();
    queue(lane, *peer).push_back({op, {}, true, lane.scope->invocation});
    return llvm::Error::success();
  }
  if (isa<EnterOp>(op))
    ++lane.numEntered;
  auto wait = dyn_cast<WaitOp>(op);
  if (!wait && !isa<FlushOp, EnterOp>(op))
    return lane.scope->fail(op, "cannot be interpreted in a channel program");
  if (wait)
    if (llvm::Expected<int64_t> peer = peerOf(lane, op, wait.getRank()); !peer)
      return peer.takeError();
  lane.current = op;
  return llvm::Error::success();
}

/// A rank knows no more than its own tables, and what is noted beside what it moves.
llvm::Expected<int64_t> ChannelInterpreter::lengthOf(const Lane &lane, Operation *op, std::optional<Measure> measure,
                                                     const ChunkPart &source, const ChunkPart &destination) const {
  if (!measure)
    return lane.scope->fail(op, "no table of the rank says how long the chunks are that it moves here");
  if (measure->table)
    return memory.lengthByTable(*measure->table, measure->side == MoveSide::Source ? source : destination, lane.rank);
  auto move = dyn_cast<MoveInterface>(op);
  llvm::Expected<int64_t> holder = peerOf(lane, op, move ? move.getSourceRank() : Value());
  return holder ? memory.lengthHeld(op, *lane.scope, source, *holder, lane.scope->invocation) : holder.takeError();
}

llvm::Error ChannelInterpreter::beginMove(Lane &lane, MoveInterface move) {
  const CollectiveKind kind = simulated.collective.getKind();
  for (Value rank : {move.getSourceRank(), move.getDestinationRank()})
    if (llvm::Expected<int64_t> peer = peerOf(lane, move, rank); !peer)
      return peer.takeError();
  llvm::Expected<std::vector<PartPair>> pairs =
      memory.pairs(move, *lane.scope,
                   {{move.getSource(), move.getSourceOffsets(), move.getSourceSizes()},
                    {move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes()},
                    {move.getPart(), move.getParts()}},
                   [&](const ChunkPart &source, const ChunkPart &destination) {
                     return lengthOf(lane, move, measureOf(kind, move), source, destination);
                   });
  if (!pairs)
    return pairs.takeError();
  auto put = dyn_cast<PutOp>(move.getOperation());
  if (!put) {
    lane.current = pairs->empty() ? nullptr : move.getOperation();
    lane.partsLeft.assign(pairs->begin(), pairs->end());
    return llvm::Error::success();
  }
  for (const PartPair &pair : *pairs)
    queue(lane, (*lane.scope)[put.getRank()]).push_back({move, pair, false, lane.scope->invocation});
  lane.numPendingPuts += int64_t(pairs->size());
  return llvm::Error::success();
}

llvm::Error ChannelInterpreter::beginDivide(Lane &lane, DivideOp divide) {
  if (simulated.reduction != Reduction::Average)
    return llvm::Error::success();
  const CollectiveKind kind = simulated.collective.getKind();
  llvm::Expected<std::vector<ChunkPart>> pieces =
      memory.pieces(divide, *lane.scope, {divide.getBuffer(), divide.getOffsets(), divide.getSizes()},
                    {divide.getPart(), divide.getParts()}, [&](const ChunkPart &piece) {
                      return lengthOf(lane, divide, measureOf(kind, divide), piece, piece);
                    });
  if (!pieces)
    return pieces.takeError();
  for (const ChunkPart &piece : *pieces)
    lane.partsLeft.push_back({piece, piece});
  lane.current = pieces->empty() ? nullptr : divide.getOperation();
  return llvm::Error::success();
}

llvm::Error ChannelInterpreter::continueOp(Lane &lane) {
  Operation *op = lane.current;
  if (auto wait = dyn_cast<WaitOp>(op))
    ++semaphore(int64_t(wait.getSemaphore()), (*lane.scope)[wait.getRank()], lane.rank, lane.number).numWaited;
  if (!lane.partsLeft.empty()) {
    PartPair pieces = lane.partsLeft.front();
    lane.partsLeft.pop_front();
    if (llvm::Error error = movePart(lane, op, pieces))
      return error;
  }
  if (lane.partsLeft.empty())
    lane.current = nullptr;
  return llvm::Error::success();
}

llvm::Error ChannelInterpreter::movePart(Lane &lane, Operation *op, const PartPair &pieces) {
  auto move = dyn_cast<MoveInterface>(op);
  auto rankOf = [&](Value rank) { return rank ? (*lane.scope)[rank] : lane.rank; };
  int64_t from = move ? rankOf(move.getSourceRank()) : lane.rank;
  int64_t to = move ? rankOf(move.getDestinationRank()) : lane.rank;
  auto source = memory.at(op, *lane.scope, pieces.source, from, lane.scope->invocation, Access::Read);
  if (!source)
    return source.takeError();
  auto destination = memory.at(op, *lane.scope, pieces.destination, to, lane.scope->invocation,
                               isa<ChannelReduceOp, DivideOp>(op) ? Access::Combine : Access::Write);
  if (!destination)
    return destination.takeError();
  if (isa<DivideOp>(op))
    divide(simulated.type, *destination, groupSize(simulated));
  else
    memory.move(pieces, *source, *destination, isa<ChannelReduceOp>(op), from, lane.scope->invocation);
  return llvm::Error::success();
}

llvm::Error ChannelInterpreter::deliver(Lane &lane, int64_t peer, const Pending &pending) {
  if (auto signal = dyn_cast<SignalOp>(pending.op)) {
    ++semaphore(int64_t(signal.getSemaphore()), lane.rank, peer, lane.number).numArrived;
    return llvm::Error::success();
  }
  --lane.numPendingPuts;
  if (roleOf(pending.pieces.destination.buffer) == BufferRole::Packets)
    if (llvm::Error error = arrivePackets(lane, peer, pending))
      return error;
  auto source = memory.at(pending.op, *lane.scope, pending.pieces.source, lane.rank, pending.invocation, Access::Read);
  if (!source)
    return source.takeError();
  auto destination =
      memory.at(pending.op, *lane.scope, pending.pieces.destination, peer, pending.invocation, Access::Write);
  if (!destination)
    return destination.takeError();
  memory.move(pending.pieces, *source, *destination, /*isCombining=*/false, lane.rank, pending.invocation);
  return llvm::Error::success();
}

} // namespace kolo::reference
