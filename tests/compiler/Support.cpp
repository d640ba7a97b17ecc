// The shipped algorithms, emitted and compiled.
#include "Support.h"

#include "kolo/runtime/PluginAbi.h"
#include "tools/compile/Compile.h"

#include <cstring>
#include <set>

namespace kolo::test {

Sizes largeMesh(const dsl::Definition &definition) {
  static const std::vector<Sizes> meshes = {{}, {1048576}, {131072, 8}, {131072, 4, 2}, {131072, 2, 2, 2}};
  return meshes[definition.mesh.dims.size()];
}

bool isGuessedLate(const dsl::Definition &definition) {
  static const std::set<llvm::StringRef> names = {"bineBroadcast", "doubleTreeBroadcast", "patReduceScatter",
                                                  "recursiveMultiplyingBroadcast"};
  return names.contains(definition.name);
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

void compilePluginTo(const std::string &path, const std::string &name, const std::vector<Sizes> &meshes,
                     bool optimize) {
  const dsl::Definition &definition = definitionOf(name);
  tools::CompileRequest request{{definition}, {}, path, optimize};
  for (const Sizes &sizes : meshes) {
    request.meshes.push_back(namedMesh(definition, sizes));
    int64_t numRanks = request.meshes.back().numRanks();
    if (numRanks > 1 << 10) {
      request.represented = true;
      request.budget = int64_t(1) << (numRanks <= 1 << 17 ? 23 : isGuessedLate(definition) ? 20 : 16);
    }
  }
  tools::compile(request);
}

PluginFile compilePlugin(const std::string &name, const std::vector<Sizes> &meshes, bool optimize) {
  TemporaryFolder folder;
  const std::string path = folder.file("plugin.so");
  compilePluginTo(path, name, meshes, optimize);
  return readPlugin(path);
}

} // namespace kolo::test
