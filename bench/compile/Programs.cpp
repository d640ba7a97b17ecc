#include "Programs.h"

#include "compiler/Passes.h"
#include "compiler/Pipeline.h"
#include "dsl/EmitChoreography.h"
#include "dsl/Recording.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

namespace kolo::bench {

static void prepare(mlir::MLIRContext &context) {
  context.loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
}

bool allows(const dsl::Definition &definition, const Sizes &mesh) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  prepare(context);
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
  auto recording = dsl::record(definition);
  auto module = dsl::emitChoreography(context, *recording, {mesh});
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  manager.addNestedPass<ChoreographyOp>(createCheckChoreography());
  return mlir::succeeded(manager.run(*module));
}

Programs::Programs(const dsl::Definition &definition, const std::vector<Sizes> &meshes)
    : context(mlir::MLIRContext::Threading::DISABLED) {
  prepare(context);
  auto recording = dsl::record(definition);
  module = dsl::emitChoreography(context, *recording, meshes);
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  buildChannelPipeline(manager, {});
  if (mlir::failed(manager.run(*module)))
    module = nullptr;
}

ProgramOp Programs::program() {
  if (!module)
    return {};
  return *module->getOps<ProgramOp>().begin();
}

} // namespace kolo::bench
