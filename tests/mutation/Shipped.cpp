// The shipped algorithms, compiled to channel form.
#include "Shipped.h"

#include "compiler/Passes.h"
#include "compiler/Pipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/StringExtras.h"

#include <bit>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>

namespace kolo::mutation {

std::vector<std::string> algorithmNames() {
  std::set<std::string> names;
  for (const dsl::Definition &definition : dsl::registeredChoreographies())
    names.insert(definition.name);
  return {names.begin(), names.end()};
}

static const dsl::Definition &definitionOf(const std::string &name) {
  return *llvm::find_if(dsl::registeredChoreographies(),
                        [&](const dsl::Definition &definition) { return definition.name == name; });
}

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

/// Whether the compiler takes an algorithm for this mesh. A refusal must be the documented one.
static bool isAllowed(const dsl::Definition &definition, const Sizes &sizes) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::string reason;
  auto collect = [&](mlir::Diagnostic &diagnostic) { reason += diagnostic.str(); };
  mlir::ScopedDiagnosticHandler handler(context.get(), collect);
  mlir::OwningOpRef<mlir::ModuleOp> module = dsl::emitChoreography(*context, *dsl::record(definition), {sizes});
  mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
  manager.nest<ChoreographyOp>().addPass(createCheckChoreography());
  bool isTaken = mlir::succeeded(manager.run(*module));
  if (!isTaken)
    EXPECT_NE(reason.find("the size must be a power of two"), std::string::npos) << definition.name << ": " << reason;
  return isTaken;
}

std::vector<Sizes> meshesOf(const std::string &algorithm) {
  const dsl::Definition &definition = definitionOf(algorithm);
  std::vector<Sizes> meshes = candidateMeshes(definition.mesh.dims.size());
  llvm::erase_if(meshes, [&](const Sizes &sizes) { return !isAllowed(definition, sizes); });
  return meshes;
}

std::vector<Sizes> threeMeshesOf(const std::string &algorithm) {
  std::vector<Sizes> meshes = meshesOf(algorithm);
  EXPECT_GE(meshes.size(), 3u) << algorithm;
  meshes.resize(3);
  return meshes;
}

std::string textOf(llvm::ArrayRef<int64_t> mesh) {
  return llvm::join(llvm::map_range(mesh, [](int64_t size) { return std::to_string(size); }), "x");
}

uint64_t testSeed() {
  static const uint64_t seed = [] {
    const char *given = std::getenv("KOLO_SEED");
    uint64_t value = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::cout << "seed " << value << "; KOLO_SEED=" << value << " repeats this run\n";
    return value;
  }();
  return seed;
}

std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
  return context;
}

ShippedProgram::ShippedProgram(mlir::MLIRContext &context, const std::string &algorithm,
                               const std::vector<Sizes> &meshes, bool optimize) {
  module = dsl::emitChoreography(context, *dsl::record(definitionOf(algorithm)), meshes);
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve({}, {.optimize = optimize}))});
  EXPECT_TRUE(mlir::succeeded(manager.run(*module))) << algorithm;
  // A fuse is its moves one after the other, as far as other ranks can tell: each of them is changed by itself.
  module->walk([](FuseOp fuse) {
    mlir::Block &body = fuse.getBody().front();
    fuse->getBlock()->getOperations().splice(fuse->getIterator(), body.getOperations());
    fuse.erase();
  });
}

} // namespace kolo::mutation
