// How predictions are shown: as tables, and as JSON. Used by the commands that predict.
#pragma once

#include "compiler/cost/LevelTraffic.h"
#include "compiler/cost/bounds/Bounds.h"
#include "tools/CostOptions.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kolo {
class ProgramOp;
} // namespace kolo

namespace kolo::tools {

struct CostedSize {
  cost::Prediction prediction;
  std::optional<cost::LowerBound> bound;       // nothing: of a collective of some of the mesh's ranks, or with codecs
  std::vector<cost::LevelTraffic> levels = {}; // of a simulation on several nodes
};

struct CostedSchedule {
  std::string name;
  Schedule schedule;
  std::string mesh;
  std::vector<CostedSize> sizes; // the same for all schedules of a report
};

struct CostReport {
  std::string machine, mesh, placement, collective, rates, model;
  std::vector<CostedSchedule> schedules;
};

/// Fields: machine, mesh, placement, collective, rates, model, schedules[] with name, schedule, mesh and sizes[]; these
/// with bytes, seconds, latencySeconds, boundSeconds and fractionOfBound (absent without a bound), bottleneck,
/// statements[], links[] and traffic; simulations on several nodes, levels[].
nlohmann::ordered_json toJson(const CostReport &report);

/// A report without schedules. Throws ToolError (Usage) where the requests are of several collectives.
CostReport startReport(const CostOptions &options, const cost::Machine &machine,
                       const std::vector<CompileRequest> &requests, const std::string &model);

/// The author's line without its indentation; empty where the file cannot be read.
std::string sourceLine(const std::string &file, unsigned line);

/// A request whose ranks have their places on the machine, and its schedule of a report, which is filled size by size.
struct PlacedRequest {
  /// Throws ToolError (Usage) where the mesh does not fit.
  PlacedRequest(CompileRequest request, const CostOptions &options, const cost::Machine &machine);

  /// The bounds are of exact calls: a program with codecs may move less.
  void keepBounds(bool areKept);
  void add(int64_t bytes, cost::Prediction prediction, std::vector<cost::LevelTraffic> levels = {});

  CompileRequest request; // on the mesh that the choreography has
  Runners runners;
  cost::Placement placement;
  CostedSchedule schedule;

private:
  std::optional<cost::LowerBounds> bounds; // as CostedSize::bound
};

/// Throws ToolError (Usage), naming --counts, unless the checker proves that calls of the program may have block tables
/// on these ranks.
void checkTakesTables(ProgramOp program, const cost::PlacedMesh &mesh);

/// Where a report goes: --breakdown and --html, beside --json.
struct ReportOutput {
  bool wantsBreakdown = false;
  std::string html;

  void addTo(CLI::App &command);
  /// Throws ToolError (Usage) where a file cannot be written: to be asked before anything is costed.
  void check(const CostOptions &options) const;
  /// To the files that are asked for. On standard output, JSON or tables. A table by size comes first; of several
  /// schedules, one has them side by side. Then comes what each statement costs, for the largest size or for all.
  /// `timelines`: of the page, see ReportExtras.
  void write(const CostReport &report, const CostOptions &options, const cost::Machine &machine,
             const nlohmann::ordered_json &timelines) const;
};

} // namespace kolo::tools
