// SelfTest: what two ranks write to each other when they meet, and the check of it. A provider may fail at the first
// use of something that it says it can do.
#pragma once

#include "kolo/runtime/Status.h"
#include "wait/Cell.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>

namespace kolo::runtime::fabric {

/// One rank's side of the test with one peer.
class SelfTest {
public:
  /// The puts: each in several parts, and with a signal behind it.
  static constexpr std::array<uint64_t, 6> sizes = {1, 8, 64, 1000, 4096, 16384};
  static constexpr uint64_t allBytes = std::accumulate(sizes.begin(), sizes.end(), uint64_t(0));
  /// What the peer writes: the bytes of the puts one after the other, and the count of the signals.
  struct Landing {
    Cell cell = {};
    std::array<std::byte, allBytes> bytes = {};
  };

  SelfTest(int ownRank, int peerRank);

  Landing &memory() { return landing; }

  using Put = std::function<void(uint64_t offsetBytes, std::span<const std::byte> data)>;
  using Signal = std::function<void(uint64_t count)>;
  /// Names the puts and signals in their order. The data lives as long as this object.
  void write(const Put &put, const Signal &signal) const;

  /// Looks at what has come since the last look. SystemError: a signal came before its data.
  Status look();
  bool hasHeardAll() const { return numHeard == sizes.size(); }

private:
  const int peer;
  std::array<std::byte, allBytes> source;
  Landing landing;
  uint64_t numHeard = 0; // signals
};

} // namespace kolo::runtime::fabric
