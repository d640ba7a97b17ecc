// PublishInputs: every rank publishes its input as it enters, instead of having it read or sent.
//   Before:  kolo.transfer %in -> %out to [others] { slices }
//   After:   kolo.copy %in -> %published ; kolo.transfer %published -> %out to [others] { slices }
// One round does then, since who has entered has published, and since the next call publishes elsewhere. Nobody reads the
// caller's own memory. Where only the root has an input, only the root publishes.
// Requires choreography form, checked. Guarantees that no transfer reads the input.
#include "compiler/Passes.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PUBLISHINPUTS
#include "compiler/Passes.h.inc"

namespace {

class Publisher {
public:
  Publisher(ChoreographyOp choreography, BufferOp input)
      : choreography(choreography), input(input), builder(choreography.getContext()), loc(input.getLoc()) {
    builder.setInsertionPointAfter(input);
  }

  Value publish();

private:
  Value createIsRoot(Block &body);

  ChoreographyOp choreography;
  BufferOp input;
  OpBuilder builder;
  Location loc;
  SmallVector<Value, 4> dimSizes;
};

Value Publisher::publish() {
  for (int64_t dim = 0; dim < int64_t(choreography.getMesh().size()); ++dim)
    dimSizes.push_back(DimSizeOp::create(builder, loc, dim));
  Value published = BufferOp::create(builder, loc, input.getType(), BufferRole::Published, "published", input.getGrid(),
                                     input.getBlocks(), Value());
  auto copy = CopyOp::create(builder, loc, input, published);
  Block &body = copy->getRegion(0).emplaceBlock();
  for (size_t dim = 0; dim < dimSizes.size(); ++dim)
    body.addArgument(builder.getIndexType(), loc);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body);
  SmallVector<Value> offsets(input.getGrid().size()), sizes = llvm::to_vector(input.getGrid());
  for (Value &offset : offsets)
    offset = createConstant(builder, loc, 0);
  CollectiveKind kind = choreography.getCollective().getKind();
  bool isAtRootOnly = kind == CollectiveKind::Broadcast || kind == CollectiveKind::Scatter;
  Value condition = isAtRootOnly ? createIsRoot(body) : Value();
  SlicesOp::create(builder, loc, offsets, sizes, offsets, sizes, condition);
  return published;
}

Value Publisher::createIsRoot(Block &body) {
  SmallVector<Value> coordinates, sizes;
  for (int64_t dim : choreography.getCollective().getGroupDims()) {
    coordinates.push_back(body.getArgument(unsigned(dim)));
    sizes.push_back(dimSizes[size_t(dim)]);
  }
  Value number = createLinear(builder, loc, coordinates, sizes);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, number, RootOp::create(builder, loc));
}

struct PublishInputs : impl::PublishInputsBase<PublishInputs> {
  using PublishInputsBase::PublishInputsBase;

  void runOnOperation() override {
    SmallVector<TransferOp> transfers;
    getOperation().walk([&](TransferOp transfer) {
      if (transfer.getSource().getDefiningOp<BufferOp>().getRole() == BufferRole::Input)
        transfers.push_back(transfer);
    });
    if (transfers.empty()) {
      getOperation().emitError("protocol slots publishes the input, from which nothing is sent here");
      return signalPassFailure();
    }
    llvm::SmallDenseMap<Value, Value> published; // the input may have several names
    for (TransferOp transfer : transfers) {
      Value &source = published[transfer.getSource()];
      if (!source)
        source = Publisher(getOperation(), transfer.getSource().getDefiningOp<BufferOp>()).publish();
      transfer.getSourceMutable().assign(source);
    }
  }
};

} // namespace
} // namespace kolo
