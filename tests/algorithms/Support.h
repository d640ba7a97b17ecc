// Every algorithm that is linked in, emitted and ready to run on simulated ranks. Shared by the tests of this folder.
#pragma once

#include "tests/support/Algorithms.h"

#include "ir/reference/Interpreter.h"
#include "ir/reference/Oracle.h"

namespace kolo::reference {

using test::algorithmNames;
using test::definitionOf;
using test::EveryAlgorithm;
using test::Sizes;

/// The meshes that an algorithm with this many mesh dimensions is tested on.
std::vector<Sizes> testMeshes(size_t numDims);

/// Why an algorithm refuses a mesh; nothing when it must run there.
std::optional<std::string> reasonToRefuse(const std::string &algorithm, const Sizes &mesh);

/// One algorithm in the choreography phase, emitted once for all its test meshes.
class Algorithm {
public:
  explicit Algorithm(const std::string &name);

  ChoreographyOp choreography();
  /// A call with tagged inputs.
  SimulatedCall callOn(const Sizes &mesh, int64_t count, int64_t root, ElementType type, Reduction reduction);
  /// That a block of any buffer is cut in, on this mesh, at most.
  int64_t mostPieces(const Sizes &mesh);
  /// Of the groups that the collective runs over, on this mesh: 0 alone where the collective has no root.
  std::vector<int64_t> testRoots(const Sizes &mesh);
  /// Runs the choreography and compares all outputs with the collective's definition, bitwise.
  llvm::Error run(SimulatedCall simulated);

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Empty for success.
inline std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

/// Text that a failure starts with, to reproduce it.
std::string describe(const SimulatedCall &simulated);

} // namespace kolo::reference
