// PlaceSlots: along dimensions that may be a network, a rank sends what is combined to slots of its receiver. With
// `network_staged`, it sends everything to an inbox.
//   Before:  kolo.transfer reducing %b -> %b to [next %k] { slices }
//   After:   kolo.transfer %b -> %slots to [next %k] { the same chunks in slots } ;
//            kolo.reduce %slots -> %b { what the sender at (me - k) sent }
// Over a network nobody reads, so the receiver cannot pull what it combines. It has slots for the chunks that one
// statement moves, once for every one of its senders. Where a loop's iterations have different senders, each has slots
// of its own; where they have the same sender, two sets of slots take turns. A source that is a slot has no place in
// another slot: then the memory has the destination's shape.
// With `network_staged` these slots are inboxes, and what overwrites the caller's output takes the same way, with a
// copy in place of the reduction. Memory of the program's own that such a transfer overwrites becomes an inbox itself:
// ranks of one host may still write there. Requires choreography form, checked, with `network_dims`; does nothing
// without. Guarantees that no transfer along these dimensions combines, and with `network_staged` that each overwrites
// an inbox.
#include "compiler/Passes.h"
#include "compiler/schedule/Stager.h"
#include "ir/IndexArithmetic.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PLACESLOTS
#include "compiler/Passes.h.inc"

namespace {

bool isSlots(Value buffer) { return bool(buffer.getDefiningOp<BufferOp>().getCut()); }

/// Whether how often the loop runs is known outside of all loops.
bool isCountable(scf::ForOp loop, scf::ForOp outermost) {
  return llvm::none_of(ValueRange{loop.getLowerBound(), loop.getUpperBound(), loop.getStep()},
                       [&](Value bound) { return outermost->isAncestor(bound.getParentRegion()->getParentOp()); });
}

void placeSlots(TransferOp transfer, BufferRole role, const std::string &name) {
  SmallVector<scf::ForOp> loops = loopsAround(transfer);
  SmallVector<scf::ForOp> withOtherSenders = llvm::filter_to_vector(loops, [&](scf::ForOp loop) {
    return dependsOn(transfer.getAmounts(), loop.getInductionVar()) && isCountable(loop, loops.front());
  });
  StagingMemory memory{role, withOtherSenders};
  memory.isOfSlots = !isSlots(transfer.getSource());
  if (!loops.empty() && !dependsOn(transfer.getAmounts(), loops.back().getInductionVar()))
    memory.turns = loops.back();
  Stager(cast<StatementInterface>(transfer.getOperation()), memory).run(name);
}

struct PlaceSlots : impl::PlaceSlotsBase<PlaceSlots> {
  void runOnOperation() override {
    const bool isStaged = usesStagedNetwork(getOperation());
    SmallVector<TransferOp> transfers;
    getOperation().walk([&](TransferOp transfer) {
      if (!networkDimOf(transfer))
        return;
      auto destination = transfer.getDestination().getDefiningOp<BufferOp>();
      if (transfer.getReducing() || (isStaged && isOfCaller(destination.getRole())))
        transfers.push_back(transfer);
      else if (isStaged)
        destination.setRole(BufferRole::Inbox);
    });
    bool isWrong = false;
    for (TransferOp transfer : transfers)
      if (isSlots(transfer.getDestination())) {
        transfer.emitError() << "dimension '" << *networkDimOf(transfer)
                             << "' may be a network, over which nothing combines into slots; send to other slots, and "
                                "combine from there";
        isWrong = true;
      }
    if (isWrong)
      return signalPassFailure();
    for (auto [number, transfer] : llvm::enumerate(transfers))
      placeSlots(transfer, isStaged ? BufferRole::Inbox : BufferRole::Scratch, "arriving" + std::to_string(number));
  }
};

} // namespace
} // namespace kolo
