// The table of entry points of a plugin: KoloPlugin of the plugin ABI, as constants.
#include "targets/cpu/Internal.h"
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

  void add(ArrayRef<std::string> programs);

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
  Constant *reduceTable();
  Constant *divideTable();

  Module &module;
  LLVMContext &context;
  PointerType *pointer;
  Type *i32;
};

Constant *EntryTable::programTable(ArrayRef<std::string> programs) {
  std::vector<Constant *> entries; // five pointers each: KoloProgram
  auto orNull = [&](Constant *value) { return value ? value : null(); };
  for (const std::string &program : programs) {
    entries.push_back(global(ConstantDataArray::getString(context, program), "name." + program));
    entries.push_back(function(runFunctionName(program)));
    entries.push_back(function(scratchFunctionName(program)));
    entries.push_back(orNull(function(publishFunctionName(program))));
    entries.push_back(orNull(function(publishedFunctionName(program))));
  }
  static_assert(sizeof(KoloProgram) == 5 * sizeof(void *));
  return global(pointers(entries), "programs");
}

Constant *EntryTable::reduceTable() {
  std::vector<Constant *> kernels;
  for (int type = 0; type < KOLO_NUM_TYPES; ++type)
    for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction)
      kernels.push_back(function(reduceKernelName(KoloType(type), KoloReduction(reduction))));
  return kernels.front() ? global(pointers(kernels), "reduceKernels") : null();
}

Constant *EntryTable::divideTable() {
  std::vector<Constant *> kernels;
  for (int type = 0; type < KOLO_NUM_TYPES; ++type)
    kernels.push_back(function(divideKernelName(KoloType(type))));
  return kernels.front() ? global(pointers(kernels), "divideKernels") : null();
}

void EntryTable::add(ArrayRef<std::string> programs) {
  static_assert(offsetof(KoloPlugin, programs) == 8 && sizeof(KoloPlugin) == 32);
  Constant *plugin = global(structure({number(KOLO_ABI_VERSION), number(programs.size()), programTable(programs),
                                       reduceTable(), divideTable()}),
                            "plugin");
  auto *entry = Function::Create(FunctionType::get(pointer, false), GlobalValue::ExternalLinkage, KOLO_PLUGIN_SYMBOL,
                                 module);
  entry->setDoesNotThrow();
  IRBuilder<> builder(BasicBlock::Create(context, "entry", entry));
  builder.CreateRet(plugin);
}

} // namespace

void addEntryTable(Module &module, ArrayRef<std::string> programs) { EntryTable(module).add(programs); }

} // namespace kolo::cpu
