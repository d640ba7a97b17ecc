// The shipped algorithms, emitted and compiled. Shared by the tests of this folder.
#pragma once

#include "compiler/Pipeline.h"
#include "dsl/EmitChoreography.h"
#include "kolo/runtime/Types.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace kolo::test {

using Sizes = std::vector<int64_t>; // of a mesh, slowest dimension first

/// In an order that linking does not change.
std::vector<std::string> algorithmNames();
const dsl::Definition &definitionOf(const std::string &name);
runtime::Mesh namedMesh(const dsl::Definition &definition, const Sizes &sizes);
/// A mesh of 8 ranks, and one of 8192, with the algorithm's dimensions.
Sizes smallMesh(const dsl::Definition &definition);
Sizes largeMesh(const dsl::Definition &definition);

/// A context with the dialects that choreographies use.
std::unique_ptr<mlir::MLIRContext> makeContext();
mlir::OwningOpRef<mlir::ModuleOp> emit(mlir::MLIRContext &context, const std::string &name,
                                       const std::vector<Sizes> &meshes);

/// Those that can send in packets: none of their transfers goes to slots.
std::vector<std::string> packetAlgorithmNames();

/// A folder of this test, gone at the end of the scope.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string file(const std::string &name) const { return (path / name).string(); }

private:
  std::filesystem::path path;
};

std::string readFile(const std::string &path);

/// The two parts of a plugin file.
struct PluginFile {
  std::string library, manifest;
};
PluginFile readPlugin(const std::string &path);
/// Compiles a shipped algorithm in this process.
PluginFile compilePlugin(const std::string &name, const std::vector<Sizes> &meshes, bool optimize = true);

class EveryAlgorithm : public testing::TestWithParam<std::string> {};

} // namespace kolo::test
