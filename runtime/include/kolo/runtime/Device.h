// Devices: collectives on buffers in the memory of GPUs, started on streams.
//
// Environment variables:
//   KOLO_CUDA_DRIVER   path of the driver library instead of libcuda.so.1; read when a device is first used
//   KOLO_HIP_DRIVER    path of the driver library instead of libamdhip64.so; read when a device is first used
//   KOLO_NVML          path of NVIDIA's management library instead of libnvidia-ml.so.1; read likewise
//   KOLO_TIMEOUT_MS    milliseconds; replaces DeviceOptions::timeoutMs; read when a communicator is made
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

/// The number of devices of this kind on this machine. DeviceError: the driver cannot be used; the message says why.
KOLO_RUNTIME_API Result<int> countDevices(DeviceKind kind);

struct DeviceInfo {
  std::string name;
  std::string architecture; // by the compiler's name for it: "sm_90", "gfx90a"
  size_t memoryBytes = 0;
};
/// InvalidArgument: no device has this number. DeviceError.
KOLO_RUNTIME_API Result<DeviceInfo> describeDevice(DeviceKind kind, int device);

/// Blocks per rank: see DeviceOptions::lanes.
inline constexpr int defaultLanes = 8, mostTableLanes = 24;

struct DeviceOptions {
  DeviceKind kind = DeviceKind::Cuda;
  // Blocks per rank, of every call; the same on every rank. 0: of a call whose plugin selects the program as many as
  // the entry of the selection says, but at most mostTableLanes; of other calls defaultLanes.
  int lanes = 0;
  int threads = 512;     // of a block: a multiple of 64, at most KOLO_DEVICE_MAX_THREADS
  int timeoutMs = 30000; // a kernel waits so long for a peer, by the clock of its device
  // Of every rank, at first: half of it stages buffers that lie in no window. The runtime adds more when a call needs
  // it. At least 64 KiB; the same on every rank. Not used in advance where all ranks are in this process.
  size_t internalBytes = size_t(16) << 20;
};

/// The buffers of one rank, and the block tables of a call that has some, as in CallArguments.
struct RankBuffers {
  const void *input = nullptr;
  void *output = nullptr;
  const BlockTables *blocks = nullptr;
};

/// A stream of the vendor's API: a CUstream, a cudaStream_t or a hipStream_t. Null is the default stream.
using StreamHandle = void *;

struct DeviceBufferState;
class DeviceState;

/// Owns memory of a device that peers read and write. DeviceCommunicator::allocate makes it; it may outlive that
/// communicator. Destroy it when no rank runs a call that uses it; this includes launches of captured graphs.
class KOLO_RUNTIME_API DeviceBuffer {
public:
  DeviceBuffer(DeviceBuffer &&) noexcept;
  DeviceBuffer &operator=(DeviceBuffer &&) noexcept;
  ~DeviceBuffer();

  void *data() const;
  size_t sizeBytes() const;
  /// Copy from and to memory of the host. Block until the copy is done, but wait for no stream. InvalidArgument: the
  /// range leaves the buffer. DeviceError.
  Status write(size_t offsetBytes, const void *src, size_t numBytes);
  Status read(size_t offsetBytes, void *dst, size_t numBytes) const;

private:
  friend class DeviceCommunicator;
  explicit DeviceBuffer(std::unique_ptr<DeviceBufferState> state);
  std::unique_ptr<DeviceBufferState> state;
};

/// How DeviceCommunicator::allocate makes memory.
enum class DeviceMemoryKind : uint8_t {
  Plain,   // by the vendor's usual allocation; on AMD devices fine-grained
  Virtual, // by CUDA's virtual memory interface
};

/// Owns a stream that waits for no other stream. For callers without a stream of their own.
class KOLO_RUNTIME_API DeviceStream {
public:
  DeviceStream(DeviceStream &&) noexcept;
  DeviceStream &operator=(DeviceStream &&) noexcept;
  ~DeviceStream();
  StreamHandle handle() const;

