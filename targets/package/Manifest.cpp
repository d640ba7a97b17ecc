// The manifest of a plugin: see runtime/README.md for the fields that a loader reads.
#include "codec/Presets.h"
#include "compiler/SourceLine.h"
#include "compiler/check/ShowVerdict.h"
#include "compiler/project/Relations.h"
#include "ir/BlockTables.h"
#include "ir/Kolo.h"
#include "targets/Elements.h"
#include "targets/package/Internal.h"

#include "kolo/runtime/PluginAbi.h"

#include "llvm/TargetParser/Host.h"

#include <nlohmann/json.hpp>

using namespace mlir;
using nlohmann::ordered_json;

namespace kolo::package {

static std::vector<int64_t> toVector(ArrayRef<int64_t> values) { return {values.begin(), values.end()}; }

static ordered_json describeStatements(const cpu::HostProgram &lowered) {
  ordered_json result = ordered_json::array();
  for (Location location : lowered.statements) {
    SourceLine place = sourceLineOf(location);
    result.push_back({{"file", place.file}, {"line", place.line}, {"what", "transfer"}});
  }
  return result;
}

/// What CheckProgram left: which mesh it is proved on, or represented by a smaller one that was proved in its place,
/// and from which size of each dimension on it is proved for all. And whether calls may have block tables and row
/// lists.
static ordered_json describeProofs(ProgramOp program) {
  ordered_json result = ordered_json::array();
  auto tables = program->getAttrOfType<ArrayAttr>(blockTablesAttrName);
  const bool takesRows = takesRowLists(program);
  if (std::optional<ArrayAttr> proofs = program.getProved())
    for (auto [number, proof] : llvm::enumerate(proofs->getAsRange<ProofAttr>())) {
      ordered_json &entry = result.emplace_back();
      entry = {{"mesh", toVector(proof.getMesh())},
               {"on", toVector(proof.getOn())},
               {"represented", proof.getMesh() != proof.getOn()},
               {"forAllSizes", ordered_json::array()}};
      for (auto [dim, from] : llvm::enumerate(proof.getFrom()))
        if (from > 0)
          entry["forAllSizes"].push_back({{"dim", cast<StringAttr>(program.getMesh()[dim]).str()}, {"from", from}});
      if (tables && isa<UnitAttr>(tables[number])) {
        entry["blockTables"] = true;
        if (takesRows)
          entry["rowLists"] = true;
      } else if (tables)
        entry["whyNoBlockTables"] = cast<StringAttr>(tables[number]).str();
    }
  return result;
}

/// What CheckProgram left of the errors and bits of each proved mesh, if any encoding loses something.
static ordered_json describeLosses(ProgramOp program) {
  ordered_json result = ordered_json::array();
  auto losses = program->getAttrOfType<ArrayAttr>(lossyAttrName);
  std::optional<ArrayAttr> proofs = program.getProved();
  if (!losses || !proofs)
    return result;
  for (auto [proof, loss] : llvm::zip_equal(proofs->getAsRange<ProofAttr>(), losses.getAsRange<DictionaryAttr>())) {
    int64_t encodings = loss.getAs<IntegerAttr>("encodings").getInt();
    if (encodings == 0)
      continue;
    ordered_json bound = ordered_json::array();
    for (auto entry : loss.getAs<ArrayAttr>("bound").getAsRange<DictionaryAttr>())
      bound.push_back(
          {{"codec", entry.getAs<StringAttr>("codec").str()}, {"factor", entry.getAs<IntegerAttr>("factor").getInt()}});
    result.push_back({{"mesh", toVector(proof.getMesh())},
                      {"encodings", encodings},
                      {"bound", bound},
                      {"ranks", loss.getAs<StringAttr>("ranks").str()},
                      {"runs", loss.getAs<StringAttr>("runs").str()}});
  }
  return result;
}

/// What CheckProgram left of the order of sums on each proved mesh, where the schedule asks for one.
static ordered_json describeOrders(ProgramOp program) {
  ordered_json result = ordered_json::array();
  auto orders = program->getAttrOfType<ArrayAttr>(sumOrderAttrName);
  std::optional<ArrayAttr> proofs = program.getProved();
  if (!orders || !proofs)
    return result;
  for (auto [proof, order] : llvm::zip_equal(proofs->getAsRange<ProofAttr>(), orders.getAsRange<DictionaryAttr>()))
    result.push_back({{"mesh", toVector(proof.getMesh())},
                      {"text", order.getAs<StringAttr>("text").str()},
                      {"fingerprint", order.getAs<StringAttr>("fingerprint").str()}});
  return result;
}

/// The caller's buffers that peers read or write.
static ordered_json namesOfShared(ProgramOp program) {
  bool isShared[2] = {};
  auto look = [&](Value buffer, Value rank) {
    BufferRole role = buffer.getDefiningOp<BufferOp>().getRole();
    if (rank && isOfCaller(role))
      isShared[int(role)] = true;
  };
  program.walk([&](MoveInterface move) {
    look(move.getSource(), move.getSourceRank());
    look(move.getDestination(), move.getDestinationRank());
  });
  ordered_json result = ordered_json::array();
  for (BufferRole role : {BufferRole::Input, BufferRole::Output})
    if (isShared[int(role)])
      result.push_back(stringifyBufferRole(role).str());
  return result;
}

static ordered_json describeProgram(ProgramOp program, const cpu::HostProgram &lowered, const PackRequest &request) {
  ordered_json result;
  result["name"] = lowered.name;
  result["collective"] = stringifyCollectiveKind(program.getCollective().getKind()).str();
  result["groupDims"] = toVector(program.getCollective().getGroupDims());
  for (auto name : program.getMesh().getAsRange<StringAttr>())
    result["mesh"].push_back(name.getValue().str());
  result["meshes"] = ordered_json::array();
  for (auto mesh : program.getMeshes().getAsRange<DenseI64ArrayAttr>())
    result["meshes"].push_back(toVector(mesh));
  result["proved"] = describeProofs(program);
  result["unproved"] = program.getUnproved();
  result["lossy"] = describeLosses(program);
  if (ordered_json orders = describeOrders(program); !orders.empty())
    result["order"] = std::move(orders);
  result["semaphores"] = int64_t(program.getSemaphores());
  bool reduces = false;
  program.walk([&](ChannelReduceOp) { reduces = true; });
  result["reduces"] = reduces;
  result["enters"] = !program.getBody().getOps<EnterOp>().empty();
  if (findCoded(program)) {
    result["granule"] = codec::granule;
    if (auto found = request.choreographies.find(lowered.name); found != request.choreographies.end())
      result["choreography"] = found->second;
  }
  auto usesLL128 = [](BufferOp buffer) { return buffer.getLl128(); };
  result["ll128"] = llvm::any_of(program.getBody().getOps<BufferOp>(), usesLL128);
  result["shared"] = namesOfShared(program);
  if (auto network = program->getAttrOfType<DenseI64ArrayAttr>(networkAttrName))
    result["networkDims"] = toVector(network);
  if (usesStagedNetwork(program))
    result["networkMemory"] = "staged";
  result["inPlace"] = stringifyInPlace(program.getInPlace()).str();
  result["statements"] = describeStatements(lowered);
  return result;
}

template <typename Kinds> static ordered_json namesOf(const Kinds &kinds) {
  ordered_json result = ordered_json::array();
  for (auto kind : kinds)
    result.push_back(nameOf(kind));
  return result;
}

static const char *nameOf(KoloDeviceFormat format) {
  return format == KOLO_DEVICE_PTX ? "ptx" : format == KOLO_DEVICE_CUBIN ? "cubin" : "hsaco";
}

static ordered_json describeImages(ModuleOp programs, const DeviceCode &devices) {
  ordered_json result = ordered_json::array();
  for (auto [image, offset] : llvm::zip_equal(devices.images, imageOffsets(devices))) {
    ordered_json &entry = result.emplace_back();
    entry["kind"] = image.kind;
    entry["architecture"] = image.architecture;
    entry["format"] = nameOf(image.format);
    entry["offset"] = offset;
    entry["bytes"] = image.data.size();
    for (auto [program, resources] : llvm::zip(programs.getOps<ProgramOp>(), image.resources))
      for (const auto &[name, amount] : resources)
        entry["resources"][program.getSymName().str()][name] = amount;
  }
  return result;
}

static ordered_json describeSelection(const std::vector<Selection> &selection) {
  ordered_json result = ordered_json::array();
  for (const Selection &entry : selection) {
    ordered_json &object = result.emplace_back();
    object["collective"] = entry.collective;
    if (entry.mesh.empty())
      object["ranks"] = entry.ranks;
    for (const auto &[name, size] : entry.mesh)
      object["mesh"][name] = size;
    if (!entry.tag.empty())
      object["tag"] = entry.tag;
    object["memory"] = entry.memory;
    object["upToBytes"] = entry.upToBytes ? ordered_json(*entry.upToBytes) : ordered_json();
    object["program"] = entry.program;
    if (entry.allowsLoss)
      object["lossy"] = true;
    if (entry.lanes)
      object["lanes"] = entry.lanes;
  }
  return result;
}

/// In the order of the table of entry points.
static ordered_json describeCodecs(const cpu::HostCode &host) {
  ordered_json result = ordered_json::array();
  for (const codec::Codec &codec : host.codecs)
    result.push_back({{"codec", codec::textOf(codec)}, {"name", codec::nameOf(codec)}});
  return result;
}

std::string writeManifest(ModuleOp programs, const cpu::HostCode &host, const DeviceCode &devices,
                          const PackRequest &request) {
  ordered_json manifest;
  manifest["kolo"] = KOLO_VERSION;
  manifest["abi"] = KOLO_ABI_VERSION;
  manifest["target"] = {{"kind", "cpu"}, {"triple", llvm::sys::getDefaultTargetTriple()}, {"cpu", host.cpu}};
  if (request.options.sanitizeThread)
    manifest["sanitize"] = "thread";
  manifest["programs"] = ordered_json::array();
  for (auto [program, lowered] : llvm::zip_equal(programs.getOps<ProgramOp>(), host.programs))
    manifest["programs"].push_back(describeProgram(program, lowered, request));
  if (ordered_json codecs = describeCodecs(host); !codecs.empty())
    manifest["codecs"] = std::move(codecs);
  if (!request.selection.empty())
    manifest["selection"] = describeSelection(request.selection);
  for (const auto &[field, value] : request.tuned)
    manifest["tuned"][field] = value;
  if (!devices.images.empty())
    manifest["devices"] = {{"abi", KOLO_DEVICE_ABI_VERSION},
                           {"maxThreads", KOLO_DEVICE_MAX_THREADS},
                           {"types", namesOf(devices.options.types)},
                           {"reductions", namesOf(devices.options.reductions)},
                           {"accumulate", devices.options.accumulation == Accumulation::Native ? "native" : "f32"},
                           {"images", describeImages(programs, devices)}};
  return manifest.dump() + "\n";
}

} // namespace kolo::package
