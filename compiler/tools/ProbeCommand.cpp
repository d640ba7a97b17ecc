// kolo probe: measures this machine, for --machine host.
#include "Commands.h"
#include "Options.h"

#include "compiler/cost/Machine.h"
#include "driver/Probe.h"

#include <fmt/format.h>

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
  fmt::print("{} cores; a signal takes {:.3g} us, a call {:.3g} us before its first step\n", figures.cores,
             figures.latency * 1e6, figures.launch * 1e6);
  if (figures.mostLatency > 2 * figures.leastLatency)
    fmt::print("  {:.3g} to {:.3g} us between the first core and others; the file has the median\n",
               figures.leastLatency * 1e6, figures.mostLatency * 1e6);
  fmt::print("{:>12} {:>12} {:>12} {:>12}\n", "bytes", "lane GB/s", "reduce GB/s", "memory GB/s");
  for (const ProbedRates &row : figures.rates)
    fmt::print("{:>12} {:>12.1f} {:>12.1f} {:>12.1f}\n", row.bytes, row.lane / 1e9, row.reduction / 1e9,
               row.memory / 1e9);
  if (figures.wereDisturbed())
    fmt::print("disturbed: other programs used the cores meanwhile; measure again when nothing else runs\n");
}

void probeCommand(const std::string &output, double seconds) {
  std::string path = output.empty() ? userPath() : output;
  checkWritable(path, "--output");
  if (path != "-")
    checkRegular(path, "--output");
  HostFigures figures = probeHost({seconds});
  std::string text =
      hostMachineFile(figures, describeMachine(KOLO_VERSION, fmt::format("kolo probe --seconds {}", seconds)));
  assert(std::holds_alternative<cost::Machine>(cost::Machine::parse(text, path)));
  if (path == "-") {
    fmt::print("{}", text);
    return;
  }
  writeWhole(path, text, "--output");
  print(figures);
  fmt::print("written to {}{}\n", path, output.empty() ? ", which --machine host reads" : "");
}

} // namespace

void addProbeCommand(CLI::App &app) {
  CLI::App *command = app.add_subcommand(
      "probe", "measures this machine in a few seconds, for --machine host; nothing else should run meanwhile");
  auto output = std::make_shared<std::string>();
  command->add_option("-o,--output", *output,
                      "the machine file to write; -: standard output; without it, kolo/host.json in\n"
                      "$XDG_DATA_HOME or ~/.local/share, which --machine host reads");
  auto seconds = std::make_shared<double>(ProbeOptions().seconds);
  command->add_option("--seconds", *seconds, "spent in calls that are measured; more gives steadier figures")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->callback([output, seconds] { probeCommand(*output, *seconds); });
}

} // namespace kolo::tools
