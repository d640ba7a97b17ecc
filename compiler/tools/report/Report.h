// One page that shows what `kolo cost`, `kolo simulate` and `kolo explore` found: self-contained, for any browser,
// without a network. The page's own files, and D3, lie beside the program.
#pragma once

#include "compiler/cost/Machine.h"

#include <nlohmann/json.hpp>

#include <string>

namespace kolo::tools {

/// What a page shows beside the JSON of its command.
struct ReportExtras {
  std::string command;                 // that made the page; empty: not shown
  nlohmann::ordered_json machine = {}; // nodeGraph(); null: links are listed, and not drawn
  /// What ranks did, of one simulation; null: no timeline. Seconds since the ranks called; a subset of the ranks will
  /// do.
  ///   {"schedule": label, "bytes": n, "ranks": of the program,
  ///    "spans": [{"rank": r, "start": s, "end": s, "file": "", "line": n, "text": source line, "name": where no line
  ///    is}]}
  nlohmann::ordered_json timeline = {};
};

/// {"name", "title", "vertices": [{"name", "kind": "device" | "switch" | "nic", "wire": class of a NIC's wire}],
///  "links": [{"from", "to": numbers of vertices, "class": name, "count"}]}
nlohmann::ordered_json nodeGraph(const cost::Machine &machine);

/// The page. `costJson` is what `--json` prints. Throws ToolError (Usage), naming `--html`, where the page's files or
/// D3 are not installed, and where there is nothing to show.
std::string htmlReport(const nlohmann::ordered_json &costJson, const ReportExtras &extras);

} // namespace kolo::tools
