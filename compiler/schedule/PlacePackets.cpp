// PlacePackets: has every transfer use packets, which show by themselves that they have arrived.
//   Before:  kolo.transfer %b -> %b to [next %k] { slices }
//   After:   kolo.transfer %b -> %packets to [next %k] { the same chunk in %packets } ; kolo.copy %packets -> %b
// The receiver has a packet buffer with the destination's shape and copies the data out of it. A packet carries the
// number of its call, so a rank puts each packet once in a call. Where a transfer would put two chunks into the same
// packets, the buffer is repeated for every sender, or for every iteration of the loops around.
//   Before:  kolo.transfer %in -> %slots to [others] { slices } ; kolo.reduce %slots -> %sum
//   After:   the same, and %slots are packets
// Slots need no second buffer: only their receiver reads them, and each is filled once in a call.
// Packets carry what a codec of their buffer makes of elements, whole units of 16 bytes. InferSynchronisation then
// drops most signals. Requires choreography form, checked. Guarantees that every transfer goes to packets.
#include "compiler/Passes.h"
#include "compiler/model/Unfold.h"
#include "compiler/schedule/Stager.h"

#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PLACEPACKETS
#include "compiler/Passes.h.inc"

namespace {

/// What has to be kept apart, so that no transfer puts two chunks in one place.
struct Apart {
  llvm::SetVector<Operation *> senders;    // transfers of which two senders would, in one execution
  llvm::SetVector<Operation *> iterations; // two executions; of transfers to slots, also of two transfers
};

BufferOp destinationOf(TransferOp transfer) { return transfer.getDestination().getDefiningOp<BufferOp>(); }
bool sendsToSlots(TransferOp transfer) { return hasSlots(transfer.getDestination()); }

/// Finds them on one mesh and for one root.
class RepeatFinder {
public:
  RepeatFinder(ChoreographyOp choreography, IndexEvaluator &evaluator, Apart &apart)
      : choreography(choreography), evaluator(evaluator), unfold(evaluator), apart(apart) {}

  LogicalResult findSenders();
  /// Once the senders are known, on all meshes.
  LogicalResult findIterations();

private:
  /// Receiver, chunk, and the sender's coordinates if senders are kept apart.
  using ChunkKey = SmallVector<int64_t, 8>;
  LogicalResult forEachChunk(TransferOp transfer, function_ref<void(const ChunkKey &)> visit);
  ChunkKey firstOf(TransferOp transfer, const ConcreteMove &move);

  ChoreographyOp choreography;
  IndexEvaluator &evaluator;
  Unfold unfold;
  Apart &apart;
};

RepeatFinder::ChunkKey RepeatFinder::firstOf(TransferOp transfer, const ConcreteMove &move) {
  ChunkKey first = {move.receiver};
  int64_t rest = move.sender;
  for (size_t dim = evaluator.mesh().size(); dim-- > 0; rest /= evaluator.mesh()[dim])
    if (apart.senders.contains(transfer) && hasManySenders(transfer, dim))
      first.push_back(rest % evaluator.mesh()[dim]);
  return first;
}

/// Where the packets of one execution go.
LogicalResult RepeatFinder::forEachChunk(TransferOp transfer, function_ref<void(const ChunkKey &)> visit) {
  auto visitMove = [&](const ConcreteMove &move) -> LogicalResult {
    std::vector<ChunkKey> chunks = {firstOf(transfer, move)};
    for (const GridRange &range : move.destination) {
      std::vector<ChunkKey> longer;
      for (const ChunkKey &chunk : chunks)
        for (int64_t i = 0; i < range.size; ++i) {
          longer.push_back(chunk);
          longer.back().push_back((range.offset + i) % range.extent);
        }
      chunks = std::move(longer);
    }
    llvm::for_each(chunks, visit);
    return success();
  };
  for (int64_t sender = 0; sender < evaluator.numRanks(); ++sender)
    if (failed(unfold.forEachMoveFrom(cast<StatementInterface>(transfer.getOperation()), sender, visitMove)))
      return failure();
  return success();
}

LogicalResult RepeatFinder::findSenders() {
  return unfold.forEachExecution(choreography, [&](StatementInterface statement) -> LogicalResult {
    auto transfer = dyn_cast<TransferOp>(statement.getOperation());
    if (!transfer || sendsToSlots(transfer) || apart.senders.contains(transfer))
      return success();
    std::set<ChunkKey> chunksSeen;
    bool isRepeating = false;
    LogicalResult result =
        forEachChunk(transfer, [&](const ChunkKey &key) { isRepeating |= !chunksSeen.insert(key).second; });
    if (isRepeating)
      apart.senders.insert(transfer);
    return result;
  });
}

LogicalResult RepeatFinder::findIterations() {
  llvm::DenseMap<Operation *, std::set<ChunkKey>> chunksSeen; // in slots, or in the packets of a transfer
  return unfold.forEachExecution(choreography, [&](StatementInterface statement) -> LogicalResult {
    auto transfer = dyn_cast<TransferOp>(statement.getOperation());
    if (!transfer || apart.iterations.contains(transfer) || (!sendsToSlots(transfer) && loopsAround(transfer).empty()))
      return success();
    bool isRepeating = false;
    std::set<ChunkKey> &known = chunksSeen[sendsToSlots(transfer) ? destinationOf(transfer) : transfer.getOperation()];
    LogicalResult result =
        forEachChunk(transfer, [&](const ChunkKey &key) { isRepeating |= !known.insert(key).second; });
    if (isRepeating)
      apart.iterations.insert(transfer);
    return result;
  });
}

/// On every mesh, or a smaller one of its kind: what is overlooked the checker refuses.
FailureOr<Apart> findApart(ChoreographyOp choreography) {
  FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(choreography);
  if (failed(evaluator))
    return failure();
  CollectiveAttr collective = choreography.getCollective();
  Apart apart;
  for (auto find : {&RepeatFinder::findSenders, &RepeatFinder::findIterations})
    for (auto mesh : choreography.getMeshes().getAsRange<DenseI64ArrayAttr>()) {
      SmallVector<int64_t> smaller = representativeMesh(choreography, mesh, maxRanksInFull(collective.getKind()));
      for (int64_t root = 0; root < countRoots(collective, smaller); ++root) {
        evaluator->setMesh(smaller, root);
        RepeatFinder finder(choreography, *evaluator, apart);
        if (failed((finder.*find)()))
          return failure();
      }
    }
  return apart;
}

struct PlacePackets : impl::PlacePacketsBase<PlacePackets> {
  using PlacePacketsBase::PlacePacketsBase;

