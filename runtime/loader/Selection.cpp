#include "loader/Selection.h"

#include "kolo/runtime/Communicator.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace kolo::runtime {
namespace {

constexpr const char *memoryNames[] = {"windows", "ordinary"};
constexpr int64_t noEnd = std::numeric_limits<int64_t>::max();

/// What the entries of one group have in common; entries are sorted by it.
auto keyOf(const SelectionEntry &entry) {
  std::vector<std::pair<int64_t, std::string>> dims;
  for (const MeshDim &dim : entry.mesh.dims())
    dims.emplace_back(dim.size, dim.name);
  return std::tuple(entry.collective, entry.ranks, std::move(dims), entry.tag, entry.memory);
}

bool hasDims(const ProgramInfo &program, const Mesh &mesh) {
  return std::equal(mesh.dims().begin(), mesh.dims().end(), program.meshDims.begin(), program.meshDims.end(),
                    [](const MeshDim &dim, const std::string &name) { return dim.name == name; });
}

/// Whether the program runs over all ranks of a mesh that the entry is for.
bool isFor(const ProgramInfo &program, const SelectionEntry &entry) {
  bool isAnyMesh = entry.mesh.dims().empty();
  if (!isAnyMesh && !hasDims(program, entry.mesh) && program.meshDims.size() != 1)
    return false;
  auto isMesh = [&](const std::vector<int64_t> &sizes) {
    if (isAnyMesh || sizes.size() == 1)
      return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>()) == entry.ranks;
    return std::equal(sizes.begin(), sizes.end(), entry.mesh.dims().begin(), entry.mesh.dims().end(),
                      [](int64_t size, const MeshDim &dim) { return size == dim.size; });
  };
  // Calls that name no mesh number the ranks of their group as the mesh does.
  return program.groupDims.size() == program.meshDims.size() &&
         std::is_sorted(program.groupDims.begin(), program.groupDims.end()) &&
         std::any_of(program.meshes.begin(), program.meshes.end(), isMesh);
}

Mesh readMesh(ManifestReader &reader, const json &object, const std::string &path) {
  std::vector<MeshDim> dims;
  for (const auto &[name, size] : reader.field(object, "mesh", path, json::value_t::object).items())
    dims.push_back({name, reader.number(size, path + "mesh." + name, 1)});
  Result<Mesh> mesh = Mesh::create(std::move(dims));
  if (!mesh.isOk())
    reader.fail(path + "mesh", fmt::format("is no mesh: {}", mesh.status().message()));
  else if (mesh->dims().empty())
    reader.fail(path + "mesh", "has no dimension");
  return mesh.isOk() ? std::move(mesh).value() : Mesh();
}

/// The mesh that an entry is for, or the number of ranks.
void readRanks(ManifestReader &reader, const json &object, const std::string &path, SelectionEntry &entry) {
  if (!object.is_object() || !object.contains("mesh")) {
    entry.ranks = reader.integer(object, "ranks", path);
    return;
  }
  if (object.contains("ranks"))
    reader.fail(path + "ranks", "stands beside 'mesh'; an entry has one of the two");
  entry.mesh = readMesh(reader, object, path);
  entry.ranks = entry.mesh.numRanks();
}

int64_t readEnd(ManifestReader &reader, const json &entry, const std::string &path) {
  auto found = entry.is_object() ? entry.find("upToBytes") : entry.end();
  if (entry.is_object() && found != entry.end() && found->is_null())
    return noEnd;
  const json &value = reader.field(entry, "upToBytes", path, json::value_t::number_integer);
  if (!value.is_number_integer())
    return 0;
  // An unsigned number beyond the signed range becomes negative here.
  auto end = value.get<int64_t>();
  if (end < 0 || end == noEnd)
    reader.fail(path + "upToBytes", "is out of range");
  return end;
}

int readLanes(ManifestReader &reader, const json &value, const std::string &path) {
  const int64_t lanes = reader.number(value, path + "lanes", 1);
  if (lanes > maxLanes)
    reader.fail(path + "lanes", fmt::format("is above {}", maxLanes));
  return static_cast<int>(std::min<int64_t>(lanes, maxLanes));
}

