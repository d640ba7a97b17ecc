// One page that shows what `kolo cost`, `kolo simulate` and `kolo explore` found: self-contained, for any browser,
// without a network. The page's own files, and D3, lie beside the program.
#pragma once

#include "compiler/cost/machine/Machine.h"
#include "compiler/cost/simulation/Simulator.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace kolo::tools {

/// What a page shows beside the JSON of its command.
struct ReportExtras {
  std::string command;                 // that made the page; empty: not shown
  nlohmann::ordered_json machine = {}; // nodeGraph(); null: links are listed, and not drawn
  nlohmann::ordered_json timelines = nlohmann::ordered_json::array(); // timelineOf(), at most one for each schedule
};

/// What the first ranks of a simulation did: as many as a page draws well, 64 at most.
///   {"schedule", "bytes", "ranks": of the program, "shown": of these, "statements",
///    "spans": [[rank, statement, kind, begin, end]]}, kind 0: moves data, 1: its put is under way, 2: waits
/// `statements`: by their numbers, [{"file", "line", "text"}]; `schedule`: number in "schedules" of the command's JSON.
nlohmann::ordered_json timelineOf(const cost::Timeline &timeline, nlohmann::ordered_json statements, size_t schedule,
                                  int64_t bytes, int64_t numRanks);
/// In the place of a timeline that there is not: why.
nlohmann::ordered_json noTimeline(const std::string &reason, size_t schedule);

/// {"name", "title", "vertices": [{"name", "kind": "device" | "switch" | "nic", "wire": class of a NIC's wire}],
///  "links": [{"from", "to": numbers of vertices, "class": name, "count"}]}
nlohmann::ordered_json nodeGraph(const cost::Machine &machine);

/// The command line of this program, as a shell takes it.
std::string commandLine();

/// The text of an author's file; of an algorithm that ships, also where Kolo is installed. Nothing if it cannot be
/// read.
std::optional<std::string> readSource(const std::string &file);

/// Throws ToolError (Usage), naming `--html`, where htmlReport would, or where `path` is standard output: to be asked
/// before anything is costed.
void checkReport(const std::string &path);

/// The page. `costJson` is what `--json` prints. Throws ToolError (Usage), naming `--html`, where the page's files or
/// D3 are not installed, and where there is nothing to show.
std::string htmlReport(const nlohmann::ordered_json &costJson, const ReportExtras &extras);

} // namespace kolo::tools
