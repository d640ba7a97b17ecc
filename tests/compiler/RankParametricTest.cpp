// The size of the IR and of the code does not depend on the number of ranks: both are the same, but for the lists of
// meshes.
#include "Support.h"

#include "ir/BlockTables.h"

#include "mlir/Pass/PassManager.h"

#include <nlohmann/json.hpp>

#include <regex>

using namespace kolo;
using namespace kolo::test;

/// A mesh on which a program does all that it does on larger ones: from 32 ranks on, the eight trees of PAT use slots
/// again.
static Sizes meshWithAll(const dsl::Definition &definition) {
  return llvm::StringRef(definition.name).starts_with("pat") ? Sizes{32} : smallMesh(definition);
}

/// The channel program for one mesh, without the attributes that name meshes.
static std::string channelText(const std::string &name, const Sizes &mesh, bool optimize) {
  auto context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = emit(*context, name, {mesh});
  const int64_t budget = 1 << (isGuessedLate(definitionOf(name)) ? 20 : 16);
  mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
  buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve({}, {.optimize = optimize})),
                                 .budget = budget,
                                 .standInBudget = budget,
                                 .represented = true});
  EXPECT_TRUE(mlir::succeeded(manager.run(*module)));
  module->walk([](ProgramOp program) {
    program.removeProvedAttr();
    program->removeDiscardableAttr(blockTablesAttrName);
    program.setMeshesAttr(mlir::ArrayAttr::get(program.getContext(), {}));
  });
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

/// The manifest without what names meshes.
static nlohmann::json withoutMeshes(const std::string &manifest) {
  nlohmann::json json = nlohmann::json::parse(manifest);
  for (nlohmann::json &program : json["programs"]) {
    EXPECT_EQ(program.erase("meshes"), 1u);
    EXPECT_EQ(program.erase("proved"), 1u);
  }
  return json;
}

TEST_P(EveryAlgorithm, HasTheSameChannelProgramForEightAndForAMillionRanks) {
  const dsl::Definition &definition = definitionOf(GetParam());
  for (bool optimize : {true, false}) {
    std::string text = channelText(GetParam(), meshWithAll(definition), optimize);
    EXPECT_NE(text.find("kolo.chan.program"), std::string::npos);
    EXPECT_EQ(text, channelText(GetParam(), largeMesh(definition), optimize));
  }
}

TEST_P(EveryAlgorithm, HasTheSameCodeForEightAndForAMillionRanksAndForBothTogether) {
  const dsl::Definition &definition = definitionOf(GetParam());
  Sizes smallSizes = meshWithAll(definition), largeSizes = largeMesh(definition);
  PluginFile small = compilePlugin(GetParam(), {smallSizes}), large = compilePlugin(GetParam(), {largeSizes});
  PluginFile both = compilePlugin(GetParam(), {smallSizes, largeSizes});
  EXPECT_GT(small.library.size(), 0u);
  EXPECT_TRUE(small.library == large.library) << small.library.size() << " and " << large.library.size() << " bytes";
  EXPECT_TRUE(small.library == both.library) << small.library.size() << " and " << both.library.size() << " bytes";
  EXPECT_EQ(withoutMeshes(small.manifest), withoutMeshes(large.manifest));
  EXPECT_EQ(withoutMeshes(small.manifest), withoutMeshes(both.manifest));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(sweptAlgorithmNames()),
                         [](const auto &info) { return info.param; });
