// What an execution plan of MSCCL++ does, as its executor runs it (execution_plan.cc and execution_kernel.hpp, 0.9).
#pragma once

#include "compiler/import/ForeignText.h"

#include <string>
#include <variant>

namespace kolo::foreign {

/// Refuses what is no plan, operations on switch channels, and what the executor leaves to chance: two blocks that wait
/// for one semaphore.
std::variant<ForeignSchedule, Refusal> readPlan(const ForeignText &source, const std::string &path);

} // namespace kolo::foreign
