// Runs a plugin's program on devices, and measures it by their events.
#ifndef KOLO_TOOLS_DEVICERUNNER_H
#define KOLO_TOOLS_DEVICERUNNER_H

#include "driver/RankRunner.h"

namespace kolo::tools {

/// runRanks, for a job with a device.
std::vector<Timings> runOnDevices(const RankJob &job, const std::function<void(size_t done)> &atEnd);

} // namespace kolo::tools

#endif
