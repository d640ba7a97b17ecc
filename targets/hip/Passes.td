// The pass of the hip target; GpuPipeline.cpp says when it runs.
include "mlir/Pass/PassBase.td"

def DefinePrimitives : Pass<"kolo-hip-define-primitives", "::mlir::ModuleOp"> {
  let summary = "gives the primitives of kernels their bodies for AMD devices";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::mlir::LLVM::LLVMDialect"];
}
