// Whether connections that hold few messages can deadlock. Used by Judge.
#pragma once

#include "compiler/import/Schedule.h"

#include <optional>

namespace kolo::foreign {

/// Where threads wait for ever.
struct Stuck {
  int32_t rank = 0, line = 0;
  std::string message;
};

/// Runs the messages of one call, which the interpreter makes of steps by `chunksPerMessage`. A send waits while
/// its connection holds `slots` messages. Whatever the timing, all threads come equally far. Semaphores and packets do
/// not limit anyone here.
std::optional<Stuck> findStuck(const ForeignSchedule &schedule, int32_t slots);

} // namespace kolo::foreign
