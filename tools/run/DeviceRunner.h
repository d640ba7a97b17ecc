// Runs a plugin's program on devices, and measures it by their events.
#pragma once

#include "tools/run/RankRunner.h"

namespace kolo::tools {

/// runRanks, for a job with a device.
std::vector<Timings> runOnDevices(const RankJob &job, const std::function<void(size_t done)> &atEnd);

} // namespace kolo::tools
