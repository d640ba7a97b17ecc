#include "tools/ForeignVerdict.h"

#include "compiler/check/ShowVerdict.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace kolo::tools {

using Json = nlohmann::ordered_json;

static Json placeOf(const foreign::ForeignSchedule &schedule, int32_t line) {
  return {{"file", schedule.path}, {"line", line == 0 ? schedule.line : line}, {"column", 1}};
}

static Json toJson(const foreign::ForeignSchedule &schedule, const foreign::Finding &finding) {
  Json result = {{"property", foreign::shortName(finding.property)}, {"message", finding.message}};
  result.update(placeOf(schedule, finding.line));
  result["other"] = finding.otherLine == 0 ? Json() : placeOf(schedule, finding.otherLine);
  result["ranks"] = finding.ranks;
  result["chunk"] = finding.chunk;
  result["mesh"] = fmt::format("rank={}", schedule.numRanks);
  result["root"] = Json();
  result["inPlace"] = finding.isInPlace;
  result["steps"] = Json::array();
  for (const foreign::FindingStep &step : finding.steps)
    result["steps"].push_back({{"rank", step.rank},
                               {"call", step.call + 1},
                               {"text", step.text},
                               {"file", schedule.path},
                               {"line", step.line == 0 ? schedule.line : step.line}});
  return result;
}

Json toJson(const ForeignRefutation &refutation) {
  const foreign::ForeignSchedule &schedule = refutation.schedule;
  const std::vector<foreign::Finding> &findings = refutation.findings;
  std::string mesh = fmt::format("rank={}", schedule.numRanks);
  Json result = {{"program", schedule.name}, {"mesh", mesh}, {"checkedOn", mesh}, {"transport", schedule.interpreter}};
  for (int number = 0; number < numProperties; ++number) {
    std::string name = shortName(Property(number));
    auto found = std::ranges::find(findings, name, [](const auto &each) { return foreign::shortName(each.property); });
    PropertyState state = found == findings.end() ? PropertyState::NotDecided : PropertyState::Refuted;
    Json &entry = result["properties"][name];
    entry = {{"title", title(Property(number)).str()}, {"state", toString(state).str()}};
    if (found != findings.end() && found != findings.begin())
      entry["note"] = describe(schedule, *found);
  }
  result["refutation"] = toJson(schedule, findings.front());
  for (const char *name : {"slicesChecked", "tooLarge", "lossy", "blockTables", "order"})
    result[name] = Json();
  result["allSizes"] = Json::array();
  result["synchronisation"] = Json();
  return result;
}

} // namespace kolo::tools
