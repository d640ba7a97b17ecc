#include "call/Call.h"

#include "base/Error.h"
#include "call/BlockTables.h"
#include "call/RowLists.h"
#include "call/WideAverage.h"
#include "loader/Selection.h"

#include <algorithm>
#include <bit>

namespace kolo::runtime {
namespace {

/// Position of this rank among those that the collective runs over.
struct Position {
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

Position positionOf(const Call &call) {
  Position group;
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
  if (arguments.reduction == Reduction::Average && isPrefixReduction(call.info->collective))
    return error(StatusCode::InvalidArgument, "program '{}': {} has no average", call.info->name,
                 toString(call.info->collective));
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

/// What this rank has, and what some rank has. `root` counts where there is one.
void setExtents(CollectiveKind kind, const Position &group, int64_t root, Call &call) {
  const CollectiveFacts facts = factsOf(kind);
  auto blocksOf = [&](KoloExtent extent) -> int64_t { return isPerRank(extent) ? group.size : 1; };
  call.largest = {blocksOf(facts.input), blocksOf(facts.output)};
  call.extent = {isAtMember(kind, KOLO_INPUT, group.rank, root) ? call.largest.input : 0,
                 isAtMember(kind, KOLO_OUTPUT, group.rank, root) ? call.largest.output : 0};
}

/// Offset of the input in the output, in multiples of count, when a call is in place as the collective defines it.
int64_t inPlaceOffset(const CollectiveFacts &facts, const Position &group) {
  if (isPerRank(facts.input) == isPerRank(facts.output))
    return 0;
  return isPerRank(facts.output) ? group.rank : -group.rank;
}

Status sizeBuffers(CollectiveKind kind, const CallArguments &arguments, const Position &group, Call &call) {
  int64_t unitBytes = 0, wholeBytes = 0;
  if (arguments.count < 0)
    return error(StatusCode::InvalidArgument, "count is {}", arguments.count);
  if (__builtin_mul_overflow(arguments.count, call.elementBytes, &unitBytes) ||
      __builtin_mul_overflow(unitBytes, group.size, &wholeBytes))
    return error(StatusCode::InvalidArgument, "count {} is too large", arguments.count);
  setExtents(kind, group, arguments.root, call);
  call.inPlaceOffset = inPlaceOffset(factsOf(kind), group);
  call.inputBytes = static_cast<size_t>(call.extent.input * unitBytes);
  call.outputBytes = static_cast<size_t>(call.extent.output * unitBytes);
  call.largestBytes = std::max(call.largest.input, call.largest.output) * unitBytes;
  call.setPointers(arguments);
  return call.checkPointers();
}

/// Whether the call says how long blocks are, because ranks know their own alone. All ranks of a group know the blocks
/// of an all-gather's output, and of a reduce-scatter's input, but not those of other groups.
bool isBound(const Planner &planner, CollectiveKind kind, int64_t groupSize) {
  const bool knowsGroup = kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
  return planner.countIsBound && !(knowsGroup && groupSize == planner.size);
}

/// As far as a call with block tables is known before its program is. What is wrong with the tables is found later.
void sizeByTables(const BlockTables &blocks, const CallArguments &arguments, const Planner &planner, Call &call) {
  auto bytesOf = [&](const BlockTable &table) {
    int64_t elements = 0, end = 0;
    for (size_t block = 0; block < table.counts.size(); ++block) {
      int64_t count = planner.ignoresCounts ? 0 : std::max<int64_t>(table.counts[block], 0), last = 0;
      if (__builtin_add_overflow(elements, count, &elements))
        elements = INT64_MAX;
      bool hasPlace = table.places.size() == table.counts.size();
      if (count > 0 && !__builtin_add_overflow(hasPlace ? table.places[block] : elements - count, count, &last))
        end = std::max(end, last);
    }
    int64_t elementBytes = call.elementBytes, numBytes = 0, endBytes = 0;
    if (__builtin_mul_overflow(elements, elementBytes, &numBytes))
      numBytes = INT64_MAX;
    if (__builtin_mul_overflow(end, elementBytes, &endBytes))
      endBytes = INT64_MAX;
    return std::pair(numBytes, endBytes);
  };
  auto [inputBytes, inputEnd] = bytesOf(blocks.input);
  auto [outputBytes, outputEnd] = bytesOf(blocks.output);
  // Where a list chooses rows, tables number those of the list, and the buffer has others.
  auto bytesOfRows = [&](int64_t numRows) {
    int64_t numElements = 0, numBytes = 0;
    bool isTooLarge = __builtin_mul_overflow(numRows, arguments.rows->elements, &numElements) ||
                      __builtin_mul_overflow(numElements, int64_t(call.elementBytes), &numBytes);
    return isTooLarge ? INT64_MAX : std::max<int64_t>(numBytes, 0);
  };
  if (arguments.rows && !arguments.rows->input.empty())
    inputEnd = bytesOfRows(arguments.rows->inputRows);
  if (arguments.rows && !arguments.rows->output.empty())
    outputEnd = bytesOfRows(arguments.rows->outputRows);
  int64_t boundBytes = 0;
  if (isBound(planner, *arguments.collective, planner.size) &&
      (__builtin_mul_overflow(std::max<int64_t>(arguments.count, 0), call.elementBytes, &boundBytes) ||
       __builtin_mul_overflow(boundBytes, planner.size, &boundBytes)))
    boundBytes = INT64_MAX;
  call.largestBytes = std::max({inputBytes, outputBytes, planner.largestBytes, boundBytes});
  call.inputBytes = static_cast<size_t>(inputEnd);
  call.outputBytes = static_cast<size_t>(outputEnd);
  call.setPointers(arguments);
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
  const bool hasTables = arguments.blocks != nullptr;
  if (hasTables)
    sizeByTables(*arguments.blocks, arguments, planner, sized);
  else if (Status status = sizeBuffers(*arguments.collective, arguments, {planner.size, planner.rank}, sized);
           !status.isOk())
    return status;
  const int64_t numBytes = sized.largestBytes;
  call.memory = sized.memoryKind(segments);
  MemoryKind memory = std::max(planner.least, call.memory);
  const DataType type = arguments.custom.kernel ? DataType::U8 : arguments.type; // no codec is for u8
  auto entryFor = [&](bool allowsLoss) {
    auto inMemory = [&](MemoryKind kind) {
      return select(plugin.manifest.selection, plugin.manifest.programs,
                    {*arguments.collective, arguments.mesh, numBytes, kind, type, arguments.reduction, planner.tag,
                     allowsLoss, hasTables});
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
    return error(StatusCode::InvalidArgument,
                 "{}: selects no program for {} of {} bytes{} on {} ranks ({}), memory '{}'", plugin.path,
                 toString(*arguments.collective), numBytes, hasTables ? " with block tables" : "", planner.size,
                 arguments.mesh.toString(), toString(memory));
  setProgram(plugin, static_cast<size_t>(entry->program), call);
  call.mesh = meshFor(*entry, *call.info, arguments.mesh);
  call.tableLanes = entry->lanes;
  return {};
}

/// What a call with block tables needs that is no matter of counts.
Status checkTables(const CallArguments &arguments, const Planner &planner, Call &call) {
  if (!arguments.blocks)
    return arguments.rows ? error(StatusCode::InvalidArgument, "a call with row lists needs block tables") : Status();
  const CollectiveFacts facts = factsOf(call.info->collective);
  if (!isPerRank(facts.input) && !isPerRank(facts.output))
    return error(StatusCode::InvalidArgument, "{} has one block, and takes no block tables",
                 toString(call.info->collective));
  if (planner.isForDevices && arguments.rows)
    return error(StatusCode::InvalidArgument, "devices take no row lists");
  if (call.computedType != call.key.type)
    return error(StatusCode::InvalidArgument, "averages of f16 and bf16 take no block tables");
  std::vector<int64_t> sizes;
  for (const MeshDim &dim : call.mesh.dims())
    sizes.push_back(dim.size);
  const Proof *proof = call.info->proofOf(sizes);
  if (!proof || !proof->takesTables)
    return error(StatusCode::InvalidArgument, "program '{}' takes no block tables on mesh {}{}{}", call.info->name,
                 call.mesh.toString(), proof && !proof->whyNoTables.empty() ? ": " : "",
                 proof ? proof->whyNoTables : "");
  if (arguments.rows && !proof->takesRows)
    return error(StatusCode::InvalidArgument, "program '{}' takes no row lists on mesh {}", call.info->name,
                 call.mesh.toString());
  call.takesRows = proof->takesRows;
  return {};
}

/// As sizeBuffers, of a call with block tables. `count` becomes that of the longest block of any rank.
Status sizeTabled(const BlockTables &blocks, const CallArguments &arguments, const Position &group,
                  const Planner &planner, Call &call) {
  setExtents(call.info->collective, group, arguments.root, call);
  if (planner.ignoresCounts) {
    call.key.hasTables = true;
    call.key.count = 1;
    return {};
  }
  if (Status status = takeTables(blocks, arguments, call); !status.isOk())
    return status;
  if (arguments.rows)
    if (Status status = takeRows(*arguments.rows, call); !status.isOk())
      return status;
  call.key.count = std::max(call.tables->longest, planner.longestBlock);
  if (isBound(planner, call.info->collective, group.size)) {
    if (call.tables->longest > arguments.count)
      return error(StatusCode::InvalidArgument, "a block has {} elements, and the call says that none has more than {}",
                   call.tables->longest, arguments.count);
    call.key.count = arguments.count;
  }
  int64_t wholeBytes = 0; // at least that of all blocks of a rank
  if (__builtin_mul_overflow(call.key.count, call.elementBytes, &wholeBytes) ||
      __builtin_mul_overflow(wholeBytes, group.size, &wholeBytes))
    return error(StatusCode::InvalidArgument, "{} elements in a block are too many", call.key.count);
  const int64_t elements = std::max(call.tables->numElements[KOLO_INPUT], call.tables->numElements[KOLO_OUTPUT]);
  call.largestBytes = std::max(elements * call.elementBytes, planner.largestBytes);
  return {};
}

} // namespace

static KoloExtent extentOf(CollectiveKind collective, size_t role) {
  const CollectiveFacts facts = factsOf(collective);
  return role == KOLO_INPUT ? facts.input : facts.output;
}

bool isEverywhere(CollectiveKind collective, size_t role) {
  return !isAtRoot(extentOf(collective, role)) && !(collective == CollectiveKind::Exscan && role == KOLO_OUTPUT);
}

bool isAtMember(CollectiveKind collective, size_t role, int64_t member, int64_t root) {
  return isEverywhere(collective, role) || (isAtRoot(extentOf(collective, role)) ? member == root : member > 0);
}

Result<Call> planCall(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments,
                      const Planner &planner) {
  Call call;
  call.mesh = arguments.mesh;
  call.rank = planner.rank;
  call.key.plugin = plugin.content.checksum;
  call.key.count = arguments.blocks ? 0 : arguments.count;
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
  if (Status status = chooseKernels(plugin, arguments, !planner.isForDevices, call); !status.isOk())
    return status;
  if (Status status = checkTables(arguments, planner, call); !status.isOk())
    return status;
  Position group = positionOf(call);
  if (hasRoot(call.info->collective)) {
    if (arguments.root < 0 || arguments.root >= group.size)
      return error(StatusCode::InvalidArgument, "root {} is not one of the {} ranks of the group", arguments.root,
                   group.size);
    call.root = call.key.root = arguments.root;
  }
  if (Status status = arguments.blocks ? sizeTabled(*arguments.blocks, arguments, group, planner, call)
                                       : sizeBuffers(call.info->collective, arguments, group, call);
      !status.isOk())
    return status;
  const int64_t count = call.key.count;
  int64_t scratchBytes = call.scratchBytesFor(count);
  if (scratchBytes < 0)
    return error(StatusCode::BadPlugin, "{}: program '{}' asks for {} bytes of scratch memory", plugin.path,
                 call.info->name, scratchBytes);
  call.scratchBytes = static_cast<size_t>(scratchBytes);
  call.publishes = call.program->publish != nullptr;
  if (call.publishes && call.publishedBytesFor(count) < 0)
    return error(StatusCode::BadPlugin, "{}: program '{}' publishes {} bytes", plugin.path, call.info->name,
                 call.publishedBytesFor(count));
  call.hasPackets = call.program->packetBytes != nullptr;
  if (call.hasPackets && (call.packetBytesFor(count) < 0 || call.packetBytesFor(count) > INT64_MAX / 2))
    return error(StatusCode::BadPlugin, "{}: program '{}' asks for a packet buffer of {} bytes", plugin.path,
                 call.info->name, call.packetBytesFor(count));
  return call;
}

} // namespace kolo::runtime
