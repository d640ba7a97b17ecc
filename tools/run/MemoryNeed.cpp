#include "tools/run/MemoryNeed.h"
#include "tools/run/Data.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace kolo::tools {

/// What Linux says can be allocated without swapping; 0 when it does not say.
static double availableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  for (double kilobytes = 0; file >> key >> kilobytes; file.ignore(100, '\n'))
    if (key == "MemAvailable:")
      return kilobytes * 1024;
  return 0;
}

static std::string gibibytes(double bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f GiB", bytes / double(int64_t(1) << 30));
  return text;
}

void checkMemoryNeed(const RankJob &job, int64_t groupSize) {
  int64_t largest = 0;
  for (const SizeJob &size : job.sizes)
    largest = std::max(largest, size.count);
  BufferSizes unit = bufferSizes(job.info()->collective, 1, groupSize);
  // As floating point: the product may be larger than any integer.
  int64_t elements =
      job.isInPlace ? std::max(unit.inputElements, unit.outputElements) : unit.inputElements + unit.outputElements;
  double needed = double(largest) * double(elements) * double(runtime::sizeBytes(job.type)) * job.mesh.numRanks();
  double available = availableBytes();
  if (available > 0 && needed > available)
    throw ToolError(ExitCode::Failed, "the buffers of " + std::to_string(job.mesh.numRanks()) + " ranks need " +
                                          gibibytes(needed) + " of memory; " + gibibytes(available) +
                                          " are available; choose a smaller size");
}

} // namespace kolo::tools
