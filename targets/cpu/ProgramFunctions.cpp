// Names and shapes of the functions that LowerMoves generates.
#include "targets/cpu/ProgramFunctions.h"

#include "targets/Elements.h"
#include "targets/cpu/Kernels.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kolo::cpu {

std::string runFunctionName(StringRef program) { return "run." + program.str(); }
std::string publishFunctionName(StringRef program) { return "publish." + program.str(); }
std::string publishedFunctionName(StringRef program) { return "publishedBytes." + program.str(); }
std::string packetsFunctionName(StringRef program) { return "packetBytes." + program.str(); }
std::string scratchFunctionName(StringRef program) { return "scratchBytes." + program.str(); }
std::string inboxFunctionName(StringRef program) { return "inboxBytes." + program.str(); }
std::string peersFunctionName(StringRef program) { return "peers." + program.str(); }
std::string reduceKernelName(KoloType type, KoloReduction reduction) { return reductionName(type, reduction); }
std::string kernelSymbol(StringRef cpu, StringRef kernel) { return (cpu + "." + kernel).str(); }
std::string roundTripName(const codec::Codec &codec) { return "kolo.roundTrip." + codec::textOf(codec); }
std::string averageKernelName(KoloType type) { return std::string("average.") + nameOf(type); }

void declareFunction(OpBuilder &builder, ModuleOp module, StringRef name, ArrayRef<Type> arguments, Type result) {
  builder.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(builder.getContext()), arguments);
  auto function = LLVM::LLVMFuncOp::create(builder, module.getLoc(), name, type);
  function.setVisibility_(LLVM::Visibility::Hidden);
  function.setNoUnwind(true);
}

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
