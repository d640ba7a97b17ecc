// Streams, events, copies and captures of the stand-in driver.
#include "StandIn.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace {

std::atomic<unsigned> numStreams = 0;

/// Streams that are alive, by numbers that are not used again. Not destroyed: streams may be.
struct Streams {
  std::mutex mutex;
  std::map<uint64_t, CUstream_st *> alive;
};
Streams &streams() {
  static auto *only = new Streams;
  return *only;
}

/// What a busy device does: it begins late, and streams do not keep step.
void beLate(std::minstd_rand &random) {
  if (int most = kolo::standin::setting("KOLO_STANDIN_LATE_US", 0))
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<int>(0, most)(random)));
}

/// The hardware queue of a device's next stream: streams share them in turn, as many as the driver's variable says.
kolo::standin::HardwareQueue &nextQueue(int device) {
  struct Queues {
    std::vector<std::unique_ptr<kolo::standin::HardwareQueue>> all;
    size_t numStreams = 0;
  };
  static std::mutex mutex;
  static auto *byDevice = new std::map<int, Queues>; // their threads run until the process ends
  std::scoped_lock lock(mutex);
  Queues &queues = (*byDevice)[device];
  auto number = static_cast<size_t>(std::clamp(kolo::standin::setting("CUDA_DEVICE_MAX_CONNECTIONS", 8), 1, 32));
  size_t index = queues.numStreams++ % number;
  while (queues.all.size() <= index)
    queues.all.push_back(std::make_unique<kolo::standin::HardwareQueue>());
  return *queues.all[index];
}

} // namespace

namespace kolo::standin {

HardwareQueue::HardwareQueue() {
  std::thread([this] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !tasks.empty(); });
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }).detach();
}

void HardwareQueue::add(Task task) {
  std::scoped_lock lock(mutex);
  tasks.push_back(std::move(task));
  changed.notify_all();
}

} // namespace kolo::standin

CUstream_st::CUstream_st(int number)
    : device(number), id(++numStreams), queue(nextQueue(number)),
      random(std::make_shared<std::minstd_rand>(static_cast<unsigned>(kolo::standin::setting("KOLO_STANDIN_SEED", 1)) *
                                                    1000003u +
                                                static_cast<unsigned>(getpid()) * 101u + static_cast<unsigned>(id))) {
  std::scoped_lock lock(streams().mutex);
  streams().alive[id] = this;
}

CUstream_st::~CUstream_st() {
  waitUntilEmpty();
  std::scoped_lock lock(streams().mutex);
  streams().alive.erase(id);
}

void CUstream_st::add(kolo::standin::Task task) {
  {
    std::scoped_lock lock(progress->mutex);
    ++progress->numAdded;
  }
  queue.add([task = std::move(task), of = progress, numbers = random] {
    beLate(*numbers);
    task();
    std::scoped_lock lock(of->mutex);
    ++of->numDone;
    of->changed.notify_all();
  });
}

void CUstream_st::waitUntilEmpty() {
  std::unique_lock lock(progress->mutex);
  progress->changed.wait(lock, [&] { return progress->numDone == progress->numAdded; });
}

