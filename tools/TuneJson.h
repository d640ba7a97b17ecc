// What `kolo tune` measured, as JSON. Used by both of its forms.
#pragma once

#include "tools/tune/Tune.h"

#include "compiler/cost/machine/Machine.h"

#include <nlohmann/json_fwd.hpp>

namespace kolo::tools {

/// Of one collective on one mesh, in one kind of memory.
struct MeasuredGroup {
  runtime::CollectiveKind collective;
  runtime::Mesh mesh;
  runtime::MemoryKind memory;
  const std::vector<Candidate> &candidates;
  const std::vector<Cell> &cells;
};

/// What a machine file adds: bounds and bottlenecks. The predictor is that of the group's candidates.
struct TuneModel {
  const cost::Machine &machine;
  const Predictor &predict;
};

/// Adds a schedule to an array for each candidate that was measured to the end at some size, with a CostReport's
/// fields. Without a model, sizes have no boundSeconds, fractionOfBound and bottleneck.
void addSchedules(const MeasuredGroup &group, const std::optional<TuneModel> &model, nlohmann::ordered_json &schedules);

} // namespace kolo::tools
