// The note of a code object: registers and memory of every kernel, as LLVM's user guide for AMDGPU defines it.
#include "ir/Kolo.h"
#include "targets/gpu/EmitCode.h"
#include "targets/hip/Internal.h"

#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace llvm;

namespace kolo::hip {

static Expected<std::string> readMetadata(StringRef codeObject) {
  auto elf = object::ELFFile<object::ELF64LE>::create(codeObject);
  if (!elf)
    return elf.takeError();
  auto sections = elf->sections();
  if (!sections)
    return sections.takeError();
  for (const auto &section : *sections) {
    if (section.sh_type != ELF::SHT_NOTE)
      continue;
    Error problem = Error::success();
    for (const auto &note : elf->notes(section, problem))
      if (note.getType() == ELF::NT_AMDGPU_METADATA) {
        consumeError(std::move(problem));
        return note.getDescAsStringRef(section.sh_addralign).str();
      }
    if (problem)
      return std::move(problem);
  }
  return createStringError("the code object has no metadata");
}

static int64_t numberIn(msgpack::MapDocNode &map, StringRef key) {
  auto found = map.find(key);
  if (found == map.end())
    return 0;
  return found->second.getKind() == msgpack::Type::UInt ? int64_t(found->second.getUInt()) : found->second.getInt();
}

static DeviceImage::Resources describe(msgpack::MapDocNode &kernel) {
  return {{"vectorRegisters", numberIn(kernel, ".vgpr_count")},
          {"accumulationRegisters", numberIn(kernel, ".agpr_count")},
          {"scalarRegisters", numberIn(kernel, ".sgpr_count")},
          {"spilledVectorRegisters", numberIn(kernel, ".vgpr_spill_count")},
          {"spilledScalarRegisters", numberIn(kernel, ".sgpr_spill_count")},
          {"stackBytes", numberIn(kernel, ".private_segment_fixed_size")},
          {"sharedBytes", numberIn(kernel, ".group_segment_fixed_size")}};
}

Expected<std::vector<DeviceImage::Resources>> readResources(StringRef codeObject, mlir::ModuleOp programs) {
  auto metadata = readMetadata(codeObject);
  if (!metadata)
    return metadata.takeError();
  msgpack::Document document;
  if (!document.readFromBlob(*metadata, /*Multi=*/false))
    return createStringError("the code object's metadata cannot be read");
  StringMap<DeviceImage::Resources> found;
  for (msgpack::DocNode &node : document.getRoot().getMap()["amdhsa.kernels"].getArray())
    found[node.getMap()[".name"].getString()] = describe(node.getMap());
  std::vector<DeviceImage::Resources> resources;
  for (auto program : programs.getOps<ProgramOp>()) {
    auto kernel = found.find(kernelName(program.getSymName().str()));
    if (kernel == found.end())
      return createStringError("the code object has no kernel " + program.getSymName());
    resources.push_back(kernel->second);
  }
  return resources;
}

} // namespace kolo::hip
