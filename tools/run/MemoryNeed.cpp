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

/// As floating point: what a call needs may be more than any integer.
static double elementsOf(const RankJob &job, const SizeJob &size) {
  auto needOf = [&](BufferSizes elements) {
    auto [input, output] = std::pair(double(elements.inputElements), double(elements.outputElements));
    return job.isInPlace ? std::max(input, output) : input + output;
  };
  if (!size.tabled)
    return needOf(blocksOf(job, {1}).sizes(0)) * double(size.count) * job.mesh.numRanks();
  const CallBlocks blocks = blocksOf(job, size);
  const int64_t groupSize = groupSizeOf(job);
  double ofGroup = 0;
  for (int64_t member = 0; member < groupSize; ++member)
    ofGroup += needOf(blocks.sizes(member));
  const int64_t numGroups = job.mesh.numRanks() / groupSize;
  return ofGroup * double(numGroups);
}

void checkMemoryNeed(const RankJob &job) {
  double elements = 0;
  for (const SizeJob &size : job.sizes)
    elements = std::max(elements, elementsOf(job, size));
  const double needed = elements * double(runtime::sizeBytes(job.type));
  double available = availableBytes();
  if (available > 0 && needed > available)
    throw ToolError(ExitCode::Failed, "the buffers of " + std::to_string(job.mesh.numRanks()) + " ranks need " +
                                          gibibytes(needed) + " of memory; " + gibibytes(available) +
                                          " are available; choose a smaller size");
}

} // namespace kolo::tools
