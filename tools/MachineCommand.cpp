// kolo machine: what a machine is, and what no algorithm can beat on it.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/ImportMachine.h"
#include "tools/MachineJson.h"
#include "tools/Options.h"

#include "compiler/cost/bounds/Bounds.h"
#include "compiler/cost/machine/Drawing.h"
#include "kolo/runtime/Types.h"
#include "tools/compile/ToolError.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace kolo::tools {

namespace {

using namespace cost;

struct MachineCommand {
  std::string machine, svg, imported, output;
  bool asJson = false;
};

std::string gigabytes(double bytesPerSecond) { return fmt::format("{:.4g}", bytesPerSecond / 1e9); }
std::string percent(double share) { return fmt::format("{:.3g} %", share * 100); }
std::string microseconds(double seconds) { return fmt::format("{:.3g}", seconds * 1e6); }

std::string binarySizeText(int64_t bytes) {
  const char *units[] = {"", " KiB", " MiB", " GiB", " TiB"};
  size_t unit = 0;
  for (; unit + 1 < std::size(units) && bytes % 1024 == 0 && bytes > 0; bytes /= 1024)
    ++unit;
  return std::to_string(bytes) + units[unit];
}

std::string bandwidthText(const Bandwidth &bandwidth) {
  std::string text;
  for (const Bandwidth::Step &step : bandwidth.bySize)
    text += gigabytes(step.peak) + " up to " + binarySizeText(step.upToBytes) + ", ";
  return text + gigabytes(bandwidth.peak) + " GB/s";
}

/// Algorithm bandwidth at this many bytes and more, where latencies no longer count.
constexpr int64_t largeBytes = int64_t(1) << 40;

class MachinePage {
public:
  explicit MachinePage(const Machine &machine) : machine(machine) {
    add("{}: {}\n", machine.name(), machine.title());
    addDevices();
    addClasses();
    addLinks();
    addLevels();
    addBounds();
  }
  std::string text;

private:
  template <class... Values> void add(fmt::format_string<Values...> format, Values &&...values) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Values>(values)...);
  }

  void addDevices() {
    const DeviceSpeed &speed = machine.device();
    std::string first = machine.vertices()[0].name,
                last = machine.vertices()[size_t(machine.devicesPerNode()) - 1].name;
    add("{} node{} of {} devices, {} to {}\n", machine.numNodes(), machine.numNodes() == 1 ? "" : "s",
        machine.devicesPerNode(), first, last);
    if (speed.memoryBandwidth.peak > 0)
      add("  memory{}: {}, of which programs reach {}\n", speed.sharesMemory ? " of a node" : "",
          bandwidthText(speed.memoryBandwidth), percent(speed.memoryShare));
    if (speed.memoryWrites.peak > 0)
      add("  memory: writes at most {}\n", bandwidthText(speed.memoryWrites));
    if (const std::optional<HostMemory> &host = machine.hostMemory())
      add("  host: memory of {}, reached by a {} link of each device\n", bandwidthText(host->bandwidth),
          machine.linkClasses()[size_t(host->linkClass)].name);
    if (speed.laneBandwidth.peak > 0)
      add("  lane: moves {}\n  lane: reduces {}\n", bandwidthText(speed.laneBandwidth),
          bandwidthText(speed.laneReduction));
    for (auto [protocol, name] : {std::pair(Protocol::LL, "LL"), std::pair(Protocol::LL128, "LL128")})
      if (double share = of(speed.laneShare, protocol); share < 1)
        add("  lane: moves {} GB/s with {}\n", gigabytes(share * speed.laneBandwidth.peak), name);
    if (speed.laneSignal)
      add("  lane: signals another lane of its device in {} us\n", microseconds(*speed.laneSignal));
    if (speed.launch > 0)
      add("  launch: {} us\n", microseconds(speed.launch));
    add("  payload: {} of a link with LL, {}\n", percent(machine.payloadShare(Protocol::LL)),
        hasLL128() ? percent(machine.payloadShare(Protocol::LL128)) + " with LL128" : "no LL128");
  }

  void addClasses() {
    add("\n{:<14} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}\n", "link class", "GB/s", "kernels", "copies", "bulk us", "LL us",
        "LL128 us");
    for (const LinkClass &kind : machine.linkClasses())
      add("{:<14} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}\n", kind.name, gigabytes(kind.bandwidth.peak),
          percent(kind.kernelShare), percent(kind.copyShare), microseconds(of(kind.latency, Protocol::Bulk)),
          microseconds(of(kind.latency, Protocol::LL)), latencyWithLL128(kind.latency));
    for (const LinkClass &kind : machine.linkClasses())
      if (kind.messagesPerSecond > 0)
        add("  a {} link starts {:.4g} million messages per second\n", kind.name, kind.messagesPerSecond / 1e6);
  }

  void addLinks() {
    add("\n{:<30} {:<14} {:>5} {:>8}\n", "link", "class", "count", "GB/s");
    for (const Link &link : machine.links()) {
      const LinkClass &kind = machine.linkClasses()[size_t(link.linkClass)];
      add("{:<30} {:<14} {:>5} {:>8}\n", nameOf(link.from) + " - " + nameOf(link.to), kind.name, link.count,
          gigabytes(kind.bandwidth.peak * link.count));
    }
    for (const Vertex &vertex : machine.vertices())
      if (vertex.kind == VertexKind::Nic) {
        const LinkClass &kind = machine.linkClasses()[size_t(vertex.wireClass)];
        add("{:<30} {:<14} {:>5} {:>8}\n", vertex.name + " - network", kind.name, 1, gigabytes(kind.bandwidth.peak));
      }
  }
  bool hasLL128() const { return !machine.refuse(Protocol::LL128); }
  std::string latencyWithLL128(const PerProtocol &latency) const {
    return hasLL128() ? microseconds(of(latency, Protocol::LL128)) : "-";
  }
  const std::string &nameOf(int vertex) const { return machine.vertices()[size_t(vertex)].name; }

  void addLevels() {
    if (machine.levels().empty())
      return;
    add("\n{:<14} {:>8} {:>8} {:>13} {:>9} {:>8} {:>8}\n", "level", "nodes", "units", "GB/s out", "bulk us", "LL us",
        "LL128 us");
    for (const Level &level : machine.levels())
      add("{:<14} {:>8} {:>8} {:>13} {:>9} {:>8} {:>8}\n", level.name, level.nodes,
          (machine.numNodes() + level.nodes - 1) / level.nodes,
          level.bandwidth > 0 ? gigabytes(level.bandwidth) : "no limit",
          microseconds(of(level.latency, Protocol::Bulk)), microseconds(of(level.latency, Protocol::LL)),
          latencyWithLL128(level.latency));
  }

  void addBounds() {
    add("\nlower bounds: no algorithm has more GB/s of the larger buffer of one rank, or less latency\n");
    add("{:<16} {:>7} {:>10} {:>11}  {}\n", "collective", "nodes", "GB/s", "latency us", "bottleneck");
    for (int64_t nodes : shownNodes(machine)) {
      LowerBounds bounds = boundsOn(machine, nodes);
      for (int collective = 0; collective < KOLO_NUM_COLLECTIVES; ++collective) {
        LowerBound bound = bounds.of(KoloCollective(collective), largeBytes);
        std::string reached =
            bound.bandwidthSeconds > 0 ? fmt::format("{:.1f}", largeBytes / bound.bandwidthSeconds / 1e9) : "no limit";
        add("{:<16} {:>7} {:>10} {:>11}  {}{}\n", runtime::toString(runtime::CollectiveKind(collective)), nodes,
            reached, microseconds(bound.latencySeconds), bound.bottleneck,
            bound.triesAllCuts ? "" : " (of the cuts that were tried)");
      }
    }
  }

  const Machine &machine;
};

