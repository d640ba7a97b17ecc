// A stand-in for the CUDA driver: the functions that libkolo_cuda uses, on memory and threads of the host, for tests
// where there is no GPU. It is stricter than the real one: what that one may let pass is an error here. README.md has
// its rules, and the variables by which tests ask for other devices.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

struct CUctx_st {
  int device = 0;
  std::set<int> peers;                          // whose memory kernels of this device may access
  std::recursive_mutex busy;                    // held by each call
  std::atomic<CUresult> failure = CUDA_SUCCESS; // of a kernel: all later calls return it
};

namespace kolo::standin {

using Task = std::function<void()>;

int setting(const char *name, int otherwise);
int numDevices();
int numMultiprocessors();
/// By the number that a device has here, the one that it has in the machine: CUDA_VISIBLE_DEVICES is one number, of the
/// first device that is visible.
int physicalNumber(int device);

/// The context that is current in this thread; null: none.
CUctx_st *current();
/// Of a device, made when it is first asked for.
CUctx_st *primaryContext(int device);

/// CUDA_SUCCESS when there is a current context without a failure, and no capture forbids what allocates or waits.
CUresult checkContext();
CUresult checkUnsafe();
/// Holds the current context for the scope of one call, as the real driver does, also where the call waits.
class Busy {
public:
  Busy() : lock(current() ? std::unique_lock(current()->busy) : std::unique_lock<std::recursive_mutex>()) {}

private:
  std::unique_lock<std::recursive_mutex> lock;
};

/// Where memory lies.
enum class MemoryKind { Device, Host, Imported, Virtual, Pool };
struct Allocation {
  size_t sizeBytes = 0;
  int device = -1;
  MemoryKind kind = MemoryKind::Device;
  unsigned long long id = 0;
  int fd = -1;
  size_t fileOffset = 0;       // of its first byte
  void *alias = nullptr;       // where the driver itself accesses it
  std::set<int> devices;       // of virtual memory: that may access it
  CUmemoryPool pool = nullptr; // of pool memory
  bool isOpen = false;         // kernels run that have touched it
};
/// The allocation that an address is in, and its base; false: in none.
bool findAllocation(CUdeviceptr address, CUdeviceptr *base, Allocation *found);
/// Whether a range lies in one allocation, or in none, being ordinary memory of the host.
bool isWhole(CUdeviceptr address, size_t sizeBytes);
/// Where the driver itself accesses a range: copies open no memory to the host.
void *toAlias(CUdeviceptr address);
void setMemory(CUdeviceptr dst, unsigned char value, size_t sizeBytes);

/// Of all allocations; and this one, which the lock of `memoryMutex` protects.
extern std::recursive_mutex memoryMutex;
std::map<CUdeviceptr, Allocation> &allocations();
unsigned long long nextId();
/// Whether kernels of a device may access an allocation.
bool mayAccess(int device, const Allocation &allocation);

/// Protection.cpp. The host cannot access memory of devices. While a kernel of this process runs, memory is open that
/// a kernel has touched: the page fault of its thread opens it. A kernel that touches memory which its device may not
/// access fails, and goes on.
void protect(CUdeviceptr address, size_t sizeBytes);
/// While one lives, this process runs a kernel.
class KernelRuns {
public:
  KernelRuns();
  ~KernelRuns();
  KernelRuns(const KernelRuns &) = delete;
  KernelRuns &operator=(const KernelRuns &) = delete;
};
/// The device of the kernel that this thread runs; -1: none.
extern thread_local int kernelDevice;

/// Rdma.cpp. Attributes of devices that tell what NICs can do with their memory.
CUresult describeRdma(int *value, CUdevice_attribute attribute);
/// What NICs have written to memory that goes, under memoryMutex.
void forgetArrived(CUdeviceptr address, size_t sizeBytes);

/// Handles that are alive, of all kinds; a use of any other is CUDA_ERROR_INVALID_HANDLE.
void addHandle(void *handle);
bool removeHandle(void *handle);
bool isHandle(const void *handle);

/// Registrations of memory of the host, in Pinned.cpp; under memoryMutex.
int64_t countPinned();

/// Memory, streams, events and modules that are alive, and modules that were ever loaded.
int64_t countLive();
extern std::atomic<int64_t> numModuleLoads;

} // namespace kolo::standin

struct CUevent_st {
  int device = 0;
  std::atomic<uint64_t> recorded{0}, passed{0};
  std::chrono::steady_clock::time_point time;
  bool isCaptured = false, isTimed = true;
};

struct CUgraph_st {
  std::vector<kolo::standin::Task> tasks;
};
struct CUgraphExec_st {
  std::vector<kolo::standin::Task> tasks;
};

namespace kolo::standin {

/// A queue of a device, and a thread that works it off: one task after the other, whatever stream they are from.
class HardwareQueue {
public:
  HardwareQueue();
  void add(Task task);

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
};

/// How far a stream has come.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t numAdded = 0, numDone = 0; // tasks
};

} // namespace kolo::standin

/// A stream. It shares one of its device's hardware queues with other streams.
struct CUstream_st {
  explicit CUstream_st(int number);
  ~CUstream_st();
  void add(kolo::standin::Task task);
  void waitUntilEmpty();

  const int device;
  const uint64_t id;
  const std::shared_ptr<kolo::standin::Progress> progress = std::make_shared<kolo::standin::Progress>();
  std::unique_ptr<CUgraph_st> capture;
  CUstreamCaptureMode captureMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

private:
  kolo::standin::HardwareQueue &queue;
  std::shared_ptr<std::minstd_rand> random;
};

namespace kolo::standin {

/// The stream of a handle, the device's default one for null; null when it is none of the current context.
CUstream_st *streamOf(CUstream handle);
/// Blocks until what all streams of a device have now is done.
void waitForDevice(int device);
/// To the stream, or into the graph that it is captured into.
void enqueue(CUstream_st &stream, Task task);

} // namespace kolo::standin
