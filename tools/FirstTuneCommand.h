// `kolo tune` without an output: tunes for the doors of this user on this machine.
#pragma once

#include "tools/tune/FirstTune.h"

#include <string>
#include <vector>

namespace kolo::tools {

/// "rank=2" and so on: 2, 4 and 8 ranks, and one per core.
std::vector<std::string> defaultMeshes();

/// Measures with a progress bar on standard error, keeps table and plugin in the user's cache directory, and says so,
/// or prints what was measured as JSON. Each of the two files is replaced as a whole. Throws ToolError: Usage, before
/// anything is measured, when the directory cannot be written; otherwise as tuneFirst and compile do.
void tuneForDoors(const FirstTuneOptions &options, const std::string &command, bool asJson);

} // namespace kolo::tools