Machine readMachine(const std::string &nameOrPath) {
  auto read = Machine::read(nameOrPath);
  if (auto *mistake = std::get_if<CostMistake>(&read))
    throw ToolError(ExitCode::Usage, mistake->message);
  return std::get<Machine>(std::move(read));
}

void listMachines() {
  for (const std::string &name : Machine::shippedNames()) {
    Machine machine = readMachine(name);
    fmt::print("{:<14} {:>6} x {:<4} {}\n", name, machine.numNodes(), machine.devicesPerNode(), machine.title());
  }
  fmt::print("{:<14} {:>6}   {:<4} what kolo probe measured on this machine\n", "host", "", "");
}

void machineCommand(const MachineCommand &command) {
  if (command.machine.empty() && (command.asJson || !command.svg.empty()))
    throw ToolError(ExitCode::Usage, "a machine is missing, which --json or --svg is about (kolo machine lists them)");
  if (command.machine.empty())
    return listMachines();
  checkWritable(command.svg, "--svg");
  if (command.svg != "-")
    checkRegular(command.svg, "--svg");
  Machine machine = readMachine(command.machine);
  if (command.asJson)
    fmt::print("{}\n", machineJson(machine).dump(2));
  else if (command.svg == "-")
    fmt::print("{}", drawSvg(machine));
  else
    fmt::print("{}", MachinePage(machine).text);
  if (!command.svg.empty() && command.svg != "-")
    writeWhole(command.svg, drawSvg(machine), "--svg");
}

} // namespace

void addMachineCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "machine", "says what a machine is, and what no algorithm can beat on it");
  auto options = std::make_shared<MachineCommand>();
  command->add_option("machine", options->machine,
                      "a machine that ships with Kolo, host (as kolo probe measured it), or a file;\n"
                      "without it, lists the machines");
  auto *json = command->add_flag("--json", options->asJson, "as JSON, in bytes and seconds");
  command
      ->add_option("--svg", options->svg, "draws the node and the network to this file; -: to standard output instead")
      ->excludes(json);
  auto *imported = command->add_option("--import", options->imported,
                                       "instead, makes a machine file of a topology: NCCL's or RCCL's\n"
                                       "(NCCL_TOPO_DUMP_FILE), or hwloc's; says what it took and what it assumed");
  command->add_option("-o,--output", options->output, "the machine file of --import; - or nothing: standard output")
      ->needs(imported);
  command->callback([options] {
    if (!options->imported.empty() && !options->machine.empty())
      throw ToolError(ExitCode::Usage, "--import: not with a machine, " + options->machine);
    if (options->imported.empty())
      machineCommand(*options);
    else
      importMachineFile(options->imported, options->output);
  });
}

} // namespace kolo::tools
