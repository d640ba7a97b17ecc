// A machine file from a topology that NCCL, RCCL or hwloc has written. Used by `kolo machine --import`. No MLIR.
#pragma once

#include "compiler/import/ForeignText.h"

#include <string>
#include <variant>
#include <vector>

namespace kolo::foreign {

struct ImportedMachine {
  std::string json; // a machine file of one node
  // What is said of it, one line each.
  std::vector<std::string> taken, assumed, unknown;
};

/// <system> is NCCL's and RCCL's (NCCL_TOPO_DUMP_FILE), <topology> is hwloc's. Refuses other files, links to devices
/// that are not there, devices whose link rates are not known, and nodes without devices.
std::variant<ImportedMachine, Refusal> importMachine(const ForeignText &source, const std::string &name);

} // namespace kolo::foreign
