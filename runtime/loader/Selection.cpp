#include "loader/Selection.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace kolo::runtime {
namespace {

constexpr const char *memoryNames[] = {"windows", "ordinary"};
constexpr int64_t noEnd = std::numeric_limits<int64_t>::max();

auto keyOf(const SelectionEntry &entry) { return std::tuple(entry.collective, entry.ranks, entry.memory); }

/// Whether the program runs over all ranks of a mesh of `ranks` ranks.
bool isFor(const ProgramInfo &program, int ranks) {
  auto numRanks = [](const std::vector<int64_t> &mesh) {
    return std::accumulate(mesh.begin(), mesh.end(), int64_t(1), std::multiplies<>());
  };
  return program.groupDims.size() == program.meshDims.size() &&
         std::any_of(program.meshes.begin(), program.meshes.end(),
                     [&](const std::vector<int64_t> &mesh) { return numRanks(mesh) == ranks; });
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

SelectionEntry readEntry(ManifestReader &reader, const json &object, const std::string &path,
                         std::span<const ProgramInfo> programs) {
  SelectionEntry entry;
  if (auto kind = parseCollectiveKind(reader.text(object, "collective", path)))
    entry.collective = *kind;
  else
    reader.fail(path + "collective", "names no collective");
  entry.ranks = reader.integer(object, "ranks", path);
  if (auto memory = parseMemoryKind(reader.text(object, "memory", path)))
    entry.memory = *memory;
  else
    reader.fail(path + "memory", "is neither windows nor ordinary");
  entry.upToBytes = readEnd(reader, object, path);
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
  if (!isFor(*program, entry.ranks))
    reader.fail(path + "program", "names a program that was not compiled for so many ranks");
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

const SelectionEntry *select(std::span<const SelectionEntry> selection, CollectiveKind collective, int ranks,
                             int64_t numBytes, MemoryKind memory) {
  auto found = std::find_if(selection.begin(), selection.end(), [&](const SelectionEntry &entry) {
    return keyOf(entry) == std::tuple(collective, ranks, memory) && numBytes <= entry.upToBytes;
  });
  return found == selection.end() ? nullptr : &*found;
}

} // namespace kolo::runtime
