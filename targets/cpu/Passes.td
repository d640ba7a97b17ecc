// The passes of the cpu target, in the order in which CpuPipeline.cpp runs them.
include "mlir/Pass/PassBase.td"

def LowerMoves : Pass<"kolo-cpu-lower-moves", "::mlir::ModuleOp"> {
  let summary = "turns channel programs into functions, and what they move into loops over byte ranges";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect"];
}

def LowerWaits : Pass<"kolo-cpu-lower-waits", "::mlir::ModuleOp"> {
  let summary = "makes a program return at once when a wait fails";
  let dependentDialects = ["::mlir::cf::ControlFlowDialect", "::mlir::LLVM::LLVMDialect"];
}
