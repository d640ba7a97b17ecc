// Runs a plugin's program on devices, and measures it by their events.
#pragma once

#include "tools/run/RankRunner.h"

namespace kolo::tools {

/// runRanks, for a job with a device.
std::vector<Timings> runOnDevices(const RankJob &job, const std::function<void(size_t done)> &atEnd);

/// One rank of a launcher. `others` starts and measures them together; devices have a communicator of their own.
std::vector<Timings> runLaunchedOnDevice(const RankJob &job, runtime::Communicator &others);

} // namespace kolo::tools
