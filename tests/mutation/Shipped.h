// The shipped algorithms as channel programs, and the meshes that they are looked at on. Shared by the tests of this
// folder.
#pragma once

#include "Judge.h"

#include "dsl/EmitChoreography.h"

#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>

namespace kolo::mutation {

/// In an order that linking does not change.
std::vector<std::string> algorithmNames();

/// Allowed meshes of 2 to 8 ranks, the smallest ones first.
std::vector<Sizes> meshesOf(const std::string &algorithm);
/// Three of them, one of which is no power of two where the algorithm allows that.
std::vector<Sizes> threeMeshesOf(const std::string &algorithm);

std::string textOf(llvm::ArrayRef<int64_t> mesh);

/// The seed of this process: KOLO_SEED if that is set. Printed once.
uint64_t testSeed();

/// Makes the context that all programs of a test share.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// A shipped algorithm as the compiler's channel pipeline gives it, for `meshes`.
class ShippedProgram {
public:
  ShippedProgram(mlir::MLIRContext &context, const std::string &algorithm, const std::vector<Sizes> &meshes,
                 bool optimize);
  ProgramOp operator*() { return *module->getOps<ProgramOp>().begin(); }

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

class EveryAlgorithm : public testing::TestWithParam<std::string> {};

} // namespace kolo::mutation
