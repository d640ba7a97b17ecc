// DeviceCells: cells that ranks of other hosts raise. A network writes them, so they lie in memory of the host.
#pragma once

#include "device/DeviceRanks.h"
#include "network/Transport.h"

#include <cstdint>
#include <vector>

namespace kolo::runtime {

/// A rank's cells of one program: [lane][semaphore][sender], by place in `senders`.
class DeviceCells {
public:
  /// `senders`: in ascending order. OutOfMemory, DeviceError.
  static Result<DeviceCells> make(const DeviceRanks &ranks, uint32_t numSemaphores, std::vector<int> senders);

  /// For the network, without a number.
  Registration registration() const;

  void *data() const { return memory.data(); }
  size_t sizeBytes() const { return memory.sizeBytes(); }
  const std::vector<int> &senders() const { return owners; }

  uint64_t agreement = 0; // of all ranks

private:
  DeviceMemory memory; // none without senders
  std::vector<int> owners;
  uint32_t numLanes = 0, numSemaphores = 0;
  size_t numRanks = 0;
};

} // namespace kolo::runtime
