// What a plugin carries for devices: the images, and KoloDevicePlugin of the device ABI, as constants.
#include "targets/TableKernels.h"
#include "targets/cpu/ProgramFunctions.h"
#include "targets/package/Internal.h"

#include "kolo/runtime/DeviceAbi.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kolo::package {

static constexpr uint64_t imageAlignment = 64;

std::vector<uint64_t> imageOffsets(const DeviceCode &devices) {
  std::vector<uint64_t> offsets;
  uint64_t end = 0;
  for (const DeviceImage &image : devices.images) {
    offsets.push_back(end);
    end = alignTo(end + image.data.size(), imageAlignment);
  }
  return offsets;
}

namespace {

class DeviceTable {
public:
  explicit DeviceTable(Module &module)
      : module(module), context(module.getContext()), pointer(PointerType::get(context, 0)) {}

  void add(ArrayRef<DeviceProgramNames> programs, const DeviceCode &devices);

private:
  GlobalVariable *global(Constant *value, const Twine &name) {
    return new GlobalVariable(module, value->getType(), /*isConstant=*/true, GlobalValue::InternalLinkage, value, name);
  }
  Constant *text(StringRef value) { return global(ConstantDataArray::getString(context, value), "text"); }
  Constant *structure(ArrayRef<Constant *> values) { return ConstantStruct::getAnon(context, values); }
  Constant *table(ArrayRef<Constant *> rows, const Twine &name) {
    return global(ConstantArray::get(ArrayType::get(rows.front()->getType(), rows.size()), rows), name);
  }
  Constant *i32(int64_t value) { return ConstantInt::get(Type::getInt32Ty(context), uint64_t(value), true); }
  Constant *i64(uint64_t value) { return ConstantInt::get(Type::getInt64Ty(context), value); }
  Constant *kernels(ArrayRef<DeviceProgramNames> programs);
  Constant *tableKernels(ArrayRef<DeviceProgramNames> programs);
  Constant *hostFunctions(ArrayRef<DeviceProgramNames> programs, std::string (*nameOf)(StringRef), const Twine &name);
  Constant *reductions(const DeviceOptions &options);
  Constant *images(const DeviceCode &devices);

  Module &module;
  LLVMContext &context;
  PointerType *pointer;
};

Constant *DeviceTable::kernels(ArrayRef<DeviceProgramNames> programs) {
  std::vector<Constant *> names;
  for (const DeviceProgramNames &program : programs)
    names.push_back(text(kernelName(program.name)));
  return table(names, "deviceKernels");
}

Constant *DeviceTable::tableKernels(ArrayRef<DeviceProgramNames> programs) {
  std::vector<Constant *> names;
  for (const DeviceProgramNames &program : programs)
    names.push_back(program.takesTables ? text(tableKernelName(program.name)) : ConstantPointerNull::get(pointer));
  return table(names, "deviceTableKernels");
}

/// Of the programs that use a staged network.
Constant *DeviceTable::hostFunctions(ArrayRef<DeviceProgramNames> programs, std::string (*nameOf)(StringRef),
                                     const Twine &name) {
  std::vector<Constant *> functions;
  for (const DeviceProgramNames &program : programs) {
    Constant *function = ConstantPointerNull::get(pointer);
    if (program.usesStagedNetwork)
      function = module.getFunction(nameOf(program.name));
    functions.push_back(function);
  }
  return table(functions, name);
}

Constant *DeviceTable::reductions(const DeviceOptions &options) {
  static_assert(sizeof(KoloDeviceReduction) == 8);
  std::vector<Constant *> rows;
  for (KoloType type : options.types)
    for (KoloReduction reduction : options.reductions)
      rows.push_back(structure({i32(type), i32(reduction)}));
  return table(rows, "deviceReductions");
}

/// All images in one section of their own, so that tools find them without running anything.
Constant *DeviceTable::images(const DeviceCode &devices) {
  static_assert(offsetof(KoloDeviceImage, data) == 16 && offsetof(KoloDeviceImage, format) == 32 &&
                sizeof(KoloDeviceImage) == 40);
  std::vector<uint64_t> offsets = imageOffsets(devices);
  std::string bytes;
  for (auto [image, offset] : zip_equal(devices.images, offsets)) {
    bytes.resize(offset);
    bytes += image.data;
  }
  GlobalVariable *all = global(ConstantDataArray::getString(context, bytes, /*AddNull=*/false), "deviceImages");
  all->setAlignment(Align(imageAlignment));
  all->setSection(imageSection);
  std::vector<Constant *> rows;
  for (auto [image, offset] : zip_equal(devices.images, offsets)) {
    Constant *data = ConstantExpr::getInBoundsGetElementPtr(Type::getInt8Ty(context), all, i64(offset));
    rows.push_back(structure(
        {text(image.kind), text(image.architecture), data, i64(image.data.size()), i32(image.format), i32(0)}));
  }
  return table(rows, "deviceImageTable");
}

void DeviceTable::add(ArrayRef<DeviceProgramNames> programs, const DeviceCode &devices) {
  static_assert(offsetof(KoloDevicePlugin, kernels) == 8 && offsetof(KoloDevicePlugin, numReductions) == 16 &&
                offsetof(KoloDevicePlugin, reductions) == 24 && offsetof(KoloDevicePlugin, tableKernels) == 40 &&
                offsetof(KoloDevicePlugin, inboxBytes) == 48 && offsetof(KoloDevicePlugin, peers) == 56 &&
                sizeof(KoloDevicePlugin) == 64);
  int64_t numReductions = int64_t(devices.options.types.size() * devices.options.reductions.size());
  Constant *plugin = global(
      structure({i32(KOLO_DEVICE_ABI_VERSION), i32(int64_t(programs.size())), kernels(programs), i32(numReductions),
                 i32(int64_t(devices.images.size())), reductions(devices.options), images(devices),
                 tableKernels(programs), hostFunctions(programs, cpu::inboxFunctionName, "deviceInboxBytes"),
                 hostFunctions(programs, cpu::peersFunctionName, "devicePeers")}),
      "devicePlugin");
  auto *entry =
      Function::Create(FunctionType::get(pointer, false), GlobalValue::ExternalLinkage, KOLO_DEVICE_SYMBOL, module);
  entry->setDoesNotThrow();
  IRBuilder<> builder(BasicBlock::Create(context, "entry", entry));
  builder.CreateRet(plugin);
}

} // namespace

void addDeviceTable(Module &module, ArrayRef<DeviceProgramNames> programs, const DeviceCode &devices) {
  DeviceTable(module).add(programs, devices);
}

} // namespace kolo::package
