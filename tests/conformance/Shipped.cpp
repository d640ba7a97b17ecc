// Every algorithm that is linked in, compiled.
#include "Shipped.h"

#include "compiler/Passes.h"
#include "driver/Compile.h"
#include "dsl/EmitChoreography.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace kolo::conformance {

std::vector<std::string> algorithmNames() {
  std::set<std::string> names;
  for (const dsl::Definition &definition : dsl::registeredChoreographies())
    names.insert(definition.name);
  return {names.begin(), names.end()};
}

const dsl::Definition &definitionOf(const std::string &name) {
  return *llvm::find_if(dsl::registeredChoreographies(),
                        [&](const dsl::Definition &definition) { return definition.name == name; });
}

/// Whether a pass takes an algorithm for one mesh, and else what it says.
static bool takes(const dsl::Definition &definition, const Sizes &sizes, std::unique_ptr<mlir::Pass> pass,
                  std::string &reason) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) { reason += diagnostic.str(); });
  mlir::OwningOpRef<mlir::ModuleOp> module = dsl::emitChoreography(context, *dsl::record(definition), {sizes});
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  manager.nest<ChoreographyOp>().addPass(std::move(pass));
  return mlir::succeeded(manager.run(*module));
}

/// Those that a pass takes; it must refuse all others for this reason.
static std::vector<std::string> namesTakenBy(std::unique_ptr<mlir::Pass> (*createPass)(), const std::string &refusal) {
  std::vector<std::string> names;
  for (const std::string &name : algorithmNames()) {
    std::string reason;
    if (takes(definitionOf(name), meshesOf(definitionOf(name)).front(), createPass(), reason))
      names.push_back(name);
    else
      EXPECT_NE(reason.find(refusal), std::string::npos) << name << ": " << reason;
  }
  return names;
}

std::vector<std::string> publishingAlgorithmNames() {
  return namesTakenBy(createPublishInputs, "from which nothing is sent here");
}

std::vector<std::string> packetAlgorithmNames() { return namesTakenBy(createPlacePackets, "this sends to slots"); }

static std::vector<Sizes> candidateMeshes(size_t numDims) {
  switch (numDims) {
  case 1:
    return {{1}, {2}, {3}, {4}, {6}, {8}, {16}};
  case 2:
    return {{2, 2}, {2, 4}, {4, 2}, {3, 2}, {1, 3}, {4, 1}};
  default:
    return {{2, 2, 2}, {3, 1, 2}, {1, 2, 3}, {2, 1, 2}, {2, 3, 1}};
  }
}

runtime::Mesh namedMesh(const dsl::Definition &definition, const Sizes &sizes) {
  std::vector<runtime::MeshDim> dims;
  for (auto [name, size] : llvm::zip_equal(definition.mesh.dims, sizes))
    dims.push_back({name, size});
  return *runtime::Mesh::create(dims);
}

namespace {
/// A file name in a folder of this process; both are removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder()
      : owner(getpid()), path(std::filesystem::temp_directory_path() / ("kolo-test-" + std::to_string(owner))) {
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (getpid() == owner) // not in a forked rank
      std::filesystem::remove_all(path, ignored);
  }
  std::string file(const std::string &name) const { return (path / name).string(); }

private:
  pid_t owner;
  std::filesystem::path path;
};
} // namespace

static const TemporaryFolder &temporaryFolder() {
  static const TemporaryFolder folder;
  return folder;
}

/// Whether the compiler takes an algorithm for this mesh. A refusal must be the documented one.
static bool isAllowed(const dsl::Definition &definition, const Sizes &sizes) {
  std::string reason;
  bool isTaken = takes(definition, sizes, createCheckChoreography(), reason);
  if (!isTaken)
    EXPECT_NE(reason.find("the size must be a power of two"), std::string::npos) << definition.name << ": " << reason;
  return isTaken;
}

std::vector<Sizes> meshesOf(const dsl::Definition &definition) {
  static std::map<std::string, std::vector<Sizes>> known;
  auto [entry, isNew] = known.try_emplace(definition.name);
  if (isNew)
    for (const Sizes &sizes : candidateMeshes(definition.mesh.dims.size()))
      if (isAllowed(definition, sizes))
        entry->second.push_back(sizes);
  return entry->second;
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

CompiledAlgorithm::CompiledAlgorithm(const std::string &name, bool optimize, const Schedule &schedule)
    : context(mlir::MLIRContext::Threading::DISABLED) {
  context.loadDialect<KoloDialect>();
  const dsl::Definition &definition = definitionOf(name);
  std::vector<runtime::Mesh> meshes;
  for (const Sizes &sizes : meshesOf(definition))
    meshes.push_back(namedMesh(definition, sizes));
  std::string path = temporaryFolder().file(name + ".so");
  tools::compile({{definition}, meshes, path, optimize, schedule});
  auto plugin = runtime::Plugin::load(path);
  EXPECT_TRUE(plugin.isOk()) << plugin.status().message();
  loaded.emplace(std::move(plugin).value());
}

CollectiveAttr CompiledAlgorithm::collective() {
  std::vector<int64_t> dims(info().groupDims.begin(), info().groupDims.end());
  return CollectiveAttr::get(&context, kolo::CollectiveKind(int(info().collective)), dims);
}

bool CompiledAlgorithm::isRooted() const {
  using enum runtime::CollectiveKind;
  return llvm::is_contained({Broadcast, Reduce, Gather, Scatter}, info().collective);
}

int64_t CompiledAlgorithm::groupSize(const Sizes &mesh) const {
  int64_t size = 1;
  for (int dim : info().groupDims)
    size *= mesh[size_t(dim)];
  return size;
}

int64_t CompiledAlgorithm::numBlocks(const Sizes &mesh) {
  reference::Call call{collective(), mesh};
  return std::max(reference::numBlocks(call, BufferRole::Input), reference::numBlocks(call, BufferRole::Output));
}

} // namespace kolo::conformance
