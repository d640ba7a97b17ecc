#include "loader/Manifest.h"

#include "base/Error.h"
#include "loader/ManifestReader.h"
#include "loader/Selection.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// The sizes of one mesh.
std::vector<int64_t> readSizes(ManifestReader &reader, const json &sizes, const std::string &path,
                               const ProgramInfo &program) {
  std::vector<int64_t> mesh;
  if (!sizes.is_array() || sizes.size() != program.meshDims.size())
    reader.fail(path, "must hold one size per dimension");
  else
    for (const json &size : sizes)
      mesh.push_back(reader.number(size, path, 1));
  int64_t most = KOLO_MAX_MESH_RANKS;
  for (int64_t size : mesh)
    most /= std::max<int64_t>(size, 1);
  if (most == 0)
    reader.fail(path, fmt::format("has more than {} ranks", KOLO_MAX_MESH_RANKS));
  return mesh;
}

void readDims(ManifestReader &reader, const json &object, const std::string &path, ProgramInfo &program) {
  for (const json &name : reader.array(object, "mesh", path)) {
    if (!name.is_string())
      return reader.fail(path + "mesh", "has the wrong type");
    program.meshDims.push_back(name.get<std::string>());
  }
  if (program.meshDims.empty() || program.meshDims.size() > KOLO_MAX_MESH_DIMS)
    return reader.fail(path + "mesh", "must name 1 to 4 dimensions");
  for (const json &index : reader.array(object, "groupDims", path)) {
    int dim = reader.number(index, path + "groupDims", 0);
    bool isRepeated = std::find(program.groupDims.begin(), program.groupDims.end(), dim) != program.groupDims.end();
    if (dim >= static_cast<int>(program.meshDims.size()) || isRepeated)
      return reader.fail(path + "groupDims", "must be different indices of mesh dimensions");
    program.groupDims.push_back(dim);
  }
  if (program.groupDims.empty())
    return reader.fail(path + "groupDims", "is empty");
  for (const json &sizes : reader.array(object, "meshes", path))
    program.meshes.push_back(readSizes(reader, sizes, path + "meshes", program));
}

void readProofs(ManifestReader &reader, const json &object, const std::string &path, ProgramInfo &program) {
  int index = 0;
  for (const json &entry : reader.array(object, "proved", path)) {
    std::string at = fmt::format("{}proved[{}].", path, index++);
    Proof &proof = program.proved.emplace_back();
    proof.mesh = readSizes(reader, reader.array(entry, "mesh", at), at + "mesh", program);
    proof.on = readSizes(reader, reader.array(entry, "on", at), at + "on", program);
    if (std::find(program.meshes.begin(), program.meshes.end(), proof.mesh) == program.meshes.end())
      reader.fail(at + "mesh", "is none of the program's meshes");
    if (reader.boolean(entry, "represented", at) != proof.isRepresented())
      reader.fail(at + "represented", "does not say whether another mesh was proved");
    proof.takesTables = entry.is_object() && entry.contains("blockTables") && reader.boolean(entry, "blockTables", at);
    if (entry.is_object() && entry.contains("whyNoBlockTables"))
      proof.whyNoTables = reader.text(entry, "whyNoBlockTables", at);
    if (proof.takesTables && proof.isRepresented())
      reader.fail(at + "blockTables", "is true of a mesh that is not proved");
    proof.takesRows = entry.is_object() && entry.contains("rowLists") && reader.boolean(entry, "rowLists", at);
    if (proof.takesRows && !proof.takesTables)
      reader.fail(at + "rowLists", "is true where there are no block tables");
    proof.from.assign(program.meshDims.size(), 0);
    for (const json &sizes : reader.array(entry, "forAllSizes", at)) {
      std::string name = reader.text(sizes, "dim", at + "forAllSizes.");
      int from = reader.number(reader.field(sizes, "from", at + "forAllSizes.", json::value_t::number_integer),
                               at + "forAllSizes.from", 1);
      auto dim = std::find(program.meshDims.begin(), program.meshDims.end(), name);
      if (dim == program.meshDims.end())
        reader.fail(at + "forAllSizes.dim", "is no dimension of the mesh");
      else
        proof.from[static_cast<size_t>(dim - program.meshDims.begin())] = from;
    }
  }
  program.isUnproved = reader.boolean(object, "unproved", path);
}

