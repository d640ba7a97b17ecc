#include "RealGather.h"

#include "Carrier.h"
#include "Process.h"

#include <chrono>
#include <string>
#include <thread>

namespace kolo::nccl {

using runtime::DeviceBuffer;
using runtime::DeviceCommunicator;
using runtime::DeviceStream;
using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

namespace {

Status statusOf(Code code, const char *name) {
  if (code == Code::Success)
    return {};
  return {StatusCode::SystemError, std::string(name) + " of " + real().title() + " returns " +
                                       std::to_string(static_cast<int>(code)) + " where ranks of several hosts meet"};
}

} // namespace

Result<RealGather> RealGather::create(Comm comm, int rank, int size, int device) {
  Result<DeviceCommunicator> own = DeviceCommunicator::createLocal({&device, 1}, {.kind = real().kind});
  if (!own.isOk())
    return own.status();
  Result<DeviceBuffer> memory = own->allocate(0, mostBytes * static_cast<size_t>(size));
  if (!memory.isOk())
    return memory.status();
  Result<DeviceStream> made = own->createStream(0);
  if (!made.isOk())
    return made.status();
  return RealGather(comm, rank, size, std::move(memory).value(), std::move(made).value());
}

Status RealGather::gather(const void *own, size_t sizeBytes, void *all) {
  if (failure.isOk() && sizeBytes > mostBytes)
    failure = {StatusCode::InvalidArgument, "ranks of several hosts exchange at most 512 bytes"};
  if (failure.isOk())
    failure = start(own, sizeBytes);
  if (failure.isOk())
    failure = await();
  if (failure.isOk())
    failure = buffer.read(0, all, sizeBytes * static_cast<size_t>(size));
  return failure;
}

/// In place: this rank's bytes are where the result has them.
Status RealGather::start(const void *own, size_t sizeBytes) {
  const size_t offset = static_cast<size_t>(rank) * sizeBytes;
  if (Status status = buffer.write(offset, own, sizeBytes); !status.isOk())
    return status;
  const void *input = static_cast<const std::byte *>(buffer.data()) + offset;
  const Code code = forward(real().functions.AllGather, "ncclAllGather", input, buffer.data(), sizeBytes, typeUint8,
                            comm, stream.handle());
  return code == Code::Success ? stream.mark(0) : statusOf(code, "ncclAllGather");
}

Status RealGather::await() const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeoutMs());
  while (std::chrono::steady_clock::now() < until) {
    Result<bool> isDone = stream.hasReached(0);
    if (!isDone.isOk() || *isDone)
      return isDone.status();
    Code code = Code::Success;
    Code asked = forward(real().functions.CommGetAsyncError, "ncclCommGetAsyncError", comm, &code);
    if (Status status = statusOf(asked == Code::Success ? code : asked, "ncclCommGetAsyncError"); !status.isOk())
      return status;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return {StatusCode::Timeout, "waited " + std::to_string(timeoutMs()) +
                                   " ms for ranks on other hosts: all ranks need this library, and the communicator "
                                   "must be blocking on all of them or on none"};
}

} // namespace kolo::nccl
