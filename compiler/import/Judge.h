// What holds of a schedule as its interpreter runs it: the properties that thread blocks can break. Used by the tools,
// before a channel program is made of it.
#pragma once

#include "compiler/import/BlockRun.h"

#include <string>
#include <variant>
#include <vector>

namespace kolo::foreign {

struct Judgement {
  std::vector<Finding> findings; // of the worst property first; empty: it is right
  std::vector<Taken> order;      // of the actions of one call, if it is right
};

/// Of all calls that the schedule is for, in place and otherwise. Refuses what takes more memory than BlockRun allows.
std::variant<Judgement, Refusal> judge(const ForeignSchedule &schedule);

} // namespace kolo::foreign
