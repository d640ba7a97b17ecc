// What `kolo cost`, `simulate` and `explore` are given, and how it is understood.
#pragma once

#include "compiler/cost/Prediction.h"
#include "tools/Options.h"
#include "tools/compile/Compile.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

/// The machine, what runs where on it, sizes, and how results are printed.
struct CostOptions {
  std::string machine, mesh, placement, rates = "peak", bytes = "1K..1G", networkMemory;
  std::optional<std::string> json; // a file; empty or "-": standard output

  /// --machine, --network-memory, --mesh, --placement, --rates, --bytes and --json. `explore` has --nodes instead of
  /// --mesh.
  void addTo(CLI::App &command, bool hasMesh = true);

  // All throw ToolError (Usage), whose message begins with the flag or the file at fault.
  /// With a staged network where --network-memory says so.
  cost::Machine readMachine() const;
  /// Nothing: programs are costed as if all ranks were on one host.
  std::optional<NetworkMemory> network() const;
  runtime::Mesh parsedMesh() const;
  cost::Placement place(const cost::Machine &on) const;
  cost::Rates parsedRates() const;
  /// "1K..1G": the first, its doubles, and the last; "1K,64K,1M": these; "64M": this one. Increasing.
  std::vector<int64_t> sizes() const;

  bool writesToStandardOutput() const { return json && (json->empty() || *json == "-"); }
};

inline constexpr int64_t mostCostBytes = int64_t(16) << 40;

/// The same understanding of "1K..1G" for other flags.
std::vector<int64_t> parseSizes(const std::string &text, const std::string &flag);

cost::PlacedMesh toPlacedMesh(const runtime::Mesh &mesh);

/// Throws ToolError (Usage), the message after `prefix`, if there is a mistake.
template <typename T> T orThrow(std::variant<T, cost::CostMistake> result, const std::string &prefix = "") {
  if (auto *mistake = std::get_if<cost::CostMistake>(&result))
    throw ToolError(ExitCode::Usage, prefix + mistake->message);
  return std::get<T>(std::move(result));
}

/// Algorithms by name or in files, with the codecs and the schedule flags of `compile`.
struct CostedPrograms {
  std::vector<std::string> what; // shipped algorithms, FILE.cpp, or foreign files, which have no choreography
  std::string program, type = "f32";
  std::vector<std::string> codecs;
  bool noOptimization = false;
  int64_t lanes = 0; // 0: as many as it takes
  ScheduleOptions scheduleOptions;

  void addTo(CLI::App &command);
  /// A request for each choreography, on one mesh, in the order of the command line. Throws ToolError.
  std::vector<CompileRequest> makeRequests(const runtime::Mesh &mesh) const;
  int64_t elementBytes() const { return type == "f32" ? 4 : 2; }
};

} // namespace kolo::tools
