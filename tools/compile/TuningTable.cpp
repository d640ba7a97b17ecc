#include "tools/compile/TuningTable.h"
#include "tools/compile/Kinds.h"
#include "tools/compile/Schedules.h"

#include "kolo/runtime/Communicator.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include <sched.h>
#include <sys/utsname.h>

namespace kolo::tools {

using nlohmann::ordered_json;

namespace {

/// What the entries of one group have in common; entries are sorted by it, as those of a manifest are.
auto keyOf(const TableEntry &entry) {
  std::vector<std::pair<int64_t, std::string>> dims;
  for (const runtime::MeshDim &dim : entry.mesh.dims())
    dims.emplace_back(dim.size, dim.name);
  return std::tuple(entry.collective, entry.ranks, std::move(dims), entry.tag, entry.memory);
}

/// The mesh on which an entry's algorithm runs: the entry's, or all of its ranks in one dimension. Nothing when the
/// algorithm is for other dimensions.
std::optional<runtime::Mesh> meshFor(const TableEntry &entry, const dsl::Definition &definition) {
  const std::vector<std::string> &names = definition.mesh.dims;
  if (std::ranges::equal(entry.mesh.dims(), names, {}, &runtime::MeshDim::name))
    return entry.mesh;
  if (names.size() != 1)
    return std::nullopt;
  return runtime::Mesh::create({{names.front(), entry.ranks}}).value();
}

/// One entry of a table that is being read; every mistake names the file, the entry and the field.
class EntryReader {
public:
  EntryReader(const ordered_json &object, std::string where) : object(object), where(std::move(where)) {
    if (!object.is_object())
      throw ToolError(ExitCode::Usage, this->where + ": is no object");
    static constexpr const char *known[] = {"collective", "ranks",     "mesh",     "tag",   "memory",
                                            "upToBytes",  "algorithm", "schedule", "lossy", "lanes"};
    for (const auto &[name, value] : object.items())
      if (std::ranges::find(known, name) == std::end(known))
        fail(name.c_str(), "there is no such field");
  }

  TableEntry read() const {
    TableEntry entry;
    entry.collective = parsed("collective", runtime::parseCollectiveKind, "names no collective");
    readRanks(entry);
    if (object.contains("tag"))
      entry.tag = text("tag");
    if (object.contains("tag") && entry.tag.empty())
      fail("tag", "is empty");
    if (object.contains("lossy") && !object["lossy"].is_boolean())
      fail("lossy", "is neither true nor false");
    entry.allowsLoss = object.value("lossy", false);
    if (object.contains("lanes"))
      entry.lanes = int(integer("lanes", 1, runtime::maxLanes));
    entry.memory = parsed("memory", runtime::parseMemoryKind, "is neither windows nor ordinary");
    if (!field("upToBytes").is_null())
      entry.upToBytes = integer("upToBytes", 0, INT64_MAX - 1);
    entry.algorithm = text("algorithm");
    checkAlgorithm(entry);
    if (object.contains("schedule"))
      entry.schedule = parseSchedule(object["schedule"], where + ".schedule");
    return entry;
  }

