// PlacePackets: has every transfer use packets, which show by themselves that they have arrived.
//   Before:  kolo.transfer %b -> %b to [next %k] { slices }
//   After:   kolo.transfer %b -> %packets to [next %k] { the same chunk in %packets } ; kolo.copy %packets -> %b
// The receiver has a packet buffer with the destination's shape and copies the data out of it. A packet carries the
// number of its call, so a rank puts each packet once in a call. Where a transfer would put two chunks into the same
// packets, the buffer is repeated for every sender, or for every iteration of the loops around. InferSynchronisation
// then drops most signals. Requires choreography form, checked. Guarantees that every transfer goes to packets.
#include "codec/Presets.h"
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
  llvm::SetVector<Operation *> iterations; // two executions
};

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
    if (!transfer || apart.senders.contains(transfer))
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
  llvm::DenseMap<Operation *, std::set<ChunkKey>> chunksSeen;
  return unfold.forEachExecution(choreography, [&](StatementInterface statement) -> LogicalResult {
    auto transfer = dyn_cast<TransferOp>(statement.getOperation());
    if (!transfer || apart.iterations.contains(transfer) || loopsAround(transfer).empty())
      return success();
    bool isRepeating = false;
    std::set<ChunkKey> &known = chunksSeen[transfer];
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
    if (BufferOp coded = findCoded(choreography)) {
      coded.emitError(ll128 ? "protocol ll128" : "protocol ll")
          << ": packets hold elements of the call, and buffer '" << coded.getName() << "' is "
          << codec::nameOf(codecOf(coded));
      return signalPassFailure();
    }
    FailureOr<Apart> apart = findApart(choreography);
    if (failed(apart))
      return signalPassFailure();
    SmallVector<TransferOp> transfers;
    choreography.walk([&](TransferOp transfer) { transfers.push_back(transfer); });
    for (auto [number, transfer] : llvm::enumerate(transfers)) {
      SmallVector<scf::ForOp> loops;
      if (apart->iterations.contains(transfer))
        loops = loopsAround(transfer);
      if (failed(checkTransfer(transfer, loops)))
        return signalPassFailure();
      Stager(cast<StatementInterface>(transfer.getOperation()),
             {BufferRole::Packets, loops, apart->senders.contains(transfer), ll128})
          .run("packets" + std::to_string(number));
    }
  }

private:
  LogicalResult checkTransfer(TransferOp transfer, ArrayRef<scf::ForOp> loops) {
    const char *protocol = ll128 ? "protocol ll128: " : "protocol ll: ";
    if (transfer.getDestination().getDefiningOp<BufferOp>().getCut())
      return transfer.emitError(protocol) << "this sends to slots, which say nothing of how much they hold";
    for (scf::ForOp loop : loops)
      for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
        if (loops.front()->isAncestor(bound.getParentRegion()->getParentOp()))
          return transfer.emitError(protocol) << "the bounds of a loop around this depend on a loop around that one";
    return success();
  }
};

} // namespace
} // namespace kolo
