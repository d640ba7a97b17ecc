// The shipped algorithms, compiled to channel form.
#include "Shipped.h"

#include "compiler/Pipeline.h"

#include "mlir/Pass/PassManager.h"

namespace kolo::mutation {

static std::vector<Sizes> candidateMeshes(size_t numDims) {
  switch (numDims) {
  case 1:
    return {{2}, {3}, {4}, {5}, {6}, {8}};
  case 2:
    return {{2, 2}, {1, 3}, {3, 2}, {2, 3}, {4, 2}, {2, 4}};
  default:
    return {{2, 1, 2}, {1, 2, 2}, {3, 1, 1}, {1, 2, 3}, {3, 1, 2}, {2, 2, 2}};
  }
}

std::vector<Sizes> meshesOf(const std::string &algorithm) {
  const dsl::Definition &definition = test::definitionOf(algorithm);
  std::vector<Sizes> meshes = test::allowedMeshes(algorithm, candidateMeshes(definition.mesh.dims.size()));
  if (test::isForFrontier(definition))
    meshes.push_back({1, 8});
  return meshes;
}

std::vector<Sizes> threeMeshesOf(const std::string &algorithm) {
  std::vector<Sizes> meshes = meshesOf(algorithm);
  EXPECT_GE(meshes.size(), 3u) << algorithm;
  meshes.resize(3);
  return meshes;
}

void openFuses(mlir::ModuleOp module) {
  module.walk([](FuseOp fuse) {
    mlir::Block &body = fuse.getBody().front();
    fuse->getBlock()->getOperations().splice(fuse->getIterator(), body.getOperations());
    fuse.erase();
  });
}

ShippedProgram::ShippedProgram(mlir::MLIRContext &context, const std::string &algorithm,
                               const std::vector<Sizes> &meshes, bool optimize) {
  module = test::emit(context, algorithm, meshes);
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve({}, {.optimize = optimize}))});
  EXPECT_TRUE(mlir::succeeded(manager.run(*module))) << algorithm;
  openFuses(*module);
}

} // namespace kolo::mutation
