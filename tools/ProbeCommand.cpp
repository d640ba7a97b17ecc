// kolo probe: measures this machine, for --machine host.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/ImportMachine.h"
#include "tools/MachineJson.h"
#include "tools/Options.h"

#include "compiler/cost/machine/Machine.h"
#include "compiler/import/HostTopology.h"
#include "tools/preload/Libraries.h"
#include "tools/tune/Probe.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cassert>
#include <filesystem>

namespace kolo::tools {

namespace {

/// The path for --machine host, whose folder is made.
std::string userPath() {
  std::string path = cost::Machine::hostPath();
  if (path.empty())
    throw ToolError(ExitCode::Usage, "--output is needed, since neither XDG_DATA_HOME nor HOME is set");
  std::error_code problem;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder, problem);
  if (problem)
    throw ToolError(ExitCode::Usage,
                    fmt::format("cannot make {}: {}; --output names another file", folder.string(), problem.message()));
  return path;
}

void print(const HostFigures &figures) {
  fmt::print("{} of {} cores; a call takes {:.3g} us before its first step\n", figures.cores, figures.usableCores,
             figures.launch * 1e6);
  for (const CoreDistance &distance : figures.distances)
    fmt::print("{} pairs like core {} and core {}: a signal takes {:.3g} us\n", distance.pairs.size(),
               distance.pairs.front().first, distance.pairs.front().second, distance.latency * 1e6);
  fmt::print("{:>12} {:>12} {:>12} {:>12} {:>12}\n", "working set", "lane GB/s", "reduce GB/s", "memory GB/s",
             "writes GB/s");
  auto text = [](const ProbedRates &rates, size_t size) {
    return size < rates.size() ? fmt::format("{:.1f}", rates[size].bytesPerSecond / 1e9) : "-";
  };
  for (size_t size = 0; size < figures.lane.size(); ++size)
    fmt::print("{:>12} {:>12} {:>12} {:>12} {:>12}\n", figures.lane[size].workingSetBytes, text(figures.lane, size),
               text(figures.reduction, size), text(figures.memory, size), text(figures.writes, size));
  if (figures.wereDisturbed())
    fmt::print("disturbed: other programs used the cores meanwhile; measure again when nothing else runs\n");
}

struct ProbeCommand : ProbeOptions {
  std::string output, sysfs = "/sys";
  bool asJson = false, devicesOnly = false;
};

/// Nothing where there is no nvidia-smi, and where its driver does not answer.
foreign::NvidiaSmi askNvidiaSmi() {
  std::optional<std::string> program = findExecutable("nvidia-smi");
  if (!program)
    return {};
  auto ask = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"timeout", "20", *program});
    return outputOf(words).value_or("");
  };
  return {ask({"--query-gpu=index,pci.bus_id,compute_cap", "--format=csv,noheader"}), ask({"topo", "-m"})};
}

/// Beside the machine of cores: what accelerators there are, as a topology and as a machine file. The path of the
/// latter; empty: there are none. Throws ToolError where the reader refuses them.
std::string writeDevices(const std::string &hostPath, const ProbeCommand &command) {
  std::string topology = foreign::hostTopology(command.sysfs, askNvidiaSmi());
  if (topology.empty())
    return "";
  std::filesystem::path path = hostPath;
  std::string stem = (path.parent_path() / path.stem()).string();
  std::string topologyPath = stem + "-topology.xml", devicesPath = stem + "-devices.json";
  std::FILE *report = command.asJson ? stderr : stdout;
  writeWhole(topologyPath, topology, "--output");
  fmt::print(report, "devices: {}, as NCCL has it\n", topologyPath);
  importMachineFile(topologyPath, devicesPath, report);
  fmt::print(report, "devices: written to {}\n", devicesPath);
  return devicesPath;
}

