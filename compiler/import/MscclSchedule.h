// What a file of MSCCL does, as RCCL's interpreter runs it (its msccl_parser.cc and msccl_kernel_impl.h, ROCm 6.2).
#pragma once

#include "compiler/import/MscclFile.h"

namespace kolo::foreign {

/// Refuses collectives with a root, and chunk counts that do not fit the ranks. Refuses waits for blocks that do not
/// exist, waits that RCCL's reader refuses, and two blocks at one end of a connection.
std::variant<ForeignSchedule, Refusal> makeSchedule(const MscclFile &file, const std::string &path);

} // namespace kolo::foreign
