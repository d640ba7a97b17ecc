#include "tools/TuneJson.h"
#include "tools/CostOptions.h"
#include "tools/compile/Schedules.h"

#include "compiler/cost/bounds/Bounds.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace kolo::tools {

using Json = nlohmann::ordered_json;

namespace {

/// Of one size.
struct Model {
  double boundSeconds;
  std::vector<PredictedProgram> predictions; // of all candidates

  void addTo(Json &size, const std::string &program) const {
    double seconds = size["seconds"];
    size["boundSeconds"] = boundSeconds;
    size["fractionOfBound"] = boundSeconds / seconds;
    size["bottleneck"] = std::ranges::find(predictions, program, &PredictedProgram::program)->bottleneck;
  }
};

std::vector<Model> modelsOf(const MeasuredGroup &group, const TuneModel &model) {
  std::vector<std::string> programs;
  for (const Candidate &candidate : group.candidates)
    programs.push_back(candidate.program());
  cost::Placement placement = orThrow(cost::Placement::create(model.machine, toPlacedMesh(group.mesh)), "--machine: ");
  cost::LowerBounds bounds(model.machine, placement);
  std::vector<Model> result;
  for (const Cell &cell : group.cells) // in windows, predictions are of all candidates
    result.push_back(
        {bounds.of(KoloCollective(int(group.collective)), cell.bytes).seconds,
         model.predict({group.collective, group.mesh, runtime::MemoryKind::Windows, cell.bytes}, programs)});
  return result;
}

} // namespace

void addSchedules(const MeasuredGroup &group, const std::optional<TuneModel> &model, Json &schedules) {
  std::vector<Model> models = model ? modelsOf(group, *model) : std::vector<Model>();
  for (size_t number = 0; number < group.candidates.size(); ++number) {
    const Candidate &candidate = group.candidates[number];
    Json sizes = Json::array();
    for (size_t i = 0; i < group.cells.size(); ++i) {
      const Cell &cell = group.cells[i];
      if (!cell.measurements[number].isMeasuredOn())
        continue;
      Json size = {{"bytes", cell.bytes}, {"seconds", 1e-6 * cell.measurements[number].typicalUs()}};
      if (model)
        models[i].addTo(size, candidate.program());
      size["isChosen"] = cell.chosen == number;
      sizes.push_back(std::move(size));
    }
    if (!sizes.empty())
      schedules.push_back({{"name", candidate.algorithm},
                           {"schedule", toJson(candidate.schedule)},
                           {"mesh", group.mesh.toString()},
                           {"collective", runtime::toString(group.collective)},
                           {"memory", runtime::toString(group.memory)},
                           {"sizes", std::move(sizes)}});
  }
}

} // namespace kolo::tools
