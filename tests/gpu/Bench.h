// Times on one device: buffers for up to 8 ranks, and how long what is put on a stream takes. For Figures.cpp.
#pragma once

#include "Driver.h"
#include "Support.h"

#include <array>
#include <chrono>
#include <functional>

namespace kolo::test {

/// Microseconds of some repetitions: the median, and between which two a half of them lies.
struct Spread {
  double median, low, high;
  int repetitions;
};

/// Thrown when the time for all of a part is over.
struct OutOfTime {};

class Bench {
public:
  /// Buffers of `largestBytes`, with random content.
  Bench(size_t largestBytes, double seconds);

  /// What queues the work that is measured; throws if that fails.
  using Body = std::function<void()>;
  /// The time on the device. The stream does not run dry meanwhile: a long copy goes ahead.
  Spread onDevice(const Body &body);
  /// The same for one of several that follow each other.
  Spread queued(const Body &body);
  /// The same for one of several in a graph.
  Spread inGraph(const Body &body);
  /// From idle until the host knows the end.
  Spread onHost(const Body &body);

  /// Runs a call on tagged data in the buffers. "" when every output is right.
  std::string verify(const DeviceCall &call, const Body &body);
  void copy(void *dst, const void *src, size_t numBytes);
  /// Blocks until the stream is empty.
  void finish();

  static constexpr int maxRanks = 8;
  runtime::DeviceCommunicator home; // one rank
  runtime::DeviceStream stream;
  std::vector<runtime::DeviceBuffer> inputs, outputs; // by rank

private:
  CurrentDevice current;

  double once(const Body &body);
  Spread repeat(const std::function<double()> &measure) const;
  void randomize(runtime::DeviceBuffer &buffer);

  std::chrono::steady_clock::time_point deadline;
  std::optional<runtime::DeviceBuffer> ahead, aheadOf; // what the copy that goes ahead moves
};

} // namespace kolo::test
