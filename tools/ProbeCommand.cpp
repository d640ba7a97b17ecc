// kolo probe: measures this machine, for --machine host.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/MachineJson.h"
#include "tools/Options.h"

#include "compiler/cost/machine/Machine.h"
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

void probeCommand(const std::string &output, bool asJson, const ProbeOptions &options) {
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
  if (asJson) {
    nlohmann::ordered_json json = machineJson(std::get<cost::Machine>(machine));
    json["wasDisturbed"] = figures.wereDisturbed();
    json["output"] = path;
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
  auto output = std::make_shared<std::string>();
  command->add_option("-o,--output", *output,
                      "the machine file to write; -: standard output; without it, kolo/host.json in\n"
                      "$XDG_DATA_HOME or ~/.local/share, which --machine host reads");
  auto options = std::make_shared<ProbeOptions>();
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
                  "bandwidth.");
  auto asJson = std::make_shared<bool>(false);
  command->add_flag("--json", *asJson, "the machine as kolo machine --json prints it, in place of text");
  command->callback([output, asJson, options] { probeCommand(*output, *asJson, *options); });
}

} // namespace kolo::tools
