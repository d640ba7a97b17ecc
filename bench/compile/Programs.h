// Shipped algorithms as channel programs, for benchmarks of the compiler.
#pragma once

#include "ir/Kolo.h"
#include "kolo/dsl/Registry.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace kolo::bench {

using Sizes = std::vector<int64_t>; // of a mesh, slowest dimension first

/// Whether the algorithm may run on a mesh: some need powers of two.
bool allows(const dsl::Definition &definition, const Sizes &mesh);

/// One algorithm in channel form.
class Programs {
public:
  Programs(const dsl::Definition &definition, const std::vector<Sizes> &meshes);
  ProgramOp program(); ///< Null when the algorithm was refused.

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace kolo::bench
