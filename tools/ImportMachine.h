// kolo machine --import: a machine file from a topology of NCCL, RCCL or hwloc.
#pragma once

#include <string>

namespace kolo::tools {

/// Writes the machine file, to standard output if `output` is empty or "-", and says what was taken, assumed and not
/// known. Throws ToolError.
void importMachineFile(const std::string &path, const std::string &output);

} // namespace kolo::tools
