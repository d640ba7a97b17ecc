// Measures this machine, and writes it as a machine file: cores that share one memory.
#pragma once

#include "driver/TuningTable.h"

namespace kolo::tools {

struct ProbeOptions {
  double seconds = 3; // in measured calls, all sizes of all programs together; at least a few calls of each
};

/// Bytes per second, medians of calls of shipped programs with ranks as processes and memory in windows.
struct ProbedRates {
  int64_t bytes = 0;    // of the larger buffer of one rank: the working set, in place
  double lane = 0;      // one rank reads a peer's buffer into its own
  double reduction = 0; // one rank reduces a peer's buffer into its own
  double memory = 0;    // read plus written, by all ranks that put to each other, or by one alone if that is more
};

struct HostFigures {
  int cores = 0;
  double latency = 0; // seconds from a signal to the end of the wait for it: half a round trip, median
  double leastLatency = 0, mostLatency = 0; // between the first core and each of the others; the median is `latency`
  double launch = 0;                        // seconds of the smallest broadcast, but for two latencies
  std::vector<ProbedRates> rates;           // by growing bytes
  int numSeries = 0;                        // programs at sizes
  int numUnsteady = 0; // of which the median call took more than twice as long as the fastest tenth
  /// Whether other programs took the cores, by the series, and by a launch that is no matter of the ranks' own.
  bool wereDisturbed() const { return 4 * numUnsteady > numSeries || launch > 100 * latency; }
};

/// Takes a few seconds. Throws ToolError: Usage on a machine of one core, Failed as runRanks does.
HostFigures probeHost(const ProbeOptions &options);

/// The text of a machine file: machines/README.md.
std::string hostMachineFile(const HostFigures &figures, const Provenance &provenance);

} // namespace kolo::tools
