// Schedules as text: the names of the command line, in tables, and in the names of programs.
#pragma once

#include "compiler/Schedule.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace kolo::tools {

/// {"protocol": "published"}: the default but for these fields, which are called like the flags. Throws ToolError
/// (Usage), whose message begins with `where`, on an unknown field or value, and where fields exclude each other.
Schedule parseSchedule(const nlohmann::ordered_json &fields, const std::string &where);

/// The protocol's name today, for one that Kolo 0.1.0 knew by another; any other text as it is.
std::string currentProtocolName(const std::string &name);

/// The fields that differ from the default; an empty object for the default.
nlohmann::ordered_json toJson(const Schedule &schedule);

/// ".published": what is appended to an algorithm's name where a plugin has it with this schedule; empty for the
/// default.
std::string suffixFor(const Schedule &schedule);

} // namespace kolo::tools