namespace kolo::standin {
namespace {

std::atomic<int64_t> numCopies = 0;
thread_local CUstreamCaptureMode threadMode = CU_STREAM_CAPTURE_MODE_GLOBAL;
std::atomic<int> numGlobalCaptures = 0;
thread_local int numOwnCaptures = 0; // that forbid calls of this thread alone

} // namespace

CUresult checkUnsafe() {
  if (CUresult refused = checkContext())
    return refused;
  bool isForbidden = threadMode != CU_STREAM_CAPTURE_MODE_RELAXED && (numGlobalCaptures > 0 || numOwnCaptures > 0);
  return isForbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUstream_st *streamOf(CUstream handle) {
  if (!current())
    return nullptr;
  if (!handle) {
    static std::mutex mutex;
    static std::map<int, std::unique_ptr<CUstream_st>> defaults;
    std::scoped_lock lock(mutex);
    std::unique_ptr<CUstream_st> &stream = defaults[current()->device];
    if (!stream)
      stream = std::make_unique<CUstream_st>(current()->device);
    return stream.get();
  }
  return isHandle(handle) && handle->device == current()->device ? handle : nullptr;
}

void waitForDevice(int device) {
  std::vector<std::shared_ptr<Progress>> all; // other threads may make and destroy streams meanwhile
  std::unique_lock lock(streams().mutex);
  for (const auto &[id, stream] : streams().alive)
    if (stream->device == device)
      all.push_back(stream->progress);
  lock.unlock();
  for (const std::shared_ptr<Progress> &each : all) {
    std::unique_lock own(each->mutex);
    each->changed.wait(own, [&, awaited = each->numAdded] { return each->numDone >= awaited; });
  }
}

void enqueue(CUstream_st &stream, Task task) {
  if (stream.capture)
    stream.capture->tasks.push_back(std::move(task));
  else
    stream.add(std::move(task));
}

} // namespace kolo::standin

using namespace kolo::standin;

extern "C" {

CUresult cuStreamCreate(CUstream *stream, unsigned int) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  addHandle(*stream = new CUstream_st(current()->device));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  if (!removeHandle(stream))
    return CUDA_ERROR_INVALID_HANDLE;
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  CUstream_st *stream = streamOf(handle);
  if (CUresult refused = checkContext())
    return refused;
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (CUresult refused = checkUnsafe())
    return refused;
  stream->waitUntilEmpty();
  return checkContext();
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  CUstream_st *stream = streamOf(handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  if (CUresult refused = checkContext())
    return refused;
  if (!handle || !isHandle(handle) || handle->capture)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  handle->capture = std::make_unique<CUgraph_st>();
  handle->captureMode = mode;
  numGlobalCaptures += mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  numOwnCaptures += mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  if (CUresult refused = checkContext())
    return refused;
  if (!handle || !isHandle(handle) || !handle->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  numGlobalCaptures -= handle->captureMode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  numOwnCaptures -= handle->captureMode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  addHandle(*graph = handle->capture.release());
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  std::swap(*mode, threadMode);
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long) {
  if (CUresult refused = checkContext())
    return refused;
  addHandle(*executable = new CUgraphExec_st{graph->tasks});
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  Busy busy;
  if (CUresult refused = checkContext())
    return refused;
  if (!isHandle(handle) || !isHandle(executable))
    return CUDA_ERROR_INVALID_HANDLE;
  for (const Task &task : executable->tasks)
    enqueue(*handle, task);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  if (CUresult refused = checkContext())
    return refused;
  if (!removeHandle(executable))
    return CUDA_ERROR_INVALID_HANDLE;
  delete executable;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (CUresult refused = checkContext())
    return refused;
  if (!removeHandle(graph))
    return CUDA_ERROR_INVALID_HANDLE;
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  if (CUresult refused = checkContext())
    return refused;
  addHandle(*event = new CUevent_st);
  (*event)->device = current()->device;
  (*event)->isTimed = !(flags & CU_EVENT_DISABLE_TIMING);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  if (!removeHandle(event))
    return CUDA_ERROR_INVALID_HANDLE;
  while (event->passed < event->recorded) // its stream still has it
    std::this_thread::yield();
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  Busy busy;
  CUstream_st *stream = streamOf(handle);
  if (CUresult refused = checkContext())
    return refused;
  if (!stream || !isHandle(event) || event->device != stream->device)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    event->isCaptured = true;
    return CUDA_SUCCESS;
  }
  event->isCaptured = false;
  stream->add([event, number = ++event->recorded] {
    event->time = std::chrono::steady_clock::now();
    event->passed = number;
  });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  if (!isHandle(event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (event->isCaptured)
    return CUDA_ERROR_CAPTURED_EVENT;
  if (CUresult refused = checkUnsafe())
    return refused;
  return event->passed >= event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int) {
  Busy busy;
  CUstream_st *stream = streamOf(handle);
  if (CUresult refused = checkContext())
    return refused;
  if (!stream || !isHandle(event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (event->isCaptured || stream->capture)
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  stream->add([event, number = event->recorded.load()] {
    while (event->passed < number)
      std::this_thread::yield();
  });
  return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  if (!isHandle(start) || !isHandle(end) || start->recorded == 0 || end->recorded == 0 || !start->isTimed ||
      !end->isTimed)
    return CUDA_ERROR_INVALID_HANDLE;
  if (start->passed < start->recorded || end->passed < end->recorded)
    return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t sizeBytes, CUstream handle) {
  Busy busy;
  CUstream_st *stream = streamOf(handle);
  if (CUresult refused = checkContext())
    return refused;
  if (!stream || !isWhole(dst, sizeBytes) || !isWhole(src, sizeBytes))
    return CUDA_ERROR_INVALID_VALUE;
  ++numCopies;
  enqueue(*stream, [=] { std::memcpy(toAlias(dst), toAlias(src), sizeBytes); });
  return CUDA_SUCCESS;
}

/// At once; as the real one, it waits for the default stream alone, which nothing uses.
CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t sizeBytes) {
  if (CUresult refused = checkUnsafe())
    return refused;
  if (!isWhole(dst, sizeBytes) || !isWhole(src, sizeBytes))
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(toAlias(dst), toAlias(src), sizeBytes);
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  CUstream_st *stream = streamOf(handle);
  if (CUresult refused = checkContext())
    return refused;
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  enqueue(*stream, [=] { function(data); });
  return CUDA_SUCCESS;
}

/// For tests: what follows on the stream waits until the number is not 0, as behind a kernel of the program.
void standInHold(CUstream stream, const std::atomic<int> *isReleased) {
  stream->add([isReleased] {
    while (*isReleased == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

/// For tests: streams that are alive.
int64_t standInStreams() {
  std::scoped_lock lock(streams().mutex);
  return static_cast<int64_t>(streams().alive.size());
}

/// For tests: copies that were queued.
int64_t standInCopies() { return numCopies; }

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t sizeBytes, CUstream handle) {
  Busy busy;
  CUstream_st *stream = streamOf(handle);
  if (CUresult refused = checkContext())
    return refused;
  if (!stream || !isWhole(dst, sizeBytes))
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(*stream, [=] { setMemory(dst, value, sizeBytes); });
  return CUDA_SUCCESS;
}
}
