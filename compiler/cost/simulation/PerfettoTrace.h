// A timeline as a file that Perfetto opens (ui.perfetto.dev): Chrome's trace event format. Used by `kolo simulate`.
#pragma once

#include "compiler/cost/simulation/Simulator.h"

namespace kolo::cost {

/// How a timeline's statements are named.
struct StatementLabel {
  std::string place; // "algorithms/Blocks.cpp:11"
  std::string text;  // its source; may be empty
};

/// JSON: every rank is a process; its first thread is what its lanes do, which do the same, and further threads have
/// its puts, so many as there are at a time. Flows lead from what a signal announces to the wait for it. Events are in
/// the order of their times, in microseconds.
std::string perfettoTrace(const Timeline &timeline, std::span<const StatementLabel> statements,
                          std::span<const std::string> rankNames);

} // namespace kolo::cost
