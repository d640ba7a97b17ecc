// The shipped algorithms, emitted and compiled.
#include "Support.h"

#include "compiler/Passes.h"
#include "driver/Compile.h"
#include "kolo/runtime/PluginAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include <unistd.h>

namespace kolo::test {

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

runtime::Mesh namedMesh(const dsl::Definition &definition, const Sizes &sizes) {
  std::vector<runtime::MeshDim> dims;
  for (auto [name, size] : llvm::zip_equal(definition.mesh.dims, sizes))
    dims.push_back({name, size});
  return *runtime::Mesh::create(dims);
}

Sizes smallMesh(const dsl::Definition &definition) {
  static const std::vector<Sizes> meshes = {{}, {8}, {2, 4}, {2, 2, 2}, {1, 2, 2, 2}};
  return meshes[definition.mesh.dims.size()];
}

Sizes largeMesh(const dsl::Definition &definition) {
  static const std::vector<Sizes> meshes = {{}, {8192}, {1024, 8}, {1024, 4, 2}, {1024, 2, 2, 2}};
  return meshes[definition.mesh.dims.size()];
}

std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
  return context;
}

mlir::OwningOpRef<mlir::ModuleOp> emit(mlir::MLIRContext &context, const std::string &name,
                                       const std::vector<Sizes> &meshes) {
  std::unique_ptr<dsl::Recording> recording = dsl::record(definitionOf(name));
  EXPECT_TRUE(recording->diagnostics.empty());
  return dsl::emitChoreography(context, *recording, meshes);
}

std::vector<std::string> packetAlgorithmNames() {
  std::vector<std::string> names;
  for (const std::string &name : algorithmNames()) {
    std::unique_ptr<mlir::MLIRContext> context = makeContext();
    mlir::ScopedDiagnosticHandler quiet(context.get(), [](mlir::Diagnostic &) {});
    mlir::OwningOpRef<mlir::ModuleOp> module = emit(*context, name, {smallMesh(definitionOf(name))});
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    manager.nest<ChoreographyOp>().addPass(createPlacePackets());
    if (succeeded(manager.run(*module)))
      names.push_back(name);
  }
  return names;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kolo-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

PluginFile readPlugin(const std::string &path) {
  std::string bytes = readFile(path);
  KoloPluginFooter footer;
  if (bytes.size() < sizeof(footer)) {
    ADD_FAILURE() << path << " is no plugin";
    return {};
  }
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof(footer), sizeof(footer));
  EXPECT_EQ(footer.elfBytes + footer.manifestBytes + sizeof(footer), bytes.size()) << path;
  return {bytes.substr(0, footer.elfBytes), bytes.substr(footer.elfBytes, footer.manifestBytes)};
}

PluginFile compilePlugin(const std::string &name, const std::vector<Sizes> &meshes, bool optimize) {
  TemporaryFolder folder;
  const dsl::Definition &definition = definitionOf(name);
  std::vector<runtime::Mesh> named;
  for (const Sizes &sizes : meshes)
    named.push_back(namedMesh(definition, sizes));
  tools::compile({{definition}, named, folder.file("plugin.so"), optimize});
  return readPlugin(folder.file("plugin.so"));
}

} // namespace kolo::test
