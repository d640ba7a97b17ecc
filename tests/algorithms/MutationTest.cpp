// No algorithm has a statement too many, and the tests of this folder would notice one too few.
#include "Support.h"

using namespace kolo::reference;

/// Elements of which every piece of every block has some, and not all pieces as many.
static int64_t elementsForAllPieces(Algorithm &algorithm, const Sizes &mesh) {
  constexpr int64_t elementsOfPiece = 16 / sizeof(int32_t); // see Layout.h
  return algorithm.mostPieces(mesh) * elementsOfPiece + 1;
}

/// Those of all tests, and one on which algorithms go on that send in one message what few ranks have.
static std::vector<Sizes> meshesOfMutants(size_t numDims) {
  std::vector<Sizes> meshes = testMeshes(numDims);
  if (numDims == 1)
    meshes.push_back({32});
  return meshes;
}

/// Whether some call gives anything but the expected output.
static bool failsSomewhere(Algorithm &algorithm, const std::string &name) {
  for (const Sizes &mesh : meshesOfMutants(definitionOf(name).mesh.dims.size())) {
    if (reasonToRefuse(name, mesh))
      continue;
    const int64_t count = elementsForAllPieces(algorithm, mesh);
    for (int64_t root : algorithm.testRoots(mesh))
      if (llvm::Error error = algorithm.run(algorithm.callOn(mesh, count, root, ElementType::I32, Reduction::Sum))) {
        llvm::consumeError(std::move(error));
        return true;
      }
  }
  return false;
}

static std::vector<kolo::StatementInterface> statementsOf(Algorithm &algorithm) {
  std::vector<kolo::StatementInterface> result;
  algorithm.choreography().walk([&](kolo::StatementInterface statement) { result.push_back(statement); });
  return result;
}

TEST_P(EveryAlgorithm, NeedsEveryOneOfItsStatements) {
  Algorithm original(GetParam());
  size_t numStatements = statementsOf(original).size();
  EXPECT_GT(numStatements, 0u);
  for (size_t i = 0; i < numStatements; ++i) {
    Algorithm mutant(GetParam());
    kolo::StatementInterface statement = statementsOf(mutant)[i];
    std::string text;
    llvm::raw_string_ostream(text) << statement.getLoc() << "\n" << statement;
    statement.erase();
    EXPECT_TRUE(failsSomewhere(mutant, GetParam())) << "right without the statement at " << text;
  }
}
