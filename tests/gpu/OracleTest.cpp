// The oracle that needs no compiler gives what the reference's does, bit by bit.
#include "Oracle.h"

#include "ir/reference/Oracle.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace kolo;
using namespace kolo::test;

namespace {

/// The reference's call of the same, with these inputs.
reference::SimulatedCall simulate(mlir::MLIRContext &context, const DeviceCall &call,
                                  const std::vector<Bytes> &inputs) {
  reference::Call same;
  CollectiveKind kind = *symbolizeCollectiveKind(runtime::toString(call.collective));
  std::vector<int64_t> dims(call.groupDims.begin(), call.groupDims.end());
  same.collective = CollectiveAttr::get(&context, kind, dims);
  for (const runtime::MeshDim &dim : call.mesh.dims())
    same.meshSizes.push_back(dim.size);
  same.count = call.count;
  same.type = *llvm::find_if(reference::allElementTypes, [&](reference::ElementType type) {
    return reference::nameOf(type) == runtime::toString(call.type);
  });
  same.reduction = *llvm::find_if(reference::allReductions, [&](reference::Reduction reduction) {
    return reference::nameOf(reduction) == runtime::toString(call.reduction);
  });
  same.root = call.root;
  reference::SimulatedCall simulated = reference::makeSimulatedCall(same);
  EXPECT_EQ(simulated.outputs[0].size(), call.outputBytes());
  simulated.inputs = inputs;
  return simulated;
}

void expectTheSame(mlir::MLIRContext &context, const DeviceCall &call) {
  std::vector<Bytes> inputs = taggedInputs(call, 5);
  reference::SimulatedCall simulated = simulate(context, call, inputs);
  for (int rank = 0; rank < call.mesh.numRanks(); ++rank) {
    auto expected = reference::expectedOutput(simulated, rank);
    EXPECT_EQ(expectedOutput(call, inputs, rank), expected)
        << runtime::toString(call.collective) << " " << runtime::toString(call.type) << " "
        << runtime::toString(call.reduction) << " " << call.mesh.toString() << ", rank " << rank;
    Bytes output = expected.value_or(Bytes(call.outputBytes(), poison));
    EXPECT_EQ(checkOutput(call, inputs, rank, output), "");
    output.back() ^= std::byte{1};
    EXPECT_NE(checkOutput(call, inputs, rank, output), "");
  }
}

} // namespace

TEST(DeviceOracle, GivesTheReferencesOutputForEveryCollectiveTypeAndReduction) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<KoloDialect>();
  const std::pair<const char *, std::vector<int>> shapes[] = {{"rank=2", {0}},          {"rank=3", {0}},
                                                              {"rank=8", {0}},          {"node=2,gpu=4", {0, 1}},
                                                              {"node=2,gpu=4", {1, 0}}, {"node=3,gpu=2", {0}}};
  for (const auto &[mesh, dims] : shapes)
    for (int collective = 0; collective < KOLO_NUM_COLLECTIVES; ++collective)
      for (int type = 0; type < KOLO_NUM_TYPES; ++type)
        for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction) {
          DeviceCall call{runtime::CollectiveKind(collective), dims, *runtime::Mesh::parse(mesh), 37};
          call.type = runtime::DataType(type);
          call.reduction = runtime::Reduction(reduction);
          call.root = call.groupSize() - 1;
          expectTheSame(context, call);
        }
}
