// Every algorithm that is linked in, compiled.
#include "Shipped.h"

#include "tools/compile/Compile.h"

namespace kolo::conformance {

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

std::vector<Sizes> meshesOf(const dsl::Definition &definition) {
  static std::map<std::string, std::vector<Sizes>> known;
  auto [entry, isNew] = known.try_emplace(definition.name);
  if (isNew) {
    entry->second = test::allowedMeshes(definition.name, candidateMeshes(definition.mesh.dims.size()));
    if (test::isForFrontier(definition))
      entry->second.push_back({1, 8});
  }
  return entry->second;
}

CompiledAlgorithm::CompiledAlgorithm(const std::string &name, bool optimize, const Schedule &schedule,
                                     const std::vector<std::string> &network)
    : context(mlir::MLIRContext::Threading::DISABLED) {
  context.loadDialect<KoloDialect>();
  const dsl::Definition &definition = definitionOf(name);
  std::vector<runtime::Mesh> meshes;
  for (const Sizes &sizes : meshesOf(definition))
    meshes.push_back(namedMesh(definition, sizes));
  test::TemporaryFolder folder;
  std::string path = folder.file(name + ".so");
  tools::compile({{definition}, meshes, path, optimize, schedule, {network}});
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
