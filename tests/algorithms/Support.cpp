// Loading algorithms, and what is known about them.
#include "Support.h"

#include "ir/reference/Layout.h"
#include "ir/reference/Walker.h"

#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringExtras.h"

#include <bit>
#include <set>

namespace kolo::reference {

/// Algorithms whose relations flip a coordinate, which stays inside a dimension only when its size is a power of two.
struct FlippingAlgorithm {
  std::string name;
  size_t dim;
};
static const FlippingAlgorithm flippingAlgorithms[] = {
    {"rabenseifnerAllReduce", 0},
    {"railRecursiveAllGather", 0},
    {"railRecursiveAllReduce", 0},
    {"recursiveDoublingAllGather", 0},
    {"recursiveDoublingAllReduce", 0},
    {"recursiveHalvingReduceScatter", 0},
    {"slottedRecursiveDoublingAllReduce", 0},
};

std::optional<std::string> reasonToRefuse(const std::string &algorithm, const Sizes &mesh) {
  if (std::string unmet = test::requirementAgainst(algorithm, mesh); !unmet.empty())
    return unmet;
  for (const FlippingAlgorithm &flipping : flippingAlgorithms)
    if (flipping.name == algorithm && !std::has_single_bit(uint64_t(mesh[flipping.dim])))
      return "flips coordinates of a dimension of " + std::to_string(mesh[flipping.dim]) + ", not a power of two";
  return std::nullopt;
}

std::vector<Sizes> testMeshes(size_t numDims) {
  switch (numDims) {
  case 1:
    return {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {16}};
  case 2:
    return {{1, 1}, {2, 2}, {2, 4}, {4, 2}, {3, 2}, {2, 3}, {1, 4}, {4, 1}, {1, 8}};
  case 3:
    return {{1, 1, 1}, {2, 2, 2}, {1, 2, 3}, {3, 2, 2}, {2, 1, 2}};
  default:
    return {{1, 1, 1, 1}, {2, 1, 2, 2}, {2, 3, 1, 2}};
  }
}

Algorithm::Algorithm(const std::string &name) : context(mlir::MLIRContext::Threading::DISABLED) {
  module = test::emit(context, name, testMeshes(definitionOf(name).mesh.dims.size()));
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
}

ChoreographyOp Algorithm::choreography() { return *module->getOps<ChoreographyOp>().begin(); }

SimulatedCall Algorithm::callOn(const Sizes &mesh, int64_t count, int64_t root, ElementType type, Reduction reduction) {
  Call call;
  call.collective = choreography().getCollective();
  call.meshSizes = mesh;
  call.count = count;
  call.root = root;
  call.type = type;
  call.reduction = reduction;
  SimulatedCall result = makeSimulatedCall(call);
  tagInput(result);
  return result;
}

int64_t Algorithm::mostPieces(const Sizes &mesh) {
  const SimulatedCall simulated = callOn(mesh, 0, 0, ElementType::I32, Reduction::Sum);
  Scope scope(simulated);
  Walker walker(choreography().getBody().front(), scope);
  int64_t most = 1;
  while (mlir::Operation *op = llvm::cantFail(walker.next()))
    if (auto buffer = mlir::dyn_cast<BufferOp>(op)) {
      Layout layout{scope[buffer.getGrid()], int64_t(buffer.getBlocks())};
      if (buffer.getCut())
        layout.slotCut = scope[buffer.getCut()];
      most = std::max(most, layout.chunksPerBlock());
    }
  return most;
}

std::vector<int64_t> Algorithm::testRoots(const Sizes &mesh) {
  CollectiveKind kind = choreography().getCollective().getKind();
  if (!llvm::is_contained(
          {CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::Gather, CollectiveKind::Scatter}, kind))
    return {0};
  int64_t size = groupSize(callOn(mesh, 0, 0, ElementType::I32, Reduction::Sum));
  std::set<int64_t> roots = {0, 1 % size, size / 2, size - 1};
  return {roots.begin(), roots.end()};
}

llvm::Error Algorithm::run(SimulatedCall simulated) {
  if (llvm::Error error = interpretChoreography(choreography(), simulated))
    return error;
  return checkOutputs(simulated);
}

std::string describe(const SimulatedCall &simulated) {
  auto sizes = llvm::map_range(simulated.meshSizes, [](int64_t size) { return std::to_string(size); });
  return "mesh " + llvm::join(sizes, "x") + ", count " + std::to_string(simulated.count) + ", root " +
         std::to_string(simulated.root) + ", " + nameOf(simulated.type).str() + " " +
         nameOf(simulated.reduction).str() + ": ";
}

} // namespace kolo::reference