  void runOnOperation() override {
    ChoreographyOp choreography = getOperation();
    FailureOr<Apart> apart = findApart(choreography);
    if (failed(apart))
      return signalPassFailure();
    SmallVector<TransferOp> transfers;
    choreography.walk([&](TransferOp transfer) { transfers.push_back(transfer); });
    for (TransferOp transfer : transfers)
      if (std::optional<StringRef> dim = networkDimOf(transfer)) {
        transfer.emitError() << "dimension '" << *dim << "' may be a network, which carries no packets";
        return signalPassFailure();
      }
    for (auto [number, transfer] : llvm::enumerate(transfers)) {
      bool isRepeating = apart->iterations.contains(transfer);
      if (failed(checkDraws(transfer)))
        return signalPassFailure();
      if (sendsToSlots(transfer)) {
        if (failed(checkSlots(transfer, isRepeating)))
          return signalPassFailure();
        destinationOf(transfer).setRole(BufferRole::Packets);
        destinationOf(transfer).setLl128(ll128);
        continue;
      }
      SmallVector<scf::ForOp> loops;
      if (isRepeating)
        loops = loopsAround(transfer);
      if (failed(checkLoops(transfer, loops)))
        return signalPassFailure();
      Stager(cast<StatementInterface>(transfer.getOperation()),
             {BufferRole::Packets, loops, apart->senders.contains(transfer), ll128})
          .run("packets" + std::to_string(number));
    }
  }

private:
  InFlightDiagnostic refuse(TransferOp transfer) {
    return transfer.emitError(ll128 ? "protocol ll128: " : "protocol ll: ");
  }

  /// Slots are filled by transfers alone, each once in a call, and their receiver alone reads them.
  LogicalResult checkSlots(TransferOp transfer, bool isRepeating) {
    if (isRepeating)
      return refuse(transfer) << "this sends to slots that hold something of the same call";
    if (transfer.getReducing())
      return refuse(transfer) << "this sends to slots, and combines there";
    Value slots = transfer.getDestination();
    for (Operation *user : slots.getUsers()) {
      auto statement = cast<StatementInterface>(user);
      bool isSource = statement.getSource() == slots;
      if (isa<TransferOp>(user) != isSource)
        continue;
      InFlightDiagnostic problem = refuse(transfer) << "this sends to slots that packets cannot stand for";
      problem.attachNote(user->getLoc()) << (isSource ? "this sends what they hold" : "this fills them, too");
      return problem;
    }
    return success();
  }

  /// What a slot holds draws by its place in the destination, which the sender of packets does not know.
  LogicalResult checkDraws(TransferOp transfer) {
    bool converts = codecOf(transfer.getSource()) != codecOf(transfer.getDestination());
    if (converts && hasSlots(transfer.getSource()) && codecOf(transfer.getDestination()).isStochastic())
      return refuse(transfer) << "'" << destinationOf(transfer).getName()
                              << "' is stochastic, and packets do not say which elements they hold";
    return success();
  }

  LogicalResult checkLoops(TransferOp transfer, ArrayRef<scf::ForOp> loops) {
    for (scf::ForOp loop : loops)
      for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
        if (loops.front()->isAncestor(bound.getParentRegion()->getParentOp()))
          return refuse(transfer) << "the bounds of a loop around this depend on a loop around that one";
    return success();
  }
};

} // namespace
} // namespace kolo
