// PublishInputs: every rank publishes its input as it enters; other ranks read what it published.
//   Before:  kolo.transfer %in -> %out to [others] { slices }
//   After:   kolo.copy %in -> %published ; kolo.transfer %published -> %out to [others] { slices }
// One round is enough: a rank that has entered has published, and the next call publishes in other memory. No rank
// reads the caller's own memory. If only the root has an input, only the root publishes. If a rank sends every other
// rank the chunk at that rank's coordinate, it does not publish the chunk at its own. Requires choreography form,
// checked. Guarantees that no transfer reads the input.
#include "compiler/Passes.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

#include <optional>

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PUBLISHINPUTS
#include "compiler/Passes.h.inc"

namespace {

/// A dimension of the input's grid that has a place for every rank along one of the mesh.
struct Addressed {
  unsigned gridDim, meshDim;
};

bool isAddressed(TransferOp transfer, Addressed dims) {
  auto slices = cast<SlicesOp>(transfer->getRegion(0).front().getTerminator());
  auto extent = transfer.getSource().getDefiningOp<BufferOp>().getGrid()[dims.gridDim].getDefiningOp<DimSizeOp>();
  size_t numMeshDims = transfer.getSteps().size();
  return extent && extent.getDim() == dims.meshDim &&
         cast<StepAttr>(transfer.getSteps()[dims.meshDim]).getKind() == StepKind::Others &&
         slices.getSourceOffsets()[dims.gridDim] ==
             slices->getBlock()->getArgument(unsigned(numMeshDims + dims.meshDim)) &&
         matchPattern(slices.getSourceSizes()[dims.gridDim], m_One());
}

/// Dimensions by which all of the transfers take for every receiver what lies at its coordinate.
std::optional<Addressed> findAddressed(BufferOp input, ArrayRef<TransferOp> transfers, size_t numMeshDims) {
  for (unsigned gridDim = 0; gridDim < input.getGrid().size(); ++gridDim)
    for (unsigned meshDim = 0; meshDim < numMeshDims; ++meshDim)
      if (llvm::all_of(transfers, [&](TransferOp transfer) { return isAddressed(transfer, {gridDim, meshDim}); }))
        return Addressed{gridDim, meshDim};
  return std::nullopt;
}

class Publisher {
public:
  Publisher(ChoreographyOp choreography, BufferOp input, ArrayRef<TransferOp> transfers)
      : choreography(choreography), input(input), transfers(transfers), builder(choreography.getContext()),
        loc(input.getLoc()) {
    builder.setInsertionPointAfter(input);
  }

  Value publish();

private:
  Value createIsRoot(Block &body);

  ChoreographyOp choreography;
  BufferOp input;
  ArrayRef<TransferOp> transfers; // from the input
  OpBuilder builder;
  Location loc;
  SmallVector<Value, 4> dimSizes;
};

Value Publisher::publish() {
  for (int64_t dim = 0; dim < int64_t(choreography.getMesh().size()); ++dim)
    dimSizes.push_back(DimSizeOp::create(builder, loc, dim));
  Value published = BufferOp::create(builder, loc, input.getType(), BufferRole::Published, "published", input.getGrid(),
                                     input.getBlocks(), Value(), CodecAttr());
  auto copy = CopyOp::create(builder, loc, input, published);
  Block &body = copy->getRegion(0).emplaceBlock();
  for (size_t dim = 0; dim < dimSizes.size(); ++dim)
    body.addArgument(builder.getIndexType(), loc);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body);
  SmallVector<Value> offsets(input.getGrid().size()), sizes = llvm::to_vector(input.getGrid());
  for (Value &offset : offsets)
    offset = createConstant(builder, loc, 0);
  if (std::optional<Addressed> dims = findAddressed(input, transfers, dimSizes.size())) {
    Value one = createConstant(builder, loc, 1);
    offsets[dims->gridDim] = createAdd(builder, loc, body.getArgument(dims->meshDim), one);
    sizes[dims->gridDim] = createSub(builder, loc, sizes[dims->gridDim], one);
  }
  bool isAtRootOnly = isAtRoot(choreography.getCollective().getKind(), BufferRole::Input);
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
    llvm::MapVector<Value, SmallVector<TransferOp>> transfers; // the input may have several names
    getOperation().walk([&](TransferOp transfer) {
      if (transfer.getSource().getDefiningOp<BufferOp>().getRole() == BufferRole::Input)
        transfers[transfer.getSource()].push_back(transfer);
    });
    if (transfers.empty()) {
      getOperation().emitError("protocol published publishes the input, from which nothing is sent here");
      return signalPassFailure();
    }
    for (auto &[input, sent] : transfers) {
      Value published = Publisher(getOperation(), input.getDefiningOp<BufferOp>(), sent).publish();
      for (TransferOp transfer : sent)
        transfer.getSourceMutable().assign(published);
    }
  }
};

} // namespace
} // namespace kolo
