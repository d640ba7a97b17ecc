#include "tools/MachineJson.h"
#include "kolo/runtime/Types.h"
#include "tools/compile/ToolError.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace kolo::tools {

using namespace cost;
using Json = nlohmann::ordered_json;

std::vector<int64_t> shownNodes(const Machine &machine) {
  std::vector<int64_t> numbers = {1};
  for (const Level &level : machine.levels()) {
    int64_t nodes = std::min(level.nodes, maxPlacedRanks / machine.devicesPerNode());
    if (nodes > numbers.back())
      numbers.push_back(nodes);
  }
  return numbers;
}

LowerBounds boundsOn(const Machine &machine, int64_t nodes) {
  PlacedMesh mesh{{"node", "device"}, {nodes, machine.devicesPerNode()}};
  auto placement = Placement::create(machine, mesh);
  if (auto *mistake = std::get_if<CostMistake>(&placement))
    throw ToolError(ExitCode::Failed, mistake->message); // the mesh is the machine's own
  return LowerBounds(machine, std::get<Placement>(placement));
}

namespace {

constexpr int64_t boundBytes[] = {1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30};

Json toJson(const PerProtocol &seconds) {
  return {{"bulk", of(seconds, Protocol::Bulk)},
          {"ll", of(seconds, Protocol::LL)},
          {"ll128", of(seconds, Protocol::LL128)}};
}

Json toJson(const Bandwidth &bandwidth) {
  Json steps = Json::array();
  for (const Bandwidth::Step &step : bandwidth.bySize)
    steps.push_back({{"upToBytes", step.upToBytes}, {"bytesPerSecond", step.peak}});
  return {{"bytesPerSecond", bandwidth.peak}, {"bySize", steps}};
}

/// One for each collective and number of nodes: what no schedule can beat takes the bound's own time.
Json boundsJson(const Machine &machine) {
  Json schedules = Json::array();
  for (int64_t nodes : shownNodes(machine)) {
    LowerBounds bounds = boundsOn(machine, nodes);
    for (int collective = 0; collective < KOLO_NUM_COLLECTIVES; ++collective) {
      Json sizes = Json::array();
      bool triesAllCuts = true;
      for (int64_t bytes : boundBytes) {
        LowerBound bound = bounds.of(KoloCollective(collective), bytes);
        triesAllCuts &= bound.triesAllCuts;
        sizes.push_back({{"bytes", bytes},
                         {"seconds", bound.seconds},
                         {"latencySeconds", bound.latencySeconds},
                         {"boundSeconds", bound.seconds},
                         {"fractionOfBound", 1},
                         {"bottleneck", bound.bottleneck}});
      }
      schedules.push_back({{"name", "lower bound"},
                           {"collective", runtime::toString(runtime::CollectiveKind(collective))},
                           {"mesh", fmt::format("node={},device={}", nodes, machine.devicesPerNode())},
                           {"triesAllCuts", triesAllCuts},
                           {"sizes", std::move(sizes)}});
    }
  }
  return schedules;
}

} // namespace

Json machineJson(const Machine &machine) {
  const DeviceSpeed &speed = machine.device();
  Json json = {
      {"name", machine.name()},
      {"title", machine.title()},
      {"nodes", machine.numNodes()},
      {"devicesPerNode", machine.devicesPerNode()},
      {"device",
       {{"memory", toJson(speed.memoryBandwidth)},
        {"memoryWrites", toJson(speed.memoryWrites)},
        {"memoryShare", speed.memoryShare},
        {"sharesMemory", speed.sharesMemory},
        {"lane", toJson(speed.laneBandwidth)},
        {"laneReduction", toJson(speed.laneReduction)},
        {"laneShare", {{"ll", of(speed.laneShare, Protocol::LL)}, {"ll128", of(speed.laneShare, Protocol::LL128)}}},
        {"laneSignalSeconds", speed.laneSignal ? Json(*speed.laneSignal) : Json()},
        {"launchSeconds", speed.launch}}},
      {"payloadShare", {{"ll", machine.payloadShare(Protocol::LL)}, {"ll128", machine.payloadShare(Protocol::LL128)}}},
      {"injectionBytesPerSecond", machine.injection()}};
  constexpr const char *kinds[] = {"device", "switch", "nic"};
  for (const Vertex &vertex : machine.vertices())
    json["vertices"].push_back({{"kind", kinds[size_t(vertex.kind)]}, {"name", vertex.name}});
  for (const LinkClass &kind : machine.linkClasses())
    json["linkClasses"].push_back({{"name", kind.name},
                                   {"bandwidth", toJson(kind.bandwidth)},
                                   {"kernelShare", kind.kernelShare},
                                   {"copyShare", kind.copyShare},
                                   {"messagesPerSecond", kind.messagesPerSecond},
                                   {"latencySeconds", toJson(kind.latency)}});
  for (const Link &link : machine.links())
    json["links"].push_back({{"from", machine.vertices()[size_t(link.from)].name},
                             {"to", machine.vertices()[size_t(link.to)].name},
                             {"class", machine.linkClasses()[size_t(link.linkClass)].name},
                             {"count", link.count}});
  json["levels"] = Json::array();
  for (const Level &level : machine.levels())
    json["levels"].push_back({{"name", level.name},
                              {"nodes", level.nodes},
                              {"bytesPerSecond", level.bandwidth > 0 ? Json(level.bandwidth) : Json()},
                              {"latencySeconds", toJson(level.latency)}});
  json["schedules"] = boundsJson(machine);
  return json;
}

} // namespace kolo::tools
