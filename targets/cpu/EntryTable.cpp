// The table of entry points of a plugin: KoloPlugin of the plugin ABI, as constants.
#include "targets/cpu/Internal.h"
#include "targets/cpu/KernelObjects.h"
#include "targets/cpu/Kernels.h"
#include "targets/cpu/ProgramFunctions.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace kolo::cpu {

namespace {

class EntryTable {
public:
  explicit EntryTable(Module &module)
      : module(module), context(module.getContext()), pointer(PointerType::get(context, 0)),
        i32(Type::getInt32Ty(context)) {}

  void add(ArrayRef<std::string> programs, ArrayRef<codec::Codec> codecs, ArrayRef<KernelObject> kernels);

private:
  Constant *function(const std::string &name) { return module.getFunction(name); }
  Constant *null() { return ConstantPointerNull::get(pointer); }
  Constant *global(Constant *value, const Twine &name) {
    return new GlobalVariable(module, value->getType(), /*isConstant=*/true, GlobalValue::InternalLinkage, value, name);
  }
  Constant *pointers(ArrayRef<Constant *> values) {
    return ConstantArray::get(ArrayType::get(pointer, values.size()), values);
  }
  Constant *structure(ArrayRef<Constant *> values) { return ConstantStruct::getAnon(context, values); }
  Constant *number(uint64_t value) { return ConstantInt::get(i32, value); }
  Constant *programTable(ArrayRef<std::string> programs);
  Constant *codecTable(ArrayRef<codec::Codec> codecs);
  Constant *kernel(StringRef cpu, StringRef name);
  Constant *kernelsTable(ArrayRef<KernelObject> kernels);

  Module &module;
  LLVMContext &context;
  PointerType *pointer;
  Type *i32;
};

Constant *EntryTable::programTable(ArrayRef<std::string> programs) {
  std::vector<Constant *> entries; // six pointers each: KoloProgram
  auto orNull = [&](Constant *value) { return value ? value : null(); };
  for (const std::string &program : programs) {
    entries.push_back(global(ConstantDataArray::getString(context, program), "name." + program));
    entries.push_back(function(runFunctionName(program)));
    entries.push_back(function(scratchFunctionName(program)));
    entries.push_back(orNull(function(publishFunctionName(program))));
    entries.push_back(orNull(function(publishedFunctionName(program))));
    entries.push_back(orNull(function(packetsFunctionName(program))));
  }
  static_assert(sizeof(KoloProgram) == 6 * sizeof(void *));
  return global(pointers(entries), "programs");
}

Constant *EntryTable::codecTable(ArrayRef<codec::Codec> codecs) {
  std::vector<Constant *> entries; // two pointers each: KoloCodec
  for (const codec::Codec &codec : codecs) {
    std::string text = codec::textOf(codec);
    entries.push_back(global(ConstantDataArray::getString(context, text), "codec." + text));
    entries.push_back(function(roundTripName(codec)));
  }
  static_assert(sizeof(KoloCodec) == 2 * sizeof(void *));
  return global(pointers(entries), "codecs");
}

/// A kernel that is linked in.
Constant *EntryTable::kernel(StringRef cpu, StringRef name) {
  auto type = FunctionType::get(Type::getVoidTy(context), false); // of no meaning where its address is taken
  auto *function = cast<Function>(module.getOrInsertFunction(kernelSymbol(cpu, name), type).getCallee());
  function->setVisibility(GlobalValue::HiddenVisibility);
  return function;
}

/// One KoloKernels for each kind of processor.
Constant *EntryTable::kernelsTable(ArrayRef<KernelObject> kernels) {
  std::vector<Constant *> sets;
  for (const KernelObject &object : kernels) {
    std::string cpu = object.cpu;
    std::vector<Constant *> reductions, averages;
    for (int type = 0; type < KOLO_NUM_TYPES; ++type) {
      for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction)
        reductions.push_back(kernel(cpu, reduceKernelName(KoloType(type), KoloReduction(reduction))));
      averages.push_back(kernel(cpu, averageKernelName(KoloType(type))));
    }
    sets.push_back(structure({global(ConstantDataArray::getString(context, cpu), "cpu." + cpu),
                              global(pointers(reductions), "reduceKernels." + cpu),
                              global(pointers(averages), "averageKernels." + cpu)}));
  }
  static_assert(sizeof(KoloKernels) == 3 * sizeof(void *));
  return global(ConstantArray::get(ArrayType::get(sets.front()->getType(), sets.size()), sets), "kernels");
}

void EntryTable::add(ArrayRef<std::string> programs, ArrayRef<codec::Codec> codecs, ArrayRef<KernelObject> kernels) {
  static_assert(offsetof(KoloPlugin, programs) == 8 && offsetof(KoloPlugin, numKernels) == 16 &&
                offsetof(KoloPlugin, numCodecs) == 32 && sizeof(KoloPlugin) == 48);
  auto wide = [&](uint64_t value) { return ConstantInt::get(Type::getInt64Ty(context), value); };
  Constant *plugin = global(structure({number(KOLO_ABI_VERSION), number(programs.size()), programTable(programs),
                                       wide(kernels.size()), kernels.empty() ? null() : kernelsTable(kernels),
                                       wide(codecs.size()), codecs.empty() ? null() : codecTable(codecs)}),
                            "plugin");
  auto *entry =
      Function::Create(FunctionType::get(pointer, false), GlobalValue::ExternalLinkage, KOLO_PLUGIN_SYMBOL, module);
  entry->setDoesNotThrow();
  IRBuilder<> builder(BasicBlock::Create(context, "entry", entry));
  builder.CreateRet(plugin);
}

} // namespace

void addEntryTable(Module &module, ArrayRef<std::string> programs, ArrayRef<codec::Codec> codecs,
                   ArrayRef<KernelObject> kernels) {
  EntryTable(module).add(programs, codecs, kernels);
}

} // namespace kolo::cpu
