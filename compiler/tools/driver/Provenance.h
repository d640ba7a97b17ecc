// Provenance: where and how a measurement was made, for files that keep it.
#pragma once

#include <string>

namespace kolo::tools {

struct Provenance {
  std::string koloVersion, processor, kernel, date, command;
  int cores = 0;
};

/// This machine, today (UTC).
Provenance describeMachine(const std::string &koloVersion, const std::string &command);

} // namespace kolo::tools
