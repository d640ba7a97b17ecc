// Reads a file of any format that Kolo imports. Used by the tools.
#pragma once

#include "compiler/import/Schedule.h"

#include <string>
#include <variant>

namespace kolo::foreign {

/// By the end of the name: .xml is MSCCL's XML, .json an execution plan of MSCCL++.
std::variant<ForeignSchedule, Refusal> readSchedule(const std::string &path);

} // namespace kolo::foreign