void readLosses(ManifestReader &reader, const json &object, const std::string &path, ProgramInfo &program) {
  int index = 0;
  for (const json &entry : reader.array(object, "lossy", path)) {
    std::string at = fmt::format("{}lossy[{}].", path, index++);
    Loss &loss = program.lossy.emplace_back();
    loss.mesh = readSizes(reader, reader.array(entry, "mesh", at), at + "mesh", program);
    loss.encodings = reader.count(entry, "encodings", at);
    int number = 0;
    for (const json &term : reader.array(entry, "bound", at)) {
      std::string inBound = fmt::format("{}bound[{}].", at, number++);
      loss.bound.push_back({reader.text(term, "codec", inBound), reader.count(term, "factor", inBound)});
    }
  }
}

void readStatements(ManifestReader &reader, const json &object, const std::string &path, ProgramInfo &program) {
  int index = 0;
  for (const json &entry : reader.array(object, "statements", path)) {
    std::string at = fmt::format("{}statements[{}].", path, index++);
    StatementInfo &statement = program.statements.emplace_back();
    statement.file = reader.text(entry, "file", at);
    statement.line = reader.integer(entry, "line", at);
    statement.text = reader.text(entry, "what", at);
  }
}

void readShared(ManifestReader &reader, const json &object, const std::string &path, ProgramInfo &program) {
  program.sharesInput = program.sharesOutput = false;
  for (const json &name : reader.array(object, "shared", path)) {
    if (name == "input")
      program.sharesInput = true;
    else if (name == "output")
      program.sharesOutput = true;
    else
      return reader.fail(path + "shared", "holds something else than input and output");
  }
}

void readNetwork(ManifestReader &reader, const json &object, const std::string &path, ProgramInfo &program) {
  if (!object.contains("networkDims"))
    return;
  for (const json &value : reader.array(object, "networkDims", path)) {
    int last = program.networkDims.empty() ? -1 : program.networkDims.back();
    if (!value.is_number_integer() || value <= last || value >= program.meshDims.size())
      return reader.fail(path + "networkDims", "is not a list of growing dimensions of the mesh");
    program.networkDims.push_back(value.get<int>());
  }
}

/// Whether the text has no control character and no escape, which could stand for one.
bool isPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char each) { return each >= 0x20 && each < 0x7f && each != '\\'; });
}

/// Messages quote the manifest, and a terminal would obey control characters. Text of the IR has several lines.
Status refuseControls(const json &root) {
  struct Value {
    const json *node;
    bool hasLines;
  };
  std::vector<Value> values = {{&root, false}}; // no recursion: values may be nested deeply
  while (!values.empty()) {
    auto [value, hasLines] = values.back();
    values.pop_back();
    if (value->is_string()) {
      std::string text = value->get<std::string>();
      if (hasLines)
        std::erase(text, '\n');
      if (std::string shown = printable(text); shown != text)
        return error(StatusCode::BadPlugin, "its manifest has control characters: '{}'", shown);
    } else if (value->is_object()) {
      for (const auto &[name, field] : value->items()) {
        if (std::string shown = printable(name); shown != name)
          return error(StatusCode::BadPlugin, "its manifest has control characters: '{}'", shown);
        values.push_back({&field, name == "choreography"});
      }
    } else if (value->is_array())
      for (const json &element : *value)
        values.push_back({&element, false});
  }
  return {};
}

constexpr int64_t codecGranule = 1024;

