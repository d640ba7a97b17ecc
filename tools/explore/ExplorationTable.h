// ExplorationTable: what a table says that selects among the schedules which an exploration ranked, by mesh and size.
#pragma once

#include "tools/compile/TuningTable.h"
#include "tools/explore/Explore.h"

#include <vector>

namespace kolo::tools {

/// Those that are ranked at some size, each once, in order of number.
std::vector<size_t> rankedIn(const Exploration &found);

/// What a table says of some calls, and who does them.
struct Selected {
  TableEntry entry;
  size_t candidate; // by number
};

/// Entries for every mesh that one of the ranked has, in the order of tables. On a machine that says what a lane moves,
/// they also say how many lanes calls on devices have. Throws ToolError.
std::vector<Selected> tableOf(const ExploreRequest &request, const Exploration &found);

/// The programs that a table names, in one plugin, which selects among them as the table says.
CompileRequest requestFor(const ExploreRequest &explored, const Exploration &found, const std::vector<Selected> &table);

} // namespace kolo::tools