  /// Queues mark `number`, which is 0 or 1: the stream notes the time when it reaches the mark. DeviceError.
  /// InvalidArgument: another number.
  Status mark(int number);
  /// Whether the stream has reached a mark that was queued. Never blocks. DeviceError. InvalidArgument: as for `mark`.
  Result<bool> hasReached(int number) const;
  /// The time between marks 0 and 1. Blocks until the stream has reached both. DeviceError.
  Result<double> elapsedMicroseconds();

private:
  friend class DeviceCommunicator;
  struct State;
  explicit DeviceStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

class DeviceCommunicator;

/// One call of a group, by a communicator that runs one rank. The buffers are those in `arguments`.
struct DeviceCall {
  DeviceCommunicator *communicator = nullptr;
  const Plugin *plugin = nullptr;
  CallArguments arguments;
  StreamHandle stream = nullptr;
  Status status = {}; // what became of it: set by runGroup
};

/// Runs collectives on devices. Its ranks are either all ranks, in this process and called together, or one rank of a
/// Communicator. Movable, not copyable; one thread uses it at a time.
///
/// Timeout, PeerLost or Mismatch on any rank aborts the communicator: later calls return Aborted with that cause. So
/// does an error that some ranks of a call have and others have not, unless the calls that meet have that error on all
/// ranks. After every other error it stays usable.
class KOLO_RUNTIME_API DeviceCommunicator {
public:
  /// All ranks are in this process, rank i on devices[i]. Ranks may share a device. InvalidArgument: a number is out of
  /// range. DeviceError: a device does not exist, or devices cannot access each other's memory. OutOfMemory.
  static Result<DeviceCommunicator> createLocal(std::span<const int> devices, const DeviceOptions &options = {});

  /// One rank, that of `host`, on this device. The ranks of `host` are threads or processes, and may share devices.
  /// They may be on several hosts; then `run` takes programs that were compiled for networks: see UnsupportedMesh.
  /// Fork before any function of this header is called. Collective, blocking. Errors as for createLocal, and Mismatch
  /// (ranks disagree on options), Timeout, PeerLost, Aborted, SystemError. InvalidArgument, too: the device has fewer
  /// hardware queues than ranks of this process on it, and one.
  static Result<DeviceCommunicator> create(Communicator host, int device, const DeviceOptions &options = {});

  DeviceCommunicator(DeviceCommunicator &&) noexcept;
  DeviceCommunicator &operator=(DeviceCommunicator &&) noexcept;
  /// Waits for all launches. If peers are in other threads or processes, it also waits until they are done with this
  /// rank's memory.
  ~DeviceCommunicator();

  int size() const;
  /// The ranks that this object runs: all ranks, or one.
  const std::vector<int> &ranks() const;

  /// Allocates memory of the device of `rank`, with undefined content. It takes at least 2 MiB of a CUDA device.
  /// InvalidArgument: `rank` is not one of ranks(), or sizeBytes is 0. OutOfMemory, DeviceError.
  Result<DeviceBuffer> allocate(int rank, size_t sizeBytes, DeviceMemoryKind kind = DeviceMemoryKind::Plain);
  /// Makes a stream of the device of `rank`. InvalidArgument: `rank` is not one of ranks(). DeviceError.
  Result<DeviceStream> createStream(int rank);

  /// Makes memory of every rank a window: peers then access it directly. `memory` has one address for each of ranks(),
  /// and sizeBytes is the same on all ranks. Collective, blocking. The memory must stay until the window is
  /// deregistered or the communicator is destroyed. Windows must not overlap. On a failure no rank has the window.
  ///   InvalidArgument  it is no memory of the rank's device, too small, or overlaps a window; the device of a rank of
  ///                    this process may not access it; sizeBytes is 0
  ///   Mismatch         ranks disagree on the size, or do something else; this aborts nothing
  ///   OutOfMemory, DeviceError, Timeout, PeerLost, Aborted
  Status registerWindow(std::span<void *const> memory, size_t sizeBytes);
  /// Ends a window that begins at these addresses. Waits for all launches. Collective, blocking. InvalidArgument: no
  /// window begins there. Mismatch: ranks name different windows. Further errors as for registerWindow.
  Status deregisterWindow(std::span<void *const> memory);
  /// The same for a window whose memory the caller has mapped already, as NCCL does: `addresses` are those of all
  /// ranks, by rank, as this rank's device finds them. For a communicator that runs one rank. Mismatch, too: another
  /// rank registers a window without addresses.
  Status registerMappedWindow(std::span<void *const> addresses, size_t sizeBytes);
  /// Ends a window for this rank alone, without meeting peers. Waits for this rank's launches. No later call of any
  /// rank may use the window. Otherwise as deregisterWindow.
  Status forgetWindow(std::span<void *const> memory);
  /// Whether `run` has this program for these arguments where the ranks are: Ok, or why not. Local, never blocks, and
  /// ignores the pointers. The same on all ranks. Their devices may refuse the call nevertheless. Errors as for
  /// Communicator::carries.
  Status carries(const Plugin &plugin, const CallArguments &arguments) const;
  /// As Communicator::meshes.
  std::vector<Mesh> meshes() const;
  /// Where arrives what ranks of other hosts send: "memory of the devices", or "memory of the hosts" and why, if
  /// KOLO_NETWORK_MEMORY let this rank try the devices. Empty on one host.
  std::string networkMemory() const;

