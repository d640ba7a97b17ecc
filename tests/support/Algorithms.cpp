#include "Algorithms.h"

#include "compiler/Passes.h"
#include "compiler/project/Relations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdlib>
#include <set>
#include <string_view>

namespace kolo::test {

static std::vector<std::string> namesOf(bool areCoded) {
  std::set<std::string> names;
  for (const dsl::Definition &definition : dsl::registeredChoreographies())
    if (usesCodecs(definition) == areCoded)
      names.insert(definition.name);
  return {names.begin(), names.end()};
}

std::vector<std::string> algorithmNames() { return namesOf(false); }

bool isSweep() {
  const char *sweep = std::getenv("KOLO_SWEEP");
  return sweep && sweep == std::string_view("all");
}

std::vector<std::string> sweptAlgorithmNames() {
  static const std::set<std::string> late = {"bineAllGather",
                                             "bineAllReduce",
                                             "bineBroadcast",
                                             "bineReduceScatter",
                                             "doubleTreeAllReduce",
                                             "doubleTreeBroadcast",
                                             "patAllGather",
                                             "patReduceScatter",
                                             "recursiveMultiplyingAllGather",
                                             "recursiveMultiplyingAllReduce",
                                             "recursiveMultiplyingBroadcast",
                                             "swingAllReduce"};
  std::vector<std::string> names = algorithmNames();
  if (!isSweep())
    std::erase_if(names, [](const std::string &name) { return late.contains(name); });
  return names;
}

std::vector<std::string> exampleNames(std::vector<std::string> names) {
  static const std::set<std::string> examples = {
      "binomialBroadcast", "binomialReduce",    "binomialScatter",   "chainScan",
      "directAllToAll",    "directGather",      "directScatter",     "hierarchicalAllReduce",
      "oneShotExscan",     "railAllGather",     "railReduceScatter", "recursiveDoublingAllGather",
      "ringAllGather",     "ringReduceScatter", "twoLevelAllToAll",  "twoShotAllReduce"};
  if (!isSweep())
    std::erase_if(names, [](const std::string &name) { return !examples.contains(name); });
  return names;
}

bool isExample(const std::string &name) { return !exampleNames({name}).empty(); }

std::vector<std::string> codedAlgorithmNames() { return namesOf(true); }

const dsl::Definition &definitionOf(const std::string &name) {
  return *llvm::find_if(dsl::registeredChoreographies(),
                        [&](const dsl::Definition &definition) { return definition.name == name; });
}

runtime::Mesh namedMesh(const dsl::Definition &definition, const Sizes &sizes) {
  std::vector<runtime::MeshDim> dims;
  for (auto [name, size] : llvm::zip_equal(definition.mesh.dims, sizes))
    dims.push_back({name, size});
  return *runtime::Mesh::create(dims);
}

Sizes smallMesh(const dsl::Definition &definition) {
  if (isForFrontier(definition))
    return {2, 8};
  static const std::vector<Sizes> meshes = {{}, {8}, {2, 4}, {2, 2, 2}, {1, 2, 2, 2}};
  return meshes[definition.mesh.dims.size()];
}

std::string textOf(llvm::ArrayRef<int64_t> mesh) {
  return llvm::join(llvm::map_range(mesh, [](int64_t size) { return std::to_string(size); }), "x");
}

std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
  return context;
}

mlir::OwningOpRef<mlir::ModuleOp> emit(mlir::MLIRContext &context, const std::string &name,
                                       const std::vector<Sizes> &meshes,
                                       const std::map<std::string, codec::Codec> &codecs) {
  std::unique_ptr<dsl::Recording> recording = dsl::record(definitionOf(name), codecs);
  for (const dsl::Diagnostic &diagnostic : recording->diagnostics)
    ADD_FAILURE() << diagnostic.location.file_name() << ":" << diagnostic.location.line() << ": " << diagnostic.message;
  return dsl::emitChoreography(context, *recording, meshes);
}

void useStagedNetwork(mlir::ModuleOp choreographies) {
  mlir::MLIRContext *context = choreographies.getContext();
  for (auto choreography : choreographies.getOps<ChoreographyOp>()) {
    choreography->setDiscardableAttr(networkAttrName, mlir::DenseI64ArrayAttr::get(context, {0}));
    choreography->setDiscardableAttr(stagedAttrName, mlir::UnitAttr::get(context));
  }
}

/// Whether a pass takes an algorithm for one mesh; it must refuse others for one of these reasons.
static bool takes(const std::string &name, const Sizes &mesh, std::unique_ptr<mlir::Pass> pass,
                  llvm::ArrayRef<llvm::StringRef> refusals) {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::string reason;
  auto collect = [&](mlir::Diagnostic &diagnostic) { reason += diagnostic.str(); };
  mlir::ScopedDiagnosticHandler handler(context.get(), collect);
  mlir::OwningOpRef<mlir::ModuleOp> module = emit(*context, name, {mesh});
  mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
  manager.nest<ChoreographyOp>().addPass(std::move(pass));
  bool isTaken = mlir::succeeded(manager.run(*module));
  if (!isTaken)
    EXPECT_TRUE(llvm::any_of(refusals, [&](llvm::StringRef each) { return llvm::StringRef(reason).contains(each); }))
        << name << ": " << reason;
  return isTaken;
}

std::string requirementAgainst(const std::string &name, const Sizes &mesh) {
  std::unique_ptr<dsl::Recording> recording = dsl::record(definitionOf(name));
  const dsl::Requirement *unmet = dsl::findUnmet(*recording, mesh);
  return unmet ? dsl::describeUnmet(*recording, *unmet, mesh) : "";
}

std::vector<Sizes> allowedMeshes(const std::string &name, std::vector<Sizes> candidates) {
  llvm::erase_if(candidates, [&](const Sizes &mesh) {
    return !requirementAgainst(name, mesh).empty() ||
           !takes(name, mesh, createCheckChoreography(), {"the size must be a power of two"});
  });
  return candidates;
}

/// Those that a pass takes, on four ranks per dimension: enough for slots to be used again.
static std::vector<std::string> namesTakenBy(std::unique_ptr<mlir::Pass> (*createPass)(),
                                             llvm::ArrayRef<llvm::StringRef> refusals,
                                             std::vector<std::string> names = sweptAlgorithmNames()) {
  llvm::erase_if(names, [&](const std::string &name) {
    return !takes(name, Sizes(definitionOf(name).mesh.dims.size(), 4), createPass(), refusals);
  });
  return names;
}

static constexpr llvm::StringRef hasNoInputToPublish[] = {"from which nothing is sent here"};
/// Slots hold something of the same call, or a rank also fills its own.
static constexpr llvm::StringRef hasOtherSlots[] = {"this sends to slots that hold something of the same call",
                                                    "this sends to slots that packets cannot stand for"};

bool isProtocolUnsuited(llvm::StringRef said) {
  return llvm::any_of(llvm::concat<const llvm::StringRef>(hasNoInputToPublish, hasOtherSlots),
                      [&](llvm::StringRef refusal) { return said.contains(refusal); });
}

std::vector<std::string> publishingAlgorithmNames() {
  static const std::vector<std::string> names = namesTakenBy(createPublishInputs, hasNoInputToPublish);
  return names;
}

std::vector<std::string> packetAlgorithmNames() {
  static const std::vector<std::string> names = namesTakenBy(createPlacePackets, hasOtherSlots);
  return names;
}

std::vector<std::string> codedPacketAlgorithmNames() {
  static const std::vector<std::string> names = namesTakenBy(createPlacePackets, hasOtherSlots, codedAlgorithmNames());
  return names;
}

} // namespace kolo::test
