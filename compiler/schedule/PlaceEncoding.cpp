// PlaceEncoding: encodes what goes to packets, and decodes what comes out of them, in scratch memory of the rank's own.
//   Before:  for %p { put %in -> %packets[%me] to %p; signal 0 to %p }; flush; ...; reduce %packets[%p] -> %sum
//   After:   copy %in -> %encoded; for %p { put %encoded -> %packets[%me] to %p; signal 0 to %p }; flush; ...;
//            copy %packets[%p] -> %received; reduce %received -> %sum
// So packets carry bytes, and targets convert between other buffers only. What several peers get is encoded once. Runs
// before synchronisation is inferred, which decides about flushes. Guarantees synchronised_c3.
#include "compiler/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PLACEENCODING
#include "compiler/Passes.h.inc"

namespace {

/// Whether a flush stands beside an op.
bool isFlushed(Operation *op) { return !op->getBlock()->getOps<FlushOp>().empty(); }

/// Of a move whose packets are to carry bytes.
class EncodingPlacer {
public:
  explicit EncodingPlacer(MoveInterface converted) : move(converted), builder(converted), loc(converted.getLoc()) {}

  void send();
  void receive();

private:
  struct Slice {
    Value buffer;
    ValueRange offsets, sizes;
  };
  Slice source() { return {move.getSource(), move.getSourceOffsets(), move.getSourceSizes()}; }
  Slice destination() { return {move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes()}; }
  Slice createMemory(StringRef suffix, const Slice &packets, const Slice &other);
  Operation *findPlace();
  void create(Operation *like, const Slice &from, const Slice &to, bool isReducing = false);

  MoveInterface move;
  OpBuilder builder;
  Location loc;
};

/// Scratch memory for the encoded slice. It has the shape of the other buffer, or that of the packets if the other one
/// has slots: two buffers of slots cannot be paired.
EncodingPlacer::Slice EncodingPlacer::createMemory(StringRef suffix, const Slice &packets, const Slice &other) {
  const Slice &shaped = hasSlots(other.buffer) ? packets : other;
  auto like = shaped.buffer.getDefiningOp<BufferOp>(), encoded = packets.buffer.getDefiningOp<BufferOp>();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfter(like->isBeforeInBlock(encoded) ? encoded : like);
  Value memory = BufferOp::create(builder, loc, like.getType(), BufferRole::Scratch, (encoded.getName() + suffix).str(),
                                  like.getGrid(), uint64_t(like.getBlocks()), like.getCut(), encoded.getCodecAttr(),
                                  /*ll128=*/false);
  return {memory, shaped.offsets, shaped.sizes};
}

/// With the marks of an op at the same level.
void EncodingPlacer::create(Operation *like, const Slice &from, const Slice &to, bool isReducing) {
  Operation *made;
  if (isReducing)
    made = ChannelReduceOp::create(builder, loc, from.buffer, from.offsets, from.sizes, to.buffer, to.offsets, to.sizes,
                                   Value(), move.getPart(), move.getParts());
  else
    made = ChannelCopyOp::create(builder, loc, from.buffer, from.offsets, from.sizes, to.buffer, to.offsets, to.sizes,
                                 move.getPart(), move.getParts());
  made->setDiscardableAttrs(like->getDiscardableAttrDictionary());
}

/// The put, or the outermost loop over peers that all get the same slice. A flush stands behind such loops.
Operation *EncodingPlacer::findPlace() {
  Operation *place = move;
  while (!isFlushed(place)) {
    auto loop = dyn_cast<scf::ForOp>(place->getParentOp());
    if (!loop)
      break;
    moveLoopInvariantCode(loop);
    auto isOutside = [&](Value value) { return loop.isDefinedOutsideOfLoop(value); };
    if (!llvm::all_of(source().offsets, isOutside) || !llvm::all_of(source().sizes, isOutside))
      break;
    place = loop;
  }
  return place;
}

void EncodingPlacer::send() {
  Slice from = source(), packets = destination(), memory = createMemory(".encoded", packets, from);
  Operation *place = findPlace();
  builder.setInsertionPoint(place);
  if (!isFlushed(place)) // a put to another peer may still read the memory
    FlushOp::create(builder, loc);
  create(place, from, memory);
  builder.setInsertionPoint(move);
  auto put = PutOp::create(builder, loc, memory.buffer, memory.offsets, memory.sizes, packets.buffer, packets.offsets,
                           packets.sizes, move.getDestinationRank(), move.getPart(), move.getParts());
  put->setDiscardableAttrs(move->getDiscardableAttrDictionary());
  move->erase();
}

void EncodingPlacer::receive() {
  Slice packets = source(), to = destination(), memory = createMemory(".received", packets, to);
  create(move, packets, memory);
  create(move, memory, to, isa<ChannelReduceOp>(move.getOperation()));
  move->erase();
}

struct PlaceEncoding : impl::PlaceEncodingBase<PlaceEncoding> {
  void runOnOperation() override {
    SmallVector<MoveInterface> sent, received;
    getOperation().walk([&](MoveInterface move) {
      if (!isConverting(move))
        return;
      if (arePackets(move.getDestination()))
        sent.push_back(move);
      else if (arePackets(move.getSource()))
        received.push_back(move);
    });
    for (MoveInterface move : sent)
      EncodingPlacer(move).send();
    for (MoveInterface move : received)
      EncodingPlacer(move).receive();
  }
};

} // namespace
} // namespace kolo
