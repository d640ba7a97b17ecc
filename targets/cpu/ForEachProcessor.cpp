// Functions that a plugin has for both kinds of processors that there are kernels for. The dynamic linker takes the one
// for this host when the plugin is loaded: GNU indirect functions.
#include "targets/cpu/Internal.h"

#include "llvm/IR/GlobalIFunc.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace kolo::cpu {

static constexpr StringLiteral testName = "kolo.isOfLevel4";

namespace {

/// The test of the host, in words of the processor: it must not call anything, as nothing is linked yet.
class LevelTest {
public:
  LevelTest(Module &tested) : module(tested), builder(tested.getContext()), i32(builder.getInt32Ty()) {}

  Function *define() {
    auto *function =
        Function::Create(FunctionType::get(builder.getInt1Ty(), false), GlobalValue::InternalLinkage, testName, module);
    function->setDoesNotThrow();
    builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "entry", function));
    // Leaf 7: AVX-512 F, DQ, CD, BW and VL. Hosts have it: they have AVX2.
    Value *features = run("cpuid", "={eax},={ebx},={ecx},={edx},{eax},{ecx}", 4, {7, 0}, 1);
    // What the system saves: registers of SSE, AVX, and all of AVX-512.
    Value *saved = run("xgetbv", "={eax},={edx},{ecx}", 2, {0}, 0);
    builder.CreateRet(builder.CreateAnd(hasAll(features, 0xd0030000), hasAll(saved, 0xe6)));
    return function;
  }

private:
  Value *run(StringRef instruction, const Twine &constraints, unsigned numResults, ArrayRef<uint32_t> inputs,
             unsigned result) {
    SmallVector<Type *> results(numResults, i32), parameters(inputs.size(), i32);
    SmallVector<Value *> arguments;
    for (uint32_t input : inputs)
      arguments.push_back(builder.getInt32(input));
    auto *type = FunctionType::get(StructType::get(module.getContext(), results), parameters, false);
    auto *code = InlineAsm::get(type, instruction, (constraints + ",~{dirflag},~{fpsr},~{flags}").str(), true);
    return builder.CreateExtractValue(builder.CreateCall(type, code, arguments), result);
  }
  Value *hasAll(Value *bits, uint32_t wanted) {
    return builder.CreateICmpEQ(builder.CreateAnd(bits, builder.getInt32(wanted)), builder.getInt32(wanted));
  }

  Module &module;
  IRBuilder<> builder;
  Type *i32;
};

} // namespace

static void makeForBoth(Function &function, Function *test) {
  Module &module = *function.getParent();
  std::string name = function.getName().str();
  auto *pointer = PointerType::get(module.getContext(), 0);
  auto *resolver =
      Function::Create(FunctionType::get(pointer, false), GlobalValue::InternalLinkage, "kolo.resolve." + name, module);
  resolver->setDoesNotThrow();
  function.setName(name + ".x86-64-v3");
  auto *chosen =
      GlobalIFunc::create(function.getFunctionType(), 0, GlobalValue::InternalLinkage, name, resolver, &module);
  function.replaceAllUsesWith(chosen);
  ValueToValueMapTy values;
  Function *wide = CloneFunction(&function, values);
  wide->setName(name + ".x86-64-v4");
  wide->addFnAttr("target-cpu", "x86-64-v4");
  IRBuilder<> builder(BasicBlock::Create(module.getContext(), "entry", resolver));
  builder.CreateRet(builder.CreateSelect(builder.CreateCall(test), wide, &function));
}

void makeForEachProcessor(Module &module, function_ref<bool(StringRef)> isWanted) {
  SmallVector<Function *> functions;
  for (Function &function : module)
    if (!function.isDeclaration() && isWanted(function.getName()))
      functions.push_back(&function);
  if (functions.empty())
    return;
  Function *test = LevelTest(module).define();
  for (Function *function : functions)
    makeForBoth(*function, test);
}

} // namespace kolo::cpu
