// Where a wait comes from, for messages.
#pragma once

#include "kolo/runtime/Plugin.h"

#include <cstdint>
#include <string>

namespace kolo::runtime {

/// "program P, file:line text" of a statement of the program's manifest; "program P" when there is none of that number.
std::string describeStatement(const ProgramInfo &info, int64_t statement);

} // namespace kolo::runtime
