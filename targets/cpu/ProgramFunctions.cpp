// Names and shapes of the functions that LowerMoves generates.
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kolo::cpu {

static constexpr const char *typeNames[KOLO_NUM_TYPES] = {"f16", "bf16", "f32", "f64", "i8",
                                                          "u8",  "i32",  "u32", "i64", "u64"};
static constexpr const char *reductionNames[KOLO_NUM_REDUCTIONS] = {"sum", "product", "min", "max", "sum"};

std::string runFunctionName(StringRef program) { return "run." + program.str(); }
std::string scratchFunctionName(StringRef program) { return "scratchBytes." + program.str(); }
std::string reduceKernelName(KoloType type, KoloReduction reduction) {
  // Sums and products of integers are the same with and without a sign.
  bool isSigned = reduction == KOLO_MIN || reduction == KOLO_MAX;
  if (!isSigned && (type == KOLO_U8 || type == KOLO_U32 || type == KOLO_U64))
    type = KoloType(type - 1);
  return std::string(reductionNames[reduction]) + "." + typeNames[type];
}
std::string divideKernelName(KoloType type) { return std::string("divide.") + typeNames[type]; }

LLVM::LLVMFuncOp createFunction(OpBuilder &builder, ModuleOp module, StringRef name, Type result,
                                ArrayRef<Type> arguments, bool isExported) {
  builder.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(builder.getContext()), arguments);
  auto function = LLVM::LLVMFuncOp::create(builder, module.getLoc(), name, type,
                                           isExported ? LLVM::Linkage::External : LLVM::Linkage::Internal);
  function.setNoUnwind(true);
  function.setPassthroughAttr(builder.getStrArrayAttr({"no-builtins"}));
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  return function;
}

} // namespace kolo::cpu