  [[noreturn]] void fail(const char *name, const std::string &problem) const {
    throw ToolError(ExitCode::Usage, where + "." + name + ": " + problem);
  }

private:
  const ordered_json &field(const char *name) const {
    auto found = object.find(name);
    if (found == object.end())
      fail(name, "is missing");
    return *found;
  }
  std::string text(const char *name) const {
    const ordered_json &value = field(name);
    if (!value.is_string())
      fail(name, "is no text");
    return value.get<std::string>();
  }
  int64_t integer(const char *name, int64_t least, int64_t most) const {
    return number(field(name), name, least, most);
  }
  int64_t number(const ordered_json &value, const char *name, int64_t least, int64_t most) const {
    // An unsigned number beyond the signed range comes out negative.
    if (!value.is_number_integer() || value.get<int64_t>() < least || value.get<int64_t>() > most)
      fail(name, fmt::format("{} is no number from {} to {}", value.dump(), least, most));
    return value.get<int64_t>();
  }
  template <class Value>
  Value parsed(const char *name, std::optional<Value> (*parse)(std::string_view), const char *problem) const {
    std::string value = text(name);
    std::optional<Value> result = parse(value);
    if (!result)
      fail(name, "'" + value + "' " + problem);
    return *result;
  }
  /// The mesh that the entry is for, or the number of ranks.
  void readRanks(TableEntry &entry) const {
    if (!object.contains("mesh")) {
      entry.ranks = int(integer("ranks", 1, KOLO_MAX_MESH_RANKS));
      return;
    }
    if (object.contains("ranks"))
      fail("ranks", "stands beside mesh; an entry has one of the two");
    entry.mesh = readMesh();
    entry.ranks = entry.mesh.numRanks();
  }
  runtime::Mesh readMesh() const {
    const ordered_json &sizes = field("mesh");
    if (!sizes.is_object() || sizes.empty())
      fail("mesh", "is no object of sizes by dimension, such as {\"node\": 2, \"gpu\": 4}");
    std::vector<runtime::MeshDim> dims;
    for (const auto &[name, size] : sizes.items())
      dims.push_back({name, number(size, ("mesh." + name).c_str(), 1, KOLO_MAX_MESH_RANKS)});
    auto mesh = runtime::Mesh::create(std::move(dims));
    if (!mesh.isOk())
      fail("mesh", mesh.status().message());
    return std::move(mesh).value();
  }
  void checkAlgorithm(const TableEntry &entry) const {
    const dsl::Definition *definition = nullptr;
    try {
      definition = &findShipped(entry.algorithm);
    } catch (const ToolError &unknown) {
      fail("algorithm", unknown.what());
    }
    if (kindOf(definition->collective) != entry.collective || !definition->collective.dims.empty())
      fail("algorithm",
           fmt::format("{} does no {} of all ranks", entry.algorithm, runtime::toString(entry.collective)));
    if (meshFor(entry, *definition))
      return;
    std::string dims = fmt::format("{}", fmt::join(definition->mesh.dims, ","));
    fail("algorithm", entry.mesh.dims().empty()
                          ? fmt::format("{} needs a mesh of the dimensions {}; ranks gives none", entry.algorithm, dims)
                          : fmt::format("{} needs a mesh of the dimensions {}, not {}", entry.algorithm, dims,
                                        entry.mesh.toString()));
  }

  const ordered_json &object;
  std::string where;
};

/// That every call has at most one entry, and every size an entry.
void checkOrder(const std::vector<TableEntry> &entries, const std::string &path) {
  for (size_t index = 0; index < entries.size(); ++index) {
    const TableEntry &entry = entries[index], *before = index > 0 ? &entries[index - 1] : nullptr;
    std::string where = fmt::format("{}: entries[{}]", path, index);
    bool isFirst = !before || keyOf(*before) != keyOf(entry);
    bool isLast = index + 1 == entries.size() || keyOf(entries[index + 1]) != keyOf(entry);
    if (before && keyOf(entry) < keyOf(*before))
      throw ToolError(ExitCode::Usage,
                      where + ": is out of order; entries are sorted by collective, ranks, mesh, tag, memory and size");
    if (!isFirst && (!before->upToBytes || (entry.upToBytes && *entry.upToBytes <= *before->upToBytes)))
      throw ToolError(ExitCode::Usage, where + ".upToBytes: is not above that of the entry before");
    if (isLast && entry.upToBytes)
      throw ToolError(ExitCode::Usage,
                      where + ".upToBytes: leaves larger sizes without an algorithm; the last one is null");
  }
}

} // namespace

std::vector<TableEntry> readTable(const std::string &path) {
  std::ifstream file(path);
  if (!llvm::sys::fs::is_regular_file(path) || !file)
    throw ToolError(ExitCode::Usage, "cannot read " + path + ": it is no file, or may not be read");
  ordered_json table = ordered_json::parse(std::string(std::istreambuf_iterator<char>(file), {}), nullptr, false);
  if (!table.is_object())
    throw ToolError(ExitCode::Usage, path + ": is no JSON object");
  if (!table.contains("entries") || !table["entries"].is_array() || table["entries"].empty())
    throw ToolError(ExitCode::Usage, path + ": entries: is missing, empty or no array");
  std::vector<TableEntry> entries;
  for (const ordered_json &object : table["entries"])
    entries.push_back(EntryReader(object, fmt::format("{}: entries[{}]", path, entries.size())).read());
  checkOrder(entries, path);
  return entries;
}

std::string tablePath(const std::string &word) {
  if (word.find_first_of("/.") != std::string::npos)
    return word;
  std::string program = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<128> path(llvm::sys::path::parent_path(llvm::sys::path::parent_path(program)));
  llvm::sys::path::append(path, "share", "kolo", "tables", (word == "default" ? "cpu" : word) + ".json");
  if (!llvm::sys::fs::exists(path))
    throw ToolError(ExitCode::Usage,
                    "there is no table '" + word + "': no " + std::string(path.str()) + " is installed");
  return std::string(path.str());
}

Provenance describeMachine(const std::string &koloVersion, const std::string &command) {
  Provenance provenance{koloVersion, "unknown", "unknown", "", command};
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos) {
      provenance.processor = line.substr(colon + 2);
      break;
    }
  if (utsname names; uname(&names) == 0)
    provenance.kernel = names.release;
  cpu_set_t cores;
  provenance.cores =
      sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : int(std::thread::hardware_concurrency());
  std::time_t now = std::time(nullptr);
  char date[16] = "";
  if (std::tm parts; gmtime_r(&now, &parts))
    std::strftime(date, sizeof(date), "%Y-%m-%d", &parts);
  provenance.date = date;
  return provenance;
}