ProgramInfo readProgram(ManifestReader &reader, const json &object, const std::string &path) {
  constexpr int mostSemaphores = 1 << 12;
  ProgramInfo program;
  program.name = reader.text(object, "name", path);
  if (program.name.empty())
    reader.fail(path + "name", "is empty");
  if (auto kind = parseCollectiveKind(reader.text(object, "collective", path)))
    program.collective = *kind;
  else
    reader.fail(path + "collective", "names no collective");
  readDims(reader, object, path, program);
  readProofs(reader, object, path, program);
  readLosses(reader, object, path, program);
  program.numSemaphores = reader.integer(object, "semaphores", path);
  if (program.numSemaphores > mostSemaphores)
    reader.fail(path + "semaphores", "is out of range");
  program.reduces = reader.boolean(object, "reduces", path);
  program.enters = reader.boolean(object, "enters", path);
  // Other memory than the program's own has to be cut alike.
  if (object.contains("granule") && (program.granule = reader.integer(object, "granule", path)) != codecGranule)
    reader.fail(path + "granule", fmt::format("is {}; this runtime knows {} alone", program.granule, codecGranule));
  if (object.contains("choreography"))
    program.choreography = reader.text(object, "choreography", path);
  program.usesLL128 = reader.boolean(object, "ll128", path);
  readShared(reader, object, path, program);
  std::string inPlace = reader.text(object, "inPlace", path);
  if (inPlace != "direct" && inPlace != "copyInput")
    reader.fail(path + "inPlace", "is neither direct nor copyInput");
  program.inPlace = inPlace == "direct" ? InPlace::Direct : InPlace::CopyInput;
  readNetwork(reader, object, path, program);
  readStatements(reader, object, path, program);
  return program;
}

} // namespace

Result<Manifest> parseManifest(std::string_view text) {
  json root = json::parse(text, nullptr, false);
  if (!root.is_object())
    return error(StatusCode::BadPlugin, "its manifest is not a JSON object");
  if (Status status = isPlain(text) ? Status() : refuseControls(root); !status.isOk())
    return status;
  ManifestReader reader;
  Manifest manifest;
  if (int abi = reader.integer(root, "abi", ""); reader.status().isOk() && abi != int(KOLO_ABI_VERSION))
    return error(StatusCode::BadPlugin, "its manifest is for ABI version {}, this runtime has {}", abi,
                 KOLO_ABI_VERSION);
  reader.text(root, "kolo", "");
  const json &target = reader.field(root, "target", "", json::value_t::object);
  manifest.targetKind = reader.text(target, "kind", "target.");
  manifest.triple = reader.text(target, "triple", "target.");
  manifest.cpu = reader.text(target, "cpu", "target.");
  if (root.contains("sanitize"))
    manifest.sanitizer = reader.text(root, "sanitize", "");
  int index = 0;
  for (const json &entry : reader.array(root, "programs", "")) {
    ProgramInfo program = readProgram(reader, entry, fmt::format("programs[{}].", index++));
    for (const ProgramInfo &earlier : manifest.programs)
      if (earlier.name == program.name)
        reader.fail("programs", "names a program twice");
    manifest.programs.push_back(std::move(program));
  }
  if (root.contains("codecs"))
    for (const json &entry : reader.array(root, "codecs", "")) {
      std::string at = fmt::format("codecs[{}].", manifest.codecs.size());
      manifest.codecs.push_back({reader.text(entry, "codec", at), reader.text(entry, "name", at)});
    }
  if (root.contains("selection"))
    manifest.selection = readSelection(reader, root, manifest.programs);
  if (!reader.status().isOk())
    return reader.status();
  if (manifest.programs.empty())
    return error(StatusCode::BadPlugin, "its manifest's field 'programs' is empty");
  return manifest;
}

std::string describeStatement(const ProgramInfo &info, int64_t statement) {
  if (statement < 0 || static_cast<size_t>(statement) >= info.statements.size())
    return fmt::format("program {}", info.name);
  const StatementInfo &entry = info.statements[static_cast<size_t>(statement)];
  return fmt::format("program {}, {}:{} {}", info.name, entry.file, entry.line, entry.text);
}

} // namespace kolo::runtime
