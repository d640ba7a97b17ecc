#include "ConversionCode.h"

#include "targets/Linker.h"
#include "targets/cpu/CodecFunctions.h"
#include "targets/cpu/Internal.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/KernelObjects.h"
#include "targets/cpu/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/TargetParser/Host.h"

#include <dlfcn.h>

using namespace mlir;

namespace kolo::bench {

static constexpr const char *tableName = "kolo_bench_table";

[[noreturn]] static void fail(const std::string &problem) {
  llvm::errs() << "kolo-bench-codec: " << problem << '\n';
  std::exit(1);
}

/// A function that returns the codec's description.
static std::string describerOf(const codec::Codec &codec) { return "describe." + codec::textOf(codec); }

static OwningOpRef<ModuleOp> makeModule(MLIRContext &context, std::span<const codec::Codec> codecs) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  cpu::defineMoveFunctions(*module);
  cpu::declareCodedMoves(*module);
  OpBuilder builder(&context);
  Type pointer = cpu::pointerType(builder);
  for (const codec::Codec &codec : codecs) {
    cpu::createFunction(builder, *module, describerOf(codec), pointer, {}, /*isExported=*/true);
    Value description = cpu::createDescription(builder, module->getLoc(), *module, codec);
    LLVM::ReturnOp::create(builder, module->getLoc(), description);
  }
  PassManager manager(&context, ModuleOp::getOperationName());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  cpu::addControlFlowConversions(manager);
  cpu::addLlvmConversions(manager);
  return succeeded(manager.run(*module)) ? std::move(module) : nullptr;
}

/// The addresses of all descriptions, of the conversion, of the copy and of the sum.
static void addTable(llvm::Module &code, std::span<const codec::Codec> codecs, const std::string &cpu) {
  llvm::LLVMContext &context = code.getContext();
  std::vector<llvm::Constant *> entries;
  for (const codec::Codec &codec : codecs)
    entries.push_back(code.getFunction(describerOf(codec)));
  entries.push_back(code.getFunction(cpu::convertFunction));
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
  entries.push_back(code.getFunction(cpu::copyFunction));
  std::string sum = cpu::kernelSymbol(cpu, cpu::reduceKernelName(KOLO_F32, KOLO_SUM));
  entries.push_back(cast<llvm::Constant>(code.getOrInsertFunction(sum, type).getCallee()));
  auto *array = llvm::ArrayType::get(llvm::PointerType::get(context, 0), entries.size());
  new llvm::GlobalVariable(code, array, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           llvm::ConstantArray::get(array, entries), tableName);
}

static std::unique_ptr<llvm::MemoryBuffer> makeLibrary(std::span<const codec::Codec> codecs, const std::string &cpu) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context
      .loadDialect<arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  OwningOpRef<ModuleOp> module = makeModule(context, codecs);
  if (!module)
    fail("lowering failed");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(*module, llvmContext, "codecs");
  if (!code)
    fail("translation to LLVM IR failed");
  addTable(*code, codecs, cpu);
  auto object = cpu::emitObject(*code, {.cpu = cpu});
  if (!object)
    fail(toString(object.takeError()));
  SmallVector<StringRef> objects{StringRef(object->data(), object->size())};
  for (const cpu::KernelObject &kernels : cpu::kernelObjects(/*sanitizeThread=*/false))
    objects.push_back(kernels.object);
  auto library = linkShared(objects, {"-z", "defs"});
  if (!library)
    fail(toString(library.takeError()));
  return std::move(*library);
}

std::string bestCpu() { return llvm::sys::getHostCPUFeatures().lookup("avx512bw") ? "x86-64-v4" : "x86-64-v3"; }

ConversionCode makeConversionCode(std::span<const codec::Codec> codecs, const std::string &cpu) {
  std::unique_ptr<llvm::MemoryBuffer> library = makeLibrary(codecs, cpu);
  SmallString<128> path;
  int file = -1;
  if (llvm::sys::fs::createTemporaryFile("kolo-bench", "so", file, path))
    fail("cannot make a temporary file");
  llvm::FileRemover remover(path);
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << library->getBuffer();
  void *loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded)
    fail(dlerror());
  auto *entry = static_cast<void **>(dlsym(loaded, tableName));
  ConversionCode code;
  auto next = [&]<class Function>(Function &function) { function = reinterpret_cast<Function>(*entry++); };
  for (size_t i = 0; i < codecs.size(); ++i) {
    const void *(*describe)() = nullptr;
    next(describe);
    code.codecs.push_back(describe());
  }
  next(code.convert);
  next(code.copy);
  next(code.sum);
  return code;
}

} // namespace kolo::bench
