#include "tools/compile/Schedules.h"
#include "tools/compile/ToolError.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kolo::tools {

namespace {

// By the numbers of the enumerators; the first name is the default's.
constexpr const char *synchronisations[] = {"least", "handshake"};
constexpr const char *transfers[] = {"auto", "push", "pull"};
constexpr const char *entries[] = {"auto", "together", "credits"};
constexpr const char *protocols[] = {"bulk", "published", "ll", "ll128"};
constexpr const char *orders[] = {"any", "fixed"};

// Names of Kolo 0.1.0, which 0.2 will no longer take.
constexpr std::pair<const char *, const char *> earlierProtocols[] = {
    {"slots", "published"}, {"packets", "ll"}, {"lines", "ll128"}};

/// Calls `visit(name, names, value)` for every field that has names.
template <class AnySchedule, class Visit> void forEachChoice(AnySchedule &schedule, Visit visit) {
  visit("synchronisation", synchronisations, schedule.synchronisation);
  visit("transfers", transfers, schedule.transfers);
  visit("entry", entries, schedule.entry);
  visit("protocol", protocols, schedule.protocol);
  visit("order", orders, schedule.order);
}

[[noreturn]] void fail(const std::string &where, const std::string &problem) {
  throw ToolError(ExitCode::Usage, where + ": " + problem);
}

void setField(Schedule &schedule, const std::string &field, nlohmann::ordered_json value, const std::string &where) {
  if (field == "protocol" && value.is_string())
    value = currentProtocolName(value.get<std::string>());
  if (field == "pipeline") {
    if (!value.is_number_integer())
      fail(where, fmt::format("pipeline: {} is no number from 1 to {}", value.dump(), maxPipelineDepth));
    schedule.pipelineDepth = value.get<int64_t>();
    return;
  }
  bool isKnown = false;
  forEachChoice(schedule, [&](const char *name, const auto &names, auto &chosen) {
    if (field != name)
      return;
    isKnown = true;
    auto found = std::ranges::find_if(names, [&](const char *text) { return value == text; });
    if (found == std::end(names))
      fail(where, fmt::format("{}: {} is none of {}", field, value.dump(), fmt::join(names, ", ")));
    chosen = std::remove_reference_t<decltype(chosen)>(found - std::begin(names));
  });
  if (!isKnown)
    fail(where, "there is no '" + field + "' in a schedule");
}

} // namespace

std::string currentProtocolName(const std::string &name) {
  for (auto [earlier, current] : earlierProtocols)
    if (name == earlier)
      return current;
  return name;
}

Schedule parseSchedule(const nlohmann::ordered_json &fields, const std::string &where) {
  if (!fields.is_object())
    fail(where, "a schedule is an object");
  Schedule schedule;
  for (const auto &[field, value] : fields.items())
    setField(schedule, field, value, where);
  auto resolved = resolve(schedule, {});
  if (const auto *mistake = std::get_if<ScheduleMistake>(&resolved))
    fail(where, mistake->message);
  return schedule;
}

nlohmann::ordered_json toJson(const Schedule &schedule) {
  auto fields = nlohmann::ordered_json::object();
  if (schedule.pipelineDepth != 1)
    fields["pipeline"] = schedule.pipelineDepth;
  forEachChoice(schedule, [&](const char *name, const auto &names, auto chosen) {
    if (size_t(chosen) != 0)
      fields[name] = names[size_t(chosen)];
  });
  return fields;
}

std::string suffixFor(const Schedule &schedule) {
  std::string suffix = schedule.pipelineDepth == 1 ? "" : ".pipeline" + std::to_string(schedule.pipelineDepth);
  forEachChoice(schedule, [&](const char *, const auto &names, auto chosen) {
    if (size_t(chosen) != 0)
      suffix += std::string(".") + names[size_t(chosen)];
  });
  return suffix;
}

} // namespace kolo::tools
