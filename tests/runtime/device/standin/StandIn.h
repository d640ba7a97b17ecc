// A stand-in for the CUDA driver: the functions that libkolo_cuda uses, on memory and threads of the host, for tests
// where there is no GPU. It is stricter than the real one: what that one may let pass is an error here. Devices are
// made up by the environment: KOLO_STANDIN_DEVICES (2), KOLO_STANDIN_ARCHITECTURE (90), KOLO_STANDIN_RESIDENT (64:
// blocks per device), KOLO_STANDIN_NVLINK (1: between all of them). With KOLO_STANDIN_LATE_US (0), each task of a
// stream begins up to so many microseconds late, at random by KOLO_STANDIN_SEED (1), process and stream.
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
  std::set<int> peers;
};

namespace kolo::standin {

using Task = std::function<void()>;

int setting(const char *name, int otherwise);
int numDevices();
int residentBlocks();

/// The context that is current in this thread; null: none.
CUctx_st *current();
/// Of a device, made when it is first asked for.
CUctx_st *primaryContext(int device);

/// CUDA_SUCCESS when there is a current context, and no capture forbids what allocates or waits.
CUresult checkContext();
CUresult checkUnsafe();

/// Where memory lies.
enum class MemoryKind { Device, Host, Imported, Virtual };
struct Allocation {
  size_t sizeBytes = 0;
  int device = -1;
  MemoryKind kind = MemoryKind::Device;
  unsigned long long id = 0;
  int fd = -1;
  bool isAccessible = true;
};
/// The allocation that an address is in, and its base; false: in none.
bool findAllocation(CUdeviceptr address, CUdeviceptr *base, Allocation *found);
/// Whether a range lies in one allocation, or in none, being ordinary memory of the host.
bool isWhole(CUdeviceptr address, size_t sizeBytes);

/// Handles that are alive, of all kinds; a use of any other is CUDA_ERROR_INVALID_HANDLE.
void addHandle(void *handle);
bool removeHandle(void *handle);
bool isHandle(const void *handle);

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

/// A queue, and a thread that works it off.
struct CUstream_st {
  explicit CUstream_st(int number);
  ~CUstream_st();
  void add(kolo::standin::Task task);
  void waitUntilEmpty();

  const int device;
  const uint64_t id;
  std::atomic<uint64_t> numAdded = 0, numDone = 0; // tasks
  std::unique_ptr<CUgraph_st> capture;
  CUstreamCaptureMode captureMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

private:
  void work();
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<kolo::standin::Task> tasks;
  bool isBusy = false, hasEnded = false;
  std::minstd_rand random;
  std::thread worker;
};

namespace kolo::standin {

/// The stream of a handle, the device's default one for null; null when it is none of the current context.
CUstream_st *streamOf(CUstream handle);
/// Blocks until what all streams of a device have now is done.
void waitForDevice(int device);
/// To the stream, or into the graph that it is captured into.
void enqueue(CUstream_st &stream, Task task);

} // namespace kolo::standin
