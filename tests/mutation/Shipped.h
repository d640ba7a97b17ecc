// The shipped algorithms as channel programs, and the meshes that they are looked at on. Shared by the tests of this
// folder.
#pragma once

#include "Judge.h"

#include "tests/support/Algorithms.h"
#include "tests/support/Support.h"

namespace kolo::mutation {

using test::algorithmNames;
using test::EveryAlgorithm;
using test::makeContext;
using test::sweptAlgorithmNames;
using test::testSeed;
using test::textOf;

/// Allowed meshes of 2 to 8 ranks, the smallest ones first.
std::vector<Sizes> meshesOf(const std::string &algorithm);
/// Three of them, one of which is no power of two where the algorithm allows that.
std::vector<Sizes> threeMeshesOf(const std::string &algorithm);

/// Puts the moves of every fuse in its place: it is its moves one after the other, as far as other ranks can tell, and
/// each of them is changed by itself.
void openFuses(mlir::ModuleOp module);

/// A shipped algorithm as the compiler's channel pipeline gives it, for `meshes`.
class ShippedProgram {
public:
  ShippedProgram(mlir::MLIRContext &context, const std::string &algorithm, const std::vector<Sizes> &meshes,
                 bool optimize);
  ProgramOp operator*() { return *module->getOps<ProgramOp>().begin(); }

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace kolo::mutation
