// Measures this machine, and writes it as a machine file: cores that share one memory.
#pragma once

#include "tools/compile/TuningTable.h"

#include <utility>

namespace kolo::tools {

struct ProbeOptions {
  double seconds = 3; // in measured calls, all sizes of all programs together; at least a few calls of each
  int mostCores = 64; // the first ones that this process may use
};

/// Bytes per second, by growing working sets: the bytes of one rank's input and output. The same for all rates.
struct ProbedRate {
  int64_t workingSetBytes;
  double bytesPerSecond;
};
using ProbedRates = std::vector<ProbedRate>;

/// Pairs of cores whose signals take about as long: at most one and a half times as long as the fastest.
struct CoreDistance {
  std::vector<std::pair<int, int>> pairs; // numbers of measured cores; the first pair is the fastest
  double latency = 0;                     // seconds from a signal to the end of the wait for it: median of the pairs
  ProbedRates rates;                      // one core of the first pair reads the other's buffer into its own
};

/// What calls of shipped programs reach, with ranks as processes and memory in windows. Every call's time is a median,
/// and the fastest of several rounds counts: what else runs on a machine only slows it down.
struct HostFigures {
  int cores = 0, usableCores = 0;      // measured, and those that this process may use
  std::vector<CoreDistance> distances; // by growing latency
  double launch = 0;                   // seconds of the smallest broadcast, but for its three latencies
  ProbedRates lane;                    // of the core that copies fastest
  ProbedRates reduction;               // every one of two ranks reads two buffers and writes their sum, bytes read
  ProbedRates memory, writes; // bytes read and written, and bytes written, by all ranks; not beyond 2 GiB of all
  int numSeries = 0, numUnsteady = 0; // programs at sizes, and those of which a round took twice as long as another
  /// Whether other programs took the cores, by the series, and by a launch that is no matter of the ranks' own.
  bool wereDisturbed() const { return 4 * numUnsteady > numSeries || launch > 100 * distances.front().latency; }
};

/// Takes about three times `seconds` on two cores. Throws ToolError: Usage on a machine of one core, Failed as runRanks
/// does.
HostFigures probeHost(const ProbeOptions &options);

/// The text of a machine file: machines/README.md.
std::string hostMachineFile(const HostFigures &figures, const Provenance &provenance);

} // namespace kolo::tools
