// The pass of the cuda target; GpuPipeline.cpp says when it runs.
include "mlir/Pass/PassBase.td"

def DefinePrimitives : Pass<"kolo-cuda-define-primitives", "::mlir::ModuleOp"> {
  let summary = "gives the primitives of kernels their bodies for NVIDIA devices";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect"];
}
