// A machine file from a topology of NCCL, RCCL or hwloc, for `kolo machine --import` and `kolo probe`.
#pragma once

#include <cstdio>
#include <string>

namespace kolo::tools {

/// Writes the machine file, to standard output if `output` is empty or "-". Says in `report` what was taken, assumed
/// and not known. Without it, that goes to the standard stream that the machine does not go to. Throws ToolError.
void importMachineFile(const std::string &path, const std::string &output, std::FILE *report = nullptr);

} // namespace kolo::tools
