#include "call/Call.h"

#include "base/Error.h"
#include "call/WideAverage.h"
#include "loader/Selection.h"

#include <algorithm>
#include <bit>

namespace kolo::runtime {
namespace {

/// Position of this rank among those that the collective runs over.
struct Group {
  int64_t size = 1;
  int64_t rank = 0;
};

void setProgram(const PluginState &plugin, size_t index, Call &call) {
  call.info = &plugin.manifest.programs[index];
  call.program = &plugin.table->programs[index];
  call.key.program = static_cast<int32_t>(index);
}

Status findProgram(const PluginState &plugin, const CallArguments &arguments, Call &call) {
  const std::vector<ProgramInfo> &programs = plugin.manifest.programs;
  if (arguments.program.empty() && programs.size() > 1)
    return error(StatusCode::InvalidArgument, "{}: has {} programs: name one", plugin.path, programs.size());
  for (size_t index = 0; index < programs.size(); ++index)
    if (arguments.program.empty() || programs[index].name == arguments.program) {
      setProgram(plugin, index, call);
      if (arguments.collective && *arguments.collective != call.info->collective)
        return error(StatusCode::InvalidArgument, "program '{}' is no {}, which the call asks for", call.info->name,
                     toString(*arguments.collective));
      return {};
    }
  return error(StatusCode::InvalidArgument, "{}: has no program '{}'", plugin.path, arguments.program);
}

std::string listMeshes(const ProgramInfo &info) {
  std::string text;
  for (const std::vector<int64_t> &sizes : info.meshes) {
    text += text.empty() ? "" : "; ";
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      text += fmt::format("{}{}={}", dim ? "," : "", info.meshDims[dim], sizes[dim]);
  }
  return text.empty() ? "none" : text;
}

Status checkRanks(const Mesh &mesh, int size) {
  return mesh.numRanks() == size ? Status()
                                 : error(StatusCode::InvalidArgument, "mesh {} has {} ranks, the communicator has {}",
                                         mesh.toString(), mesh.numRanks(), size);
}

Status checkMesh(int rank, int size, Call &call) {
  const ProgramInfo &info = *call.info;
  const Mesh &mesh = call.mesh;
  const std::vector<MeshDim> &dims = mesh.dims();
  bool hasNames = std::equal(dims.begin(), dims.end(), info.meshDims.begin(), info.meshDims.end(),
                             [](const MeshDim &dim, const std::string &name) { return dim.name == name; });
  auto hasSizes = [&](const std::vector<int64_t> &sizes) {
    return std::equal(dims.begin(), dims.end(), sizes.begin(), sizes.end(),
                      [](const MeshDim &dim, int64_t dimSize) { return dim.size == dimSize; });
  };
  if (!hasNames || std::none_of(info.meshes.begin(), info.meshes.end(), hasSizes))
    return error(StatusCode::UnsupportedMesh, "program '{}' was not compiled for mesh {}; it was for: {}", info.name,
                 mesh.toString(), listMeshes(info));
  std::vector<int64_t> sizes;
  for (const MeshDim &dim : dims)
    sizes.push_back(dim.size);
  call.isProved = info.isProved(sizes);
  if (!call.isProved && !info.isUnproved)
    return error(StatusCode::UnsupportedMesh, "program '{}' is not proved on mesh {}", info.name, mesh.toString());
  if (Status status = checkRanks(mesh, size); !status.isOk())
    return status;
  int64_t rest = rank;
  for (size_t dim = dims.size(); dim-- > 0; rest /= dims[dim].size) {
    call.dimSizes[dim] = call.key.mesh[dim] = dims[dim].size;
    call.coordinates[dim] = rest % dims[dim].size;
  }
  return {};
}

Group groupOf(const Call &call) {
  Group group;
  for (int index : call.info->groupDims) {
    auto dim = static_cast<size_t>(index);
    group.size *= call.dimSizes[dim];
    group.rank = group.rank * call.dimSizes[dim] + call.coordinates[dim];
  }
  return group;
}

/// To the peers, types and reductions that Kolo has no name for have numbers beyond its own: see CallIdentity.cpp.
Status checkCustom(const CustomReduction &custom, Call &call) {
  const int64_t elementBytes = custom.elementBytes;
  if (elementBytes < 1 || elementBytes > 16 || !std::has_single_bit(static_cast<uint64_t>(elementBytes)))
    return error(StatusCode::InvalidArgument,
                 "a reduction of the caller's own is of elements of 1, 2, 4, 8 or 16 "
                 "bytes, not of {}",
                 elementBytes);
  if (custom.number < 0 || custom.number > INT32_MAX - KOLO_NUM_REDUCTIONS)
    return error(StatusCode::InvalidArgument, "a reduction of the caller's own has the number {}", custom.number);
  call.elementBytes = elementBytes;
  call.key.type = call.computedType = KOLO_NUM_TYPES + static_cast<int32_t>(elementBytes);
  call.key.reduction = KOLO_NUM_REDUCTIONS + custom.number;
  call.reduce = custom.kernel;
  return {};
}

Status checkType(const CallArguments &arguments, Call &call) {
  if (arguments.custom.kernel)
    return checkCustom(arguments.custom, call);
  auto type = static_cast<size_t>(arguments.type);
  if (type >= KOLO_NUM_TYPES)
    return error(StatusCode::InvalidArgument, "{} is not a data type", type);
  call.elementBytes = static_cast<int64_t>(sizeBytes(arguments.type));
  call.key.type = call.computedType = static_cast<int32_t>(type);
  return {};
}

bool hasCodecs(const ProgramInfo &info) { return info.granule != 0; }

Status checkCodecs(const CallArguments &arguments, const Call &call) {
  if (arguments.custom.kernel && !call.info->reduces)
    return error(StatusCode::InvalidArgument,
                 "program '{}' reduces nothing, and is called with a reduction of the "
                 "caller's own",
                 call.info->name);
  if (arguments.custom.kernel && hasCodecs(*call.info))
    return error(StatusCode::InvalidArgument, "program '{}' has codecs, and takes no reduction of the caller's own",
                 call.info->name);
  std::string mistake = findCodecMistake(*call.info, arguments.type, arguments.reduction);
  return mistake.empty() ? Status() : error(StatusCode::InvalidArgument, "program '{}' {}", call.info->name, mistake);
}

Status chooseKernels(const PluginState &plugin, const CallArguments &arguments, bool widensAverages, Call &call) {
  auto reduction = static_cast<size_t>(arguments.reduction);
  if (!call.info->reduces || arguments.custom.kernel)
    return {};
  if (widensAverages && isWidened(arguments.type, arguments.reduction)) {
    call.computedType = KOLO_F32;
    call.elementBytes = static_cast<int64_t>(sizeBytes(DataType::F32));
  }
  auto type = static_cast<size_t>(call.computedType);
  if (reduction >= KOLO_NUM_REDUCTIONS)
    return error(StatusCode::InvalidArgument, "{} is not a reduction", reduction);
  call.key.reduction = static_cast<int32_t>(reduction);
  call.reduce = plugin.kernels->reduce[type][reduction];
  if (arguments.reduction == Reduction::Average)
    call.average = plugin.kernels->average[type];
  if (hasCodecs(*call.info))
    call.reduceNumbers = plugin.kernels->reduce[KOLO_F32][reduction];
  if (!call.reduce || (arguments.reduction == Reduction::Average && !call.average))
    return error(StatusCode::BadPlugin, "{}: has no code for {} of {}", plugin.path, toString(arguments.reduction),
                 toString(arguments.type));
  return {};
}

Extent extentOf(const CollectiveFacts &facts, const Group &group, bool isRoot) {
  auto blocksOf = [&](KoloExtent extent) -> int64_t {
    if (isAtRoot(extent) && !isRoot)
      return 0;
    return isPerRank(extent) ? group.size : 1;
  };
  return {blocksOf(facts.input), blocksOf(facts.output)};
}

/// Offset of the input in the output, in multiples of count, when a call is in place as the collective defines it.
int64_t inPlaceOffset(const CollectiveFacts &facts, const Group &group) {
  if (isPerRank(facts.input) == isPerRank(facts.output))
    return 0;
  return isPerRank(facts.output) ? group.rank : -group.rank;
}

Status sizeBuffers(CollectiveKind kind, const CallArguments &arguments, const Group &group, Call &call) {
  CollectiveFacts facts = factsOf(kind);
  bool isRoot = hasRoot(kind) && arguments.root == group.rank;
  int64_t unitBytes = 0, wholeBytes = 0;
  if (arguments.count < 0)
    return error(StatusCode::InvalidArgument, "count is {}", arguments.count);
  if (__builtin_mul_overflow(arguments.count, call.elementBytes, &unitBytes) ||
      __builtin_mul_overflow(unitBytes, group.size, &wholeBytes))
    return error(StatusCode::InvalidArgument, "count {} is too large", arguments.count);
  call.extent = extentOf(facts, group, isRoot);
  call.largest = extentOf(facts, group, true);
  call.inPlaceOffset = inPlaceOffset(facts, group);
  call.inputBytes = static_cast<size_t>(call.extent.input * unitBytes);
  call.outputBytes = static_cast<size_t>(call.extent.output * unitBytes);
  call.setPointers(arguments);
  return call.checkPointers();
}

/// Takes the program from the plugin's selection, which is for collectives over all ranks.
Status selectProgram(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments,
                     const Planner &planner, Call &call) {
  if (plugin.manifest.selection.empty())
    return error(StatusCode::InvalidArgument, "{}: selects no program for {}: name one", plugin.path,
                 toString(*arguments.collective));
  if (Status status = checkRanks(arguments.mesh, planner.size); !status.isOk())
    return status;
  Call sized = call;
  if (Status status = sizeBuffers(*arguments.collective, arguments, {planner.size, planner.rank}, sized);
      !status.isOk())
    return status;
  int64_t numBytes = std::max(sized.largest.input, sized.largest.output) * sized.unitBytes();
  call.memory = sized.memoryKind(segments);
  MemoryKind memory = std::max(planner.least, call.memory);
  const DataType type = arguments.custom.kernel ? DataType::U8 : arguments.type; // no codec is for u8
  auto entryFor = [&](bool allowsLoss) {
    auto inMemory = [&](MemoryKind kind) {
      return select(
          plugin.manifest.selection, plugin.manifest.programs,
          {*arguments.collective, arguments.mesh, numBytes, kind, type, arguments.reduction, planner.tag, allowsLoss});
    };
    const SelectionEntry *entry = inMemory(memory);
    return !entry && memory == MemoryKind::Windows ? inMemory(MemoryKind::Ordinary) : entry;
  };
  const SelectionEntry *entry = entryFor(arguments.allowsLoss);
  if (const SelectionEntry *lossy = entry ? nullptr : entryFor(true))
    return error(
        StatusCode::InvalidArgument,
        "{}: selects only '{}' for {} of {} bytes on {} ranks, which loses bits, and neither its entry nor the "
        "call allows that",
        plugin.path, plugin.manifest.programs[static_cast<size_t>(lossy->program)].name,
        toString(*arguments.collective), numBytes, planner.size);
  if (!entry)
    return error(StatusCode::InvalidArgument, "{}: selects no program for {} of {} bytes on {} ranks ({}), memory '{}'",
                 plugin.path, toString(*arguments.collective), numBytes, planner.size, arguments.mesh.toString(),
                 toString(memory));
  setProgram(plugin, static_cast<size_t>(entry->program), call);
  call.mesh = meshFor(*entry, *call.info, arguments.mesh);
  call.tableLanes = entry->lanes;
  return {};
}

} // namespace

Result<Call> planCall(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments,
                      const Planner &planner) {
  Call call;
  call.mesh = arguments.mesh;
  call.key.plugin = plugin.content.checksum;
  call.key.count = arguments.count;
  if (Status status = checkType(arguments, call); !status.isOk())
    return status;
  bool isSelected = arguments.program.empty() && arguments.collective;
  if (Status status =
          isSelected ? selectProgram(plugin, arguments, segments, planner, call) : findProgram(plugin, arguments, call);
      !status.isOk())
    return status;
  if (Status status = checkMesh(planner.rank, planner.size, call); !status.isOk())
    return status;
  if (Status status = checkCodecs(arguments, call); !status.isOk())
    return status;
  if (Status status = chooseKernels(plugin, arguments, planner.widensAverages, call); !status.isOk())
    return status;
  Group group = groupOf(call);
  if (hasRoot(call.info->collective)) {
    if (arguments.root < 0 || arguments.root >= group.size)
      return error(StatusCode::InvalidArgument, "root {} is not one of the {} ranks of the group", arguments.root,
                   group.size);
    call.root = call.key.root = arguments.root;
  }
  if (Status status = sizeBuffers(call.info->collective, arguments, group, call); !status.isOk())
    return status;
  int64_t scratchBytes = call.scratchBytesFor(arguments.count);
  if (scratchBytes < 0)
    return error(StatusCode::BadPlugin, "{}: program '{}' asks for {} bytes of scratch memory", plugin.path,
                 call.info->name, scratchBytes);
  call.scratchBytes = static_cast<size_t>(scratchBytes);
  call.publishes = call.program->publish != nullptr;
  if (call.publishes && call.publishedBytesFor(arguments.count) < 0)
    return error(StatusCode::BadPlugin, "{}: program '{}' publishes {} bytes", plugin.path, call.info->name,
                 call.publishedBytesFor(arguments.count));
  call.hasPackets = call.program->packetBytes != nullptr;
  if (call.hasPackets &&
      (call.packetBytesFor(arguments.count) < 0 || call.packetBytesFor(arguments.count) > INT64_MAX / 2))
    return error(StatusCode::BadPlugin, "{}: program '{}' asks for a packet buffer of {} bytes", plugin.path,
                 call.info->name, call.packetBytesFor(arguments.count));
  return call;
}

} // namespace kolo::runtime
