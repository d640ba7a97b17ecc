// The programs that tokens travel by in the tests of experts.
#pragma once

#include "Shipped.h"

#include "kolo/runtime/Experts.h"
#include "tools/compile/Compile.h"

#include <optional>
#include <string>
#include <vector>

namespace kolo::conformance {

/// The programs that take tokens from rank to rank of a mesh.
class ExpertPrograms {
public:
  ExpertPrograms(const std::vector<std::string> &names, const std::vector<std::string> &meshes,
                 const std::vector<std::string> &network = {}) {
    std::vector<dsl::Definition> definitions;
    for (const std::string &name : names)
      definitions.push_back(definitionOf(name));
    std::vector<runtime::Mesh> parsed;
    for (const std::string &mesh : meshes)
      parsed.push_back(*runtime::Mesh::parse(mesh));
    test::TemporaryFolder folder;
    const std::string path = folder.file("experts.so");
    tools::compile({definitions, parsed, path, /*optimize=*/true, {}, {.dims = network}});
    loaded.emplace(runtime::Plugin::load(path).value());
  }
  const runtime::Plugin &plugin() const { return *loaded; }

private:
  std::optional<runtime::Plugin> loaded;
};

inline const runtime::Plugin &directExperts() {
  static const ExpertPrograms programs({"directAllToAll"}, {"rank=1", "rank=2", "rank=3", "rank=4", "rank=8"});
  return programs.plugin();
}
inline const runtime::Plugin &expertsByNodes() {
  static const ExpertPrograms programs(
      {"nodeAllToAll", "railAllToAll"},
      {"node=2,gpu=2", "node=1,gpu=3", "node=3,gpu=1", "node=2,gpu=4", "node=4,gpu=2"});
  return programs.plugin();
}

} // namespace kolo::conformance