void probeDevices(const ProbeCommand &options) {
  if (options.asJson || options.output == "-")
    throw ToolError(ExitCode::Usage, "--devices: writes two files, and takes neither --json nor --output -");
  std::string path = options.output.empty() ? userPath() : options.output;
  checkWritable(path, "--output");
  if (writeDevices(path, options).empty())
    throw ToolError(ExitCode::Usage,
                    "--devices: there are no accelerators, neither in " + options.sysfs + " nor by nvidia-smi");
}

/// What the reader refuses is said. The machine of cores is written already.
std::string tryToWriteDevices(const std::string &hostPath, const ProbeCommand &command) {
  try {
    return writeDevices(hostPath, command);
  } catch (const ToolError &error) {
    fmt::print(stderr, "devices are left out: {}\n", error.what());
    return "";
  }
}

void probeCommand(const ProbeCommand &options) {
  if (options.devicesOnly)
    return probeDevices(options);
  const std::string &output = options.output;
  const bool asJson = options.asJson;
  std::string path = output.empty() ? userPath() : output;
  checkWritable(path, "--output");
  if (path == "-" && asJson)
    throw ToolError(ExitCode::Usage, "--json: standard output gets the machine file already, by --output -");
  if (path != "-")
    checkRegular(path, "--output");
  HostFigures figures = probeHost(options);
  std::string command = fmt::format("kolo probe --seconds {} --cores {}", options.seconds, options.mostCores);
  std::string text = hostMachineFile(figures, describeMachine(KOLO_VERSION, command));
  auto machine = cost::Machine::parse(text, path);
  assert(std::holds_alternative<cost::Machine>(machine));
  if (path == "-") {
    fmt::print("{}", text);
    return;
  }
  writeWhole(path, text, "--output");
  std::string devices = tryToWriteDevices(path, options);
  if (asJson) {
    nlohmann::ordered_json json = machineJson(std::get<cost::Machine>(machine));
    json["wasDisturbed"] = figures.wereDisturbed();
    json["output"] = path;
    if (!devices.empty())
      json["devices"] = devices;
    fmt::print("{}\n", json.dump(2));
    return;
  }
  print(figures);
  fmt::print("written to {}{}\n", path, output.empty() ? ", which --machine host reads" : "");
}

} // namespace

void addProbeCommand(CLI::App &app) {
  CLI::App *command =
      addCommand(app, "probe", "measures this machine, for --machine host; nothing else should run meanwhile");
  auto options = std::make_shared<ProbeCommand>();
  command->add_option("-o,--output", options->output,
                      "the machine file to write; -: standard output; without it, kolo/host.json in\n"
                      "$XDG_DATA_HOME or ~/.local/share, which --machine host reads");
  command->add_option("--seconds", options->seconds, "spent in calls that are measured; more gives steadier figures")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--cores", options->mostCores,
                   "measures at most so many of the cores that it may use, the first ones; the file says so")
      ->check(CLI::Range(2, 256))
      ->capture_default_str();
  command->footer("It takes less than 20 seconds on 2 cores. More cores take longer; --cores bounds their number.\n"
                  "A signal is timed between every two cores. Pairs whose signals take about as long are of one link "
                  "class, whose\nbandwidth is that of its fastest pair. All cores together give the memory's "
                  "bandwidth.\n"
                  "Accelerators are not measured. Where there are some, two more files are written: their topology, "
                  "host-topology.xml,\nand what kolo machine --import makes of it, host-devices.json. Slots, NUMA "
                  "nodes, NICs and AMD's links are from sysfs,\nNVLinks from nvidia-smi topo -m.");
  command
      ->add_option("--sysfs", options->sysfs,
                   "where slots, NICs and links of accelerators are read: /sys, or a copy of another machine's")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command->add_flag("--devices", options->devicesOnly, "measures nothing, and writes the files of accelerators alone");
  command->add_flag("--json", options->asJson, "the machine as kolo machine --json prints it, in place of text");
  command->callback([options] { probeCommand(*options); });
}

} // namespace kolo::tools
