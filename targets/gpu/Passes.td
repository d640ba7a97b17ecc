// The passes that all device targets share, in the order in which GpuPipeline.cpp runs them.
include "mlir/Pass/PassBase.td"

def LowerPrograms : Pass<"kolo-gpu-lower-programs", "::mlir::ModuleOp"> {
  let summary = "turns channel programs into kernels that move what they move with all threads of a block";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::vector::VectorDialect"];
  let options = [
    ListOption<"types", "types", "std::string", "element types that programs which reduce get kernels for">,
    ListOption<"reductions", "reductions", "std::string", "reductions that they get kernels for">,
    Option<"groupSize", "group-size", "int64_t", "64", "what the number of threads of a block is a multiple of">,
    Option<"listEntries", "list-entries", "int64_t", "128", "addresses that a fuse gathers before it uses them">,
    Option<"nativeAccumulation", "native-accumulation", "bool", "false", "compute with f16 and bf16 in their own types">];
}

def PlaceInvariants : Pass<"kolo-gpu-place-invariants", "::mlir::ModuleOp"> {
  let summary = "computes once per block what only the call decides";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::mlir::LLVM::LLVMDialect"];
}

def LowerDivisions : Pass<"kolo-gpu-lower-divisions", "::mlir::ModuleOp"> {
  let summary = "makes divisions of indices calls of one function";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect"];
}

def LowerFailures : Pass<"kolo-gpu-lower-failures", "::mlir::ModuleOp"> {
  let summary = "makes a kernel end at once when a wait fails";
  let dependentDialects = ["::mlir::cf::ControlFlowDialect", "::mlir::LLVM::LLVMDialect"];
}
