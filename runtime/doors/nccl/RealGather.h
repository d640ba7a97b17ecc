// RealGather: an all-gather of a few bytes between all ranks of a new communicator, by the real library. Ranks of
// several hosts have nothing else to meet by.
#pragma once

#include "Types.h"

#include "kolo/runtime/Device.h"
#include "kolo/runtime/Status.h"

namespace kolo::nccl {

/// One rank's end.
class RealGather {
public:
  static constexpr size_t mostBytes = 512;

  /// `device`: that of the communicator's rank. OutOfMemory, DeviceError.
  static runtime::Result<RealGather> create(Comm comm, int rank, int size, int device);

  /// As runtime::AllGather, for at most mostBytes. Blocks until all ranks have come, and for timeoutMs at most. After a
  /// failure all later calls return it. This rank may then still wait inside of the real library: abort the
  /// communicator before this object ends.
  ///   Timeout      a rank does not come
  ///   SystemError  the real library fails
  ///   DeviceError
  runtime::Status gather(const void *own, size_t sizeBytes, void *all);

private:
  RealGather(Comm ofComm, int ownRank, int numRanks, runtime::DeviceBuffer memory, runtime::DeviceStream ownStream)
      : comm(ofComm), rank(ownRank), size(numRanks), buffer(std::move(memory)), stream(std::move(ownStream)) {}
  runtime::Status start(const void *own, size_t sizeBytes);
  runtime::Status await() const;

  Comm comm;
  int rank, size;
  runtime::DeviceBuffer buffer;
  runtime::DeviceStream stream;
  runtime::Status failure;
};

} // namespace kolo::nccl
