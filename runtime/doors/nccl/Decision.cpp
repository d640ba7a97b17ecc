// What is carried: decided by the shape of a call alone, and kept.
#include "Carrier.h"
#include "Process.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

namespace kolo::nccl {

using runtime::CallArguments;
using runtime::LogLevel;
using runtime::Mesh;
using runtime::Plugin;
using runtime::ProgramInfo;
using runtime::SelectedProgram;
using runtime::Status;
using runtime::StatusCode;

namespace {

/// A call, and the ranks that make it.
struct Caller {
  const Shape &shape;
  int numRanks;
  const runtime::DeviceCommunicator *communicator; // null: all ranks are of one host

  CallArguments arguments(const SelectedProgram &found) const {
    CallArguments made = {found.info->name, found.mesh};
    made.lanes = found.lanes;
    shape.enter(made);
    return made;
  }
  /// By which a selection is asked, in this order.
  std::vector<Mesh> meshes() const {
    return communicator ? communicator->meshes() : std::vector{Mesh::create({{"rank", numRanks}}).value()};
  }
  /// Whether the program reaches all ranks where they are. What else it lacks is found when it runs.
  bool reaches(const Plugin &plugin, const SelectedProgram &found) const {
    return !communicator || communicator->carries(plugin, arguments(found)).code() != StatusCode::UnsupportedMesh;
  }
};

/// A mesh of so many ranks that the program runs on.
std::optional<SelectedProgram> fit(const Plugin &plugin, const ProgramInfo &info, const Caller &caller) {
  if (info.collective != caller.shape.kind || info.groupDims.size() != info.meshDims.size())
    return std::nullopt;
  for (const std::vector<int64_t> &sizes : info.meshes) {
    int64_t ranks = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
    const runtime::Proof *proof = info.proofOf(sizes);
    if (ranks != caller.numRanks || (!proof && !info.isUnproved) ||
        (caller.shape.hasTables && !(proof && proof->takesTables)))
      continue;
    std::vector<runtime::MeshDim> dims;
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      dims.push_back({info.meshDims[dim], sizes[dim]});
    runtime::Result<Mesh> mesh = Mesh::create(std::move(dims));
    if (!mesh.isOk())
      continue;
    if (SelectedProgram found{&info, std::move(mesh).value()}; caller.reaches(plugin, found))
      return found;
  }
  return std::nullopt;
}

std::optional<SelectedProgram> find(const Plugin &plugin, const Caller &caller) {
  const Shape &shape = caller.shape;
  if (!shape.program.empty()) {
    const ProgramInfo *named = plugin.findProgram(shape.program);
    return named ? fit(plugin, *named, caller) : std::nullopt;
  }
  if (plugin.selection().empty()) { // one program alone needs no table, except where it rounds: nobody asked for that
    bool isAlone = plugin.programs().size() == 1 && !plugin.programs().front().isLossy();
    return isAlone ? fit(plugin, plugin.programs().front(), caller) : std::nullopt;
  }
  for (const Mesh &mesh : caller.meshes()) {
    runtime::SelectionQuery query{shape.kind,   mesh,       shape.largestBytes(caller.numRanks),
                                  shape.memory, shape.type, shape.reduction};
    query.hasTables = shape.hasTables;
    std::optional<SelectedProgram> found = plugin.select(query);
    if (found && caller.reaches(plugin, *found))
      return found;
  }
  return std::nullopt;
}

} // namespace

/// Of the larger buffer of any rank; with block tables, of this rank's larger one.
static int64_t sizeOf(const CallRequest &request, const Decision &decision) {
  if (!request.buffers.blocks)
    return decision.sizeBytes;
  auto sumOf = [](const runtime::BlockTable &table) {
    return std::accumulate(table.counts.begin(), table.counts.end(), int64_t(0));
  };
  return std::max(sumOf(request.buffers.blocks->input), sumOf(request.buffers.blocks->output)) *
         request.shape.elementBytes();
}

std::string describe(const Shape &shape) {
  std::string text = std::string(runtime::toString(shape.kind)) + " of " + (shape.hasTables ? "blocks of up to " : "") +
                     std::to_string(shape.count) + " " + runtime::toString(shape.type);
  if (runtime::factsOf(shape.kind).reduces)
    text += std::string(", ") + runtime::toString(shape.reduction);
  if (runtime::hasRoot(shape.kind))
    text += ", root " + std::to_string(shape.root);
  return shape.program.empty() ? text : text + ", program '" + shape.program + "'";
}

bool haveTableProgram() {
  return std::ranges::any_of(door()->plugins(), [](const Plugin &plugin) {
    return std::ranges::any_of(plugin.programs(), [](const ProgramInfo &info) {
      return info.collective == runtime::CollectiveKind::AllToAll &&
             std::ranges::any_of(info.meshes, [&](const std::vector<int64_t> &sizes) {
               const runtime::Proof *proof = info.proofOf(sizes);
               return proof && proof->takesTables;
             });
    });
  });
}

Decision decide(const Shape &shape, int numRanks, const runtime::DeviceCommunicator *communicator) {
  const Caller caller{shape, numRanks, communicator};
  Decision decision;
  decision.sizeBytes = shape.largestBytes(numRanks);
  for (const Plugin &plugin : door()->plugins())
    if (std::optional<SelectedProgram> found = find(plugin, caller)) {
      decision.plugin = &plugin;
      decision.arguments = caller.arguments(*found);
      break;
    }
  return decision;
}

Decision &Carrier::decisionOn(const Shape &shape, bool isSaid, const runtime::DeviceCommunicator *communicator) {
  if (lastShape && *lastShape == shape) [[likely]]
    return *lastDecision;
  auto found = decisions.find(shape);
  if (found == decisions.end()) {
    found = decisions.emplace(shape, decide(shape, numRanks, communicator)).first;
    const Decision &decision = found->second;
    if (isSaid && door()->logLevel() != LogLevel::Off)
      print(describe(shape) + " on " + std::to_string(numRanks) + " ranks: " +
            (decision.plugin
                 ? "carried by " + std::string(decision.arguments.program) + " of " + decision.plugin->path()
                 : std::string("forwarded: no plugin has a program for it")));
  }
  lastShape = &found->first;
  lastDecision = &found->second;
  return *lastDecision;
}

void Carrier::settle(Decision &decision, CallRequest &request, const Status &status, bool isUsable,
                     bool isFirst) const {
  if (status.isOk()) [[likely]] {
    door()->countCarried(sizeOf(request, decision)); // first: the caller may end the program once the state says so
    request.state = CallRequest::State::Carried;
    return;
  }
  auto forward = [&](const char *reason) {
    if (isFirst && door()->logLevel() != LogLevel::Off)
      print(describe(request.shape) + ": forwarded: " + status.message());
    request.reason = reason;
    request.state = CallRequest::State::Forwarded;
  };
  bool isNamed = !request.shape.program.empty();
  switch (isUsable ? status.code() : StatusCode::Aborted) {
  case StatusCode::BadPlugin:
  case StatusCode::UnsupportedMesh:
    if (isNamed)
      break;
    decision.plugin = nullptr;
    return forward(decision.reason = "no code for these devices");
  case StatusCode::InvalidArgument:
    if (isNamed)
      break;
    return forward(unusableMemory);
  case StatusCode::OutOfMemory:
    return forward("no memory for Kolo");
  default:
    break;
  }
  request.message = describe(request.shape) + ": " + status.message();
  request.code = codeOf(status, isNamed);
  request.state = CallRequest::State::Failed;
}

void Carrier::failUnknown(CallRequest &request) const {
  request.code = Code::InvalidArgument;
  request.message = "no plugin has " + describe(request.shape) + " on " + std::to_string(numRanks) + " ranks";
  request.state = CallRequest::State::Failed;
}

Code codeOf(const Status &status, bool isNamed) {
  if (status.code() == StatusCode::Mismatch || isNamed)
    return Code::InvalidArgument;
  return status.code() == StatusCode::DeviceError ? Code::UnhandledCudaError : Code::RemoteError;
}

std::vector<RequestPointer> submitAll(std::span<const Submission> group) {
  awaitAborted();
  std::vector<RequestPointer> requests(group.size());
  std::vector<Submission> ofOneRank;
  for (size_t number = 0; number < group.size(); ++number) {
    const Submission &each = group[number];
    if (each.carrier->ofOneRank())
      ofOneRank.push_back(each);
    else
      requests[number] = each.carrier->submit(each.rank, *each.shape, each.buffers, each.stream);
  }
  if (ofOneRank.empty())
    return requests;
  auto next = HostCarrier::submitTogether(ofOneRank);
  for (auto from = next.begin(); RequestPointer &request : requests)
    if (!request)
      request = std::move(*from++);
  return requests;
}

void Carrier::end(std::shared_ptr<runtime::DeviceCommunicator> communicator, Leave how) {
  if (how == Leave::Aborted && communicator)
    runAside([last = std::move(communicator)] {}, abortedMs);
}

void awaitAborted() { awaitAside(abortedMs); }

static std::optional<int> readGroupMs() {
  constexpr int otherwise = 100, most = 3600000;
  const char *text = secure_getenv("KOLO_NCCL_GROUP_MS");
  if (!text || !*text)
    return otherwise;
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  return end == text || *end || value < 0 || value > most ? std::nullopt : std::optional(static_cast<int>(value));
}

std::optional<int> groupMs() {
  static const std::optional<int> read = readGroupMs();
  return read;
}

int timeoutMs() {
  constexpr int otherwise = 600000;
  const char *text = secure_getenv("KOLO_TIMEOUT_MS");
  int value = text ? std::atoi(text) : otherwise;
  return value > 0 ? value : otherwise; // the runtime reports a wrong value when it makes a communicator
}

} // namespace kolo::nccl