  /// The number of the window that this memory of the one rank here begins in, which is the same on all ranks; 0: none.
  /// For callers whose API lets each rank choose its memory: calls with block tables meet if each of their buffers has
  /// one number on all ranks. Local, never blocks. InvalidArgument: a call of this rank may not use all of the memory,
  /// or this communicator runs all ranks. DeviceError.
  Result<uint64_t> windowOf(const void *memory, size_t sizeBytes) const;

  /// By which memory a plugin selects a program for this call: Windows where peers access the buffers directly.
  MemoryKind memoryFor(CollectiveKind collective, std::span<const RankBuffers> buffers) const;

  /// Starts one collective. `buffers` and `streams` have one entry for each of ranks(), in that order; the buffers and
  /// tables in `arguments` are ignored. Ranks that share a device and a stream run in one launch. The device must hold
  /// all blocks of all its ranks at once.
  ///
  /// Returns when the launch is queued, which may be long before the peers call. All ranks call with the same plugin
  /// and arguments, in the same order. Where ranks are in several communicators, a buffer that peers access is either
  /// in windows on all ranks, at one offset, or in a window on none; only a call in place has one of its buffers at
  /// another offset, as the collective defines it. With block tables, its offset may differ by whole elements. If a
  /// buffer is in no window, the call runs in internal memory.
  ///
  /// A call whose arguments and buffers were seen before allocates nothing and waits for nothing. Another one may
  /// allocate memory. If it needs more internal memory than there is, it waits on the host until all ranks call it. A
  /// thread with several communicators must use `runGroup`, therefore.
  ///
  /// Calls of one communicator run in the order in which they were started, across streams too. A call may be captured
  /// into a graph, by all ranks. Launches of that graph must not overlap with each other or with other calls of this
  /// communicator.
  ///
  /// Block tables are read while this function runs, and copied for the device. A launch of a graph reads the copy that
  /// was made when the call was captured, never the caller's tables. Internal memory has room for a longest block in
  /// place of each block. Where ranks are in several communicators, a rank does not know the blocks of all others. In
  /// an all-to-all, a gather and a scatter, and in any collective over a part of the mesh, `count` then bounds the
  /// blocks of all ranks. Elsewhere it means nothing. It is the same on all ranks. A rank whose blocks are all empty
  /// passes buffers as the others do.
  ///
  ///   InvalidArgument  a buffer is null, too small, or memory that its users cannot access; the blocks do not fit; or
  ///                    ranks that share a device have more streams than it has hardware queues. Of block tables:
  ///                    another number of entries than the rank has blocks, a negative or too large number, blocks
  ///                    of an output that overlap, or a block that is longer than `count`
  ///   UnsupportedMesh  as for Communicator::run, and if ranks are on several hosts and the program has no code for
  ///                    devices that crosses a network where it must: the message says how to compile it
  ///   BadPlugin        the plugin has no image for the device, or no code for the type and reduction
  ///   Mismatch         ranks disagree; the message says on what, or which block has two counts. Ranks that call
  ///   earlier return Ok and learn of it by
  ///                    query, synchronize or their next call
  ///   OutOfMemory, DeviceError
  ///   Timeout, PeerLost, Aborted  this call or an earlier one failed
  Status run(const Plugin &plugin, const CallArguments &arguments, std::span<const RankBuffers> buffers,
             std::span<const StreamHandle> streams);
  /// The same for a communicator that runs one rank, with the buffers in `arguments`.
  Status run(const Plugin &plugin, const CallArguments &arguments, StreamHandle stream);

  /// Starts calls of several communicators of this process, as NCCL does between ncclGroupStart and ncclGroupEnd. Calls
  /// of one communicator keep their order. Whatever needs peers happens for all communicators at once, so one thread
  /// may run several ranks. Every call has its own outcome in `status`, with the errors of `run`; after an error, the
  /// other communicators' calls are started nevertheless. Returns the first error. InvalidArgument, with nothing
  /// started and no `status` set: a communicator is null or runs several ranks, or a plugin is null.
  static Status runGroup(std::span<DeviceCall> calls);

  /// Reports whether a wait on a device has failed so far. Never blocks. If a rank has died, the runtime ends the calls
  /// that wait for it. Timeout, PeerLost, Mismatch, Aborted.
  Status query();
  /// Blocks until all calls outside of graphs are done. If a rank dies meanwhile, the runtime ends these calls. If
  /// another thread calls `abort` meanwhile, it returns soon; then calls may still wait for their streams. Errors as
  /// for query, and DeviceError.
  Status synchronize();
  /// Aborts the communicator on all ranks, with PeerLost. Calls that wait end soon, on a device or on the host. Never
  /// blocks. Any thread may call it, also while another one is in a call.
  void abort();

private:
  explicit DeviceCommunicator(std::unique_ptr<DeviceState> state);
  std::unique_ptr<DeviceState> state;
};

} // namespace kolo::runtime
