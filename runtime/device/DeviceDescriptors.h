// DeviceDescriptors: hands descriptors of device memory from process to process. Used where ranks map memory of peers
// that is shared by descriptors. It needs no right to trace other processes, as taking a descriptor from one does.
#pragma once

#include "kolo/runtime/Status.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kolo::runtime {

/// The name of an end, for peers; all zeros: there is none.
using DescriptorName = std::array<char, 16>;

/// One rank's end: a socket without a file, at which peers leave descriptors without waiting for this rank. Only
/// messages of the process that is expected count.
class DeviceDescriptors {
public:
  DeviceDescriptors() = default;
  DeviceDescriptors(DeviceDescriptors &&other) noexcept;
  DeviceDescriptors &operator=(DeviceDescriptors &&other) noexcept;
  ~DeviceDescriptors();

  /// SystemError.
  static Result<DeviceDescriptors> create();
  const DescriptorName &name() const { return own; }

  /// Leaves a descriptor at a peer's end, under the number of the memory and of this rank. Never blocks; the caller
  /// keeps `fd`. SystemError.
  static Status leave(const DescriptorName &peer, int rank, uint64_t id, int fd);
  /// Takes the descriptor that `rank`, in process `pid`, left for this memory before; the caller owns it. Drops what
  /// else the rank left. Never blocks. SystemError: there is none.
  Result<int> take(int rank, int pid, uint64_t id);

private:
  void accept();

  int listener = -1;
  DescriptorName own = {};
  struct KeptDescriptor {
    int rank, pid, fd;
    uint64_t id;
  };
  std::vector<KeptDescriptor> kept; // that have arrived, and nobody has taken yet
};

} // namespace kolo::runtime