std::string writeTable(const Provenance &provenance, const std::vector<TableEntry> &entries) {
  ordered_json machine = {
      {"processor", provenance.processor}, {"cores", provenance.cores}, {"kernel", provenance.kernel}};
  return writeTable({{"kolo", provenance.koloVersion},
                     {"machine", machine},
                     {"date", provenance.date},
                     {"command", provenance.command}},
                    entries);
}

// One line per entry: tables are read by people, and compared line by line.
std::string writeTable(const ordered_json &fields, const std::vector<TableEntry> &entries) {
  std::string text = "{\n";
  for (const auto &[name, value] : fields.items())
    text += fmt::format("  \"{}\": {},\n", name, value.dump());
  text += "  \"entries\": [\n";
  for (const TableEntry &entry : entries) {
    ordered_json object = {{"collective", runtime::toString(entry.collective)}};
    if (entry.mesh.dims().empty())
      object["ranks"] = entry.ranks;
    for (const runtime::MeshDim &dim : entry.mesh.dims())
      object["mesh"][dim.name] = dim.size;
    if (!entry.tag.empty())
      object["tag"] = entry.tag;
    object["memory"] = runtime::toString(entry.memory);
    object["upToBytes"] = entry.upToBytes ? ordered_json(*entry.upToBytes) : ordered_json();
    object["algorithm"] = entry.algorithm;
    if (ordered_json schedule = toJson(entry.schedule); !schedule.empty())
      object["schedule"] = schedule;
    if (entry.allowsLoss)
      object["lossy"] = true;
    if (entry.lanes)
      object["lanes"] = entry.lanes;
    text += "    " + object.dump() + (&entry == &entries.back() ? "\n" : ",\n");
  }
  return text + "  ]\n}\n";
}

CompileRequest requestFor(const std::vector<TableEntry> &entries) {
  CompileRequest request;
  std::map<std::string, size_t> numbers; // by name, of request.programs
  for (const TableEntry &entry : entries) {
    std::string name = entry.algorithm + suffixFor(entry.schedule);
    auto [number, isNew] = numbers.try_emplace(name, request.programs.size());
    if (isNew) {
      request.programs.push_back({findShipped(entry.algorithm), {}, entry.schedule});
      request.programs.back().definition.name = name;
    }
    ProgramRequest &program = request.programs[number->second];
    runtime::Mesh mesh = meshFor(entry, program.definition).value();
    if (std::ranges::find(program.meshes, mesh) == program.meshes.end())
      program.meshes.push_back(mesh);
    request.selection.push_back({entry.collective, entry.ranks, entry.memory, entry.upToBytes, name, entry.mesh,
                                 entry.tag, entry.allowsLoss, entry.lanes});
  }
  return request;
}

} // namespace kolo::tools
