// The shipped algorithms, emitted and compiled. Shared by the tests of this folder.
#pragma once

#include "tests/support/Algorithms.h"
#include "tests/support/Support.h"

#include "compiler/Pipeline.h"

namespace kolo::test {

/// A mesh of as many ranks as a mesh may have, with the dimensions of an algorithm.
Sizes largeMesh(const dsl::Definition &definition);
/// Whether small meshes do not tell yet which flushes a program needs, so that a guess takes a larger budget.
bool isGuessedLate(const dsl::Definition &definition);

/// The two parts of a plugin file.
struct PluginFile {
  std::string library, manifest;
};
PluginFile readPlugin(const std::string &path);
/// Compile a shipped algorithm in this process. Smaller meshes may represent those of thousands of ranks.
void compilePluginTo(const std::string &path, const std::string &name, const std::vector<Sizes> &meshes, bool optimize);
PluginFile compilePlugin(const std::string &name, const std::vector<Sizes> &meshes, bool optimize = true);

} // namespace kolo::test