SelectionEntry readEntry(ManifestReader &reader, const json &object, const std::string &path,
                         std::span<const ProgramInfo> programs) {
  SelectionEntry entry;
  if (auto kind = parseCollectiveKind(reader.text(object, "collective", path)))
    entry.collective = *kind;
  else
    reader.fail(path + "collective", "names no collective");
  readRanks(reader, object, path, entry);
  if (object.is_object() && object.contains("tag"))
    entry.tag = reader.text(object, "tag", path);
  entry.allowsLoss = object.is_object() && object.contains("lossy") && reader.boolean(object, "lossy", path);
  if (auto memory = parseMemoryKind(reader.text(object, "memory", path)))
    entry.memory = *memory;
  else
    reader.fail(path + "memory", "is neither windows nor ordinary");
  entry.upToBytes = readEnd(reader, object, path);
  if (object.is_object() && object.contains("lanes"))
    entry.lanes = readLanes(reader, object["lanes"], path);
  std::string name = reader.text(object, "program", path);
  auto program =
      std::find_if(programs.begin(), programs.end(), [&](const ProgramInfo &info) { return info.name == name; });
  if (program == programs.end()) {
    reader.fail(path + "program", "names no program");
    return entry;
  }
  entry.program = static_cast<int>(program - programs.begin());
  if (program->collective != entry.collective)
    reader.fail(path + "program", "names a program of another collective");
  if (!isFor(*program, entry))
    reader.fail(path + "program", entry.mesh.dims().empty()
                                      ? "names a program that was not compiled for so many ranks"
                                      : "names a program that was not compiled for " + entry.mesh.toString());
  return entry;
}

/// Checks that every call has at most one entry, and that every size has one.
void checkOrder(ManifestReader &reader, std::span<const SelectionEntry> selection) {
  for (size_t index = 0; index < selection.size(); ++index) {
    const SelectionEntry &entry = selection[index], *before = index > 0 ? &selection[index - 1] : nullptr;
    std::string path = fmt::format("selection[{}]", index);
    bool isFirst = !before || keyOf(*before) != keyOf(entry);
    bool isLast = index + 1 == selection.size() || keyOf(selection[index + 1]) != keyOf(entry);
    if (before && keyOf(entry) < keyOf(*before))
      reader.fail(path, "is out of order");
    if (!isFirst && entry.upToBytes <= before->upToBytes)
      reader.fail(path + ".upToBytes", "is not above that of the entry before");
    if (isLast && entry.upToBytes != noEnd)
      reader.fail(path + ".upToBytes", "leaves larger sizes without a program");
  }
}

std::vector<int64_t> sizesOf(const Mesh &mesh) {
  std::vector<int64_t> sizes;
  for (const MeshDim &dim : mesh.dims())
    sizes.push_back(dim.size);
  return sizes;
}

} // namespace

const char *toString(MemoryKind memory) {
  auto index = static_cast<size_t>(memory);
  return index < std::size(memoryNames) ? memoryNames[index] : "invalid";
}

std::optional<MemoryKind> parseMemoryKind(std::string_view name) {
  for (size_t index = 0; index < std::size(memoryNames); ++index)
    if (name == memoryNames[index])
      return static_cast<MemoryKind>(index);
  return std::nullopt;
}

std::vector<SelectionEntry> readSelection(ManifestReader &reader, const json &root,
                                          std::span<const ProgramInfo> programs) {
  std::vector<SelectionEntry> selection;
  for (const json &entry : reader.array(root, "selection", ""))
    selection.push_back(readEntry(reader, entry, fmt::format("selection[{}].", selection.size()), programs));
  if (reader.status().isOk())
    checkOrder(reader, selection);
  return selection;
}

std::string findCodecMistake(const ProgramInfo &info, DataType type, Reduction reduction) {
  if (info.granule == 0)
    return "";
  if (type != DataType::F16 && type != DataType::BF16 && type != DataType::F32)
    return fmt::format("has codecs, which are for f16, bf16 and f32, not for {}", toString(type));
  return info.reduces && reduction == Reduction::Product ? "has codecs, and multiplies nothing" : "";
}

const SelectionEntry *select(std::span<const SelectionEntry> selection, std::span<const ProgramInfo> programs,
                             const SelectionQuery &query) {
  auto takes = [&](const SelectionEntry &entry) {
    const ProgramInfo &program = programs[static_cast<size_t>(entry.program)];
    const Proof *proof = query.hasTables ? program.proofOf(sizesOf(meshFor(entry, program, query.mesh))) : nullptr;
    if (query.hasTables && (!proof || !proof->takesTables))
      return false;
    return findCodecMistake(program, query.type, query.reduction).empty() &&
           (!program.isLossy() || entry.allowsLoss || query.allowsLoss);
  };
  for (std::string_view tag : {query.tag, std::string_view()})
    for (const Mesh &wanted : {query.mesh, Mesh()}) {
      const SelectionEntry *below = nullptr;
      for (const SelectionEntry &entry : selection) {
        if (entry.collective != query.collective || entry.tag != tag || entry.mesh != wanted ||
            entry.ranks != query.mesh.numRanks() || entry.memory != query.memory || !takes(entry))
          continue;
        if (query.numBytes <= entry.upToBytes)
          return &entry;
        below = &entry;
      }
      if (query.hasTables && below) // whether a call with tables is carried depends on no count
        return below;
    }
  return nullptr;
}

Mesh meshFor(const SelectionEntry &entry, const ProgramInfo &program, const Mesh &mesh) {
  if (entry.mesh.dims().empty() || hasDims(program, mesh))
    return mesh;
  return Mesh::create({{program.meshDims.front(), entry.ranks}}).value(); // readSelection has looked at it
}

} // namespace kolo::runtime
