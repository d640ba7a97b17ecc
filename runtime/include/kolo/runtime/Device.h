// Devices: collectives in the memory of GPUs, started on streams.
//
// Environment variables, read when a device is first asked for:
//   KOLO_CUDA_DRIVER, KOLO_HIP_DRIVER   path of the vendor's driver library, instead of libcuda.so.1 and libamdhip64.so
// and when a communicator is made:
//   KOLO_TIMEOUT_MS                     milliseconds, replaces DeviceOptions::timeoutMs
#pragma once

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Export.h"
#include "kolo/runtime/Plugin.h"
#include "kolo/runtime/Status.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

enum class DeviceKind : uint8_t { Cuda, Hip };

/// Devices of this kind on this machine. DeviceError: their driver cannot be used; the message says why.
KOLO_RUNTIME_API Result<int> countDevices(DeviceKind kind);

struct DeviceInfo {
  std::string name;
  std::string architecture; // as it is compiled for: "sm_90", "gfx90a"
  size_t memoryBytes = 0;
};
/// InvalidArgument: there is none of this number. DeviceError.
KOLO_RUNTIME_API Result<DeviceInfo> describeDevice(DeviceKind kind, int device);

struct DeviceOptions {
  DeviceKind kind = DeviceKind::Cuda;
  int lanes = 8;         // blocks per rank; the same on every rank
  int threads = 512;     // of a block: a multiple of 64, at most KOLO_DEVICE_MAX_THREADS
  int timeoutMs = 30000; // least time that a kernel waits for a peer; it gives up after at most some times that
};

/// The buffers of one rank, as in CallArguments.
struct RankBuffers {
  const void *input = nullptr;
  void *output = nullptr;
};

/// A stream of the driver API: a CUstream (or cudaStream_t) or a hipStream_t.
using StreamHandle = void *;

struct DeviceBufferState;
class DeviceState;

/// Memory of a device that peers read and write. Made by DeviceCommunicator::allocate, which it may outlive. Destroy it
/// when no call that uses it is in progress on any rank, a captured one included.
class KOLO_RUNTIME_API DeviceBuffer {
public:
  DeviceBuffer(DeviceBuffer &&) noexcept;
  DeviceBuffer &operator=(DeviceBuffer &&) noexcept;
  ~DeviceBuffer();

  void *data() const;
  size_t sizeBytes() const;
  /// From and to the host's memory; returns when it is done. Waits for no stream. InvalidArgument: beyond the end.
  Status write(size_t offsetBytes, const void *src, size_t numBytes);
  Status read(size_t offsetBytes, void *dst, size_t numBytes) const;

private:
  friend class DeviceCommunicator;
  explicit DeviceBuffer(std::unique_ptr<DeviceBufferState> state);
  std::unique_ptr<DeviceBufferState> state;
};

/// How DeviceCommunicator::allocate makes memory.
enum class DeviceMemoryKind : uint8_t {
  Plain,   // as the vendor's usual allocation does; on AMD devices fine-grained
  Virtual, // by the virtual memory interface
};

/// A stream that waits for no other, for callers without one of their own; destroyed with this.
class KOLO_RUNTIME_API DeviceStream {
public:
  DeviceStream(DeviceStream &&) noexcept;
  DeviceStream &operator=(DeviceStream &&) noexcept;
  ~DeviceStream();
  StreamHandle handle() const;

  /// Notes the time at which the stream comes here, as mark `number` (0 or 1). DeviceError.
  Status mark(int number);
  /// Between marks 0 and 1, once the stream has passed them; blocks until then. DeviceError.
  Result<double> elapsedMicroseconds();

private:
  friend class DeviceCommunicator;
  struct State;
  explicit DeviceStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// Ranks that run collectives on devices: all ranks of a world, in this process and called together, or one rank of the
/// world of a Communicator. Movable, not copyable, used by one thread at a time.
///
/// After Timeout or PeerLost on any rank the communicator is of no more use: later calls return Aborted with that
/// cause. After every other error it stays usable.
class KOLO_RUNTIME_API DeviceCommunicator {
public:
  /// All ranks in this process: rank i on devices[i]; several may share a device. InvalidArgument: numbers out of
  /// range. DeviceError: no such device, or devices that cannot reach each other. OutOfMemory.
  static Result<DeviceCommunicator> createLocal(std::span<const int> devices, const DeviceOptions &options = {});

  /// One rank, the one that `host` is, on this device. `host` may be of threads or of processes, which may share
  /// devices too; fork before anything here is called. Collective, blocking. Errors as above, and Mismatch (ranks
  /// disagree on options), Timeout, PeerLost, Aborted.
  static Result<DeviceCommunicator> create(Communicator host, int device, const DeviceOptions &options = {});

  DeviceCommunicator(DeviceCommunicator &&) noexcept;
  DeviceCommunicator &operator=(DeviceCommunicator &&) noexcept;
  /// Waits for what was started. With peers in other processes also for these to come here, so that nobody loses
  /// memory.
  ~DeviceCommunicator();

  int size() const;
  /// The ranks of this process: all, or one.
  const std::vector<int> &ranks() const;

  /// Memory of the device of `rank`, one of ranks(). InvalidArgument: another rank, or 0 bytes. OutOfMemory,
  /// DeviceError.
  Result<DeviceBuffer> allocate(int rank, size_t sizeBytes, DeviceMemoryKind kind = DeviceMemoryKind::Plain);
  /// InvalidArgument: another rank. DeviceError.
  Result<DeviceStream> createStream(int rank);

  /// Starts one collective: for every one of ranks(), in that order, its buffers, and the stream on which it is to run;
  /// what `arguments` says of buffers is ignored. Ranks that share a device and a stream run in one launch. All blocks
  /// of all ranks on a device must be resident at once: more is refused.
  ///
  /// Returns when the launch is queued. A call with arguments and buffers that were seen before allocates nothing and
  /// waits for no device; one with others may do both. Where ranks are in several threads or processes, these meet in
  /// every call, on the host. May be captured into a graph; then its launches must not overlap with each other or with
  /// other calls of this communicator, which are ordered among themselves, also across streams.
  ///
  /// InvalidArgument: buffers that are null, too small, or no memory of the rank's device; more lanes than fit.
  /// UnsupportedMesh, BadPlugin as Communicator::run; BadPlugin: no image for the device, or no code in it for the type
  /// and reduction. Mismatch: ranks disagree. OutOfMemory, DeviceError. Timeout, PeerLost, Aborted: also for earlier
  /// calls.
  Status run(const Plugin &plugin, const CallArguments &arguments, std::span<const RankBuffers> buffers,
             std::span<const StreamHandle> streams);
  /// The same for a communicator of one rank here, with the buffers in `arguments`.
  Status run(const Plugin &plugin, const CallArguments &arguments, StreamHandle stream);

  /// Whether a wait on a device has failed so far. Never blocks. Timeout, PeerLost, Aborted.
  Status query();
  /// Waits for all calls that were started outside of graphs. Meanwhile a rank that dies ends them. Errors as for
  /// query, and DeviceError.
  Status synchronize();

private:
  explicit DeviceCommunicator(std::unique_ptr<DeviceState> state);
  std::unique_ptr<DeviceState> state;
};

} // namespace kolo::runtime
