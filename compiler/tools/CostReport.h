// How predictions are shown: as tables, and as JSON. Used by the commands that predict.
#pragma once

#include "CostOptions.h"
#include "compiler/cost/Bounds.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

struct CostedSize {
  cost::Prediction prediction;
  std::optional<cost::LowerBound> bound; // nothing: of a collective of some of the mesh's ranks
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
/// statements[] and links[].
nlohmann::ordered_json toJson(const CostReport &report);

/// On standard output: a table by size; of several schedules, first one that has them side by side. Then what each
/// statement costs, for the largest size or for all.
void print(const CostReport &report, bool everyBreakdown);

} // namespace kolo::tools
