// Modules and launches of the stand-in driver. A device holds as many blocks of all launches at once as its registers
// suffice for. Further blocks start when others have ended, which may be never. With KOLO_STANDIN_RECORD, the driver
// takes PTX and runs none of it: it keeps what was launched, for who executes it.
#include "Blocks.h"
#include "StandIn.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

struct CUmod_st {
  int device = 0;
  void *library = nullptr; // null: `text` is PTX, and its launches are recorded
  std::string text;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
  CUmod_st *module = nullptr;
  StandInKernel run = nullptr;
  std::string name;
};

namespace kolo::standin {

std::atomic<int64_t> numModuleLoads = 0;

namespace {

constexpr int maxThreads = 512, registersPerMultiprocessor = 65536;
std::atomic<int64_t> numLaunches = 0, lastLanes = 0;

std::mutex recordMutex;
std::vector<StandInRecord> records;

/// Blocks of so many threads that a multiprocessor holds at once: what the registers of the code suffice for.
int blocksPerMultiprocessor(uint32_t numThreads) {
  return registersPerMultiprocessor / (setting("KOLO_STANDIN_REGISTERS", 128) * static_cast<int>(numThreads));
}

/// Room for blocks on one device, by the registers that they take of a multiprocessor.
class Room {
public:
  /// Waits until so much fits at once.
  void take(int64_t registers) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return used + registers <= int64_t(numMultiprocessors()) * registersPerMultiprocessor; });
    used += registers;
  }
  void giveBack(int64_t registers) {
    std::scoped_lock lock(mutex);
    used -= registers;
    changed.notify_all();
  }
  static Room &of(int device) {
    static std::mutex mutex;
    static std::map<int, Room> rooms;
    std::scoped_lock lock(mutex);
    return rooms[device];
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  int64_t used = 0;
};

struct Launch {
  StandInKernel run;
  const void *argument;
  uint32_t gridX, gridY, numThreads;
  int device;
  bool isTogether;
};

void runBlock(const Launch &launch, const StandInBlock &position) {
  Block block(position, setting("KOLO_STANDIN_THREADS", 1));
  kernelDevice = launch.device;
  block.run([&] { launch.run(launch.argument, &block.position); });
}

/// Runs one block after the other, until the process ends: to start a thread and to end it takes longer than most
/// blocks, above all under sanitizers.
class BlockThread {
public:
  BlockThread() {
    std::thread([this] { serve(); }).detach();
  }
  void start(std::function<void()> block) {
    std::scoped_lock lock(mutex);
    work = std::move(block);
    changed.notify_all();
  }
  void join() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !work; });
  }

private:
  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return work != nullptr; });
      lock.unlock();
      work();
      lock.lock();
      work = nullptr;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> work;
};

/// The first `number` of the thread that performs launches. Others have their own: so what the thread sanitizer sees of
/// two blocks is in order only where their launches are.
std::span<const std::unique_ptr<BlockThread>> blockThreads(size_t number) {
  thread_local auto *threads = new std::vector<std::unique_ptr<BlockThread>>;
  while (threads->size() < number)
    threads->push_back(std::make_unique<BlockThread>());
  return std::span(*threads).first(number);
}

void perform(const Launch &launch) {
  if (primaryContext(launch.device)->failure != CUDA_SUCCESS)
    return; // a device that has failed runs nothing more
  KernelRuns runs;
  Room &room = Room::of(launch.device);
  const int64_t perBlock = registersPerMultiprocessor / blocksPerMultiprocessor(launch.numThreads);
  if (launch.isTogether)
    room.take(perBlock * launch.gridX * launch.gridY);
  auto threads = blockThreads(size_t(launch.gridX) * launch.gridY);
  for (uint32_t y = 0; y < launch.gridY; ++y)
    for (uint32_t x = 0; x < launch.gridX; ++x) {
      if (!launch.isTogether)
        room.take(perBlock);
      threads[size_t(y) * launch.gridX + x]->start([&launch, &room, perBlock, x, y] {
        runBlock(launch, {x, y, launch.gridX, launch.gridY, launch.numThreads});
        room.giveBack(perBlock);
      });
    }
  for (const auto &thread : threads)
    thread->join();
}

CUresult launch(CUfunction function, const uint32_t (&grid)[3], const uint32_t (&block)[3], CUstream handle,
                void **arguments, bool isTogether) {
  Busy busy;
  CUstream_st *stream = streamOf(handle);
  if (CUresult refused = checkContext())
    return refused;
  if (!stream || !isHandle(function->module) || function->module->device != stream->device)
    return CUDA_ERROR_INVALID_HANDLE;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] != 1 || block[0] == 0 || block[0] > maxThreads || block[1] != 1 ||
      block[2] != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (blocksPerMultiprocessor(block[0]) == 0)
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (isTogether && int64_t(grid[0]) * grid[1] > int64_t(numMultiprocessors()) * blocksPerMultiprocessor(block[0]))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  const void *argument = nullptr;
  std::memcpy(&argument, arguments[0], sizeof(argument));
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(reinterpret_cast<CUdeviceptr>(argument), &base, &found) || found.device != stream->device)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (!function->module->library) {
    std::scoped_lock lock(recordMutex);
    records.push_back({function->module->text.c_str(), function->name.c_str(), argument,
                       toAlias(reinterpret_cast<CUdeviceptr>(argument)), grid[0], grid[1], block[0], stream->device});
    return CUDA_SUCCESS;
  }
  Launch what = {function->run, argument, grid[0], grid[1], block[0], stream->device, isTogether};
  ++numLaunches;
  lastLanes = grid[0];
  enqueue(*stream, [what] { perform(what); });
  return CUDA_SUCCESS;
}

/// The bytes of a shared library, as its header says; 0 when it is none.
size_t libraryBytes(const char *image) {
  Elf64_Ehdr header;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return 0;
  std::memcpy(&header, image, sizeof(header));
  return header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
}

/// Before a library there may be a head that makes it a cubin for one architecture: "cubin 90" and zeros. Without it,
/// the image is PTX, which the driver translates for some time. KOLO_STANDIN_CUBINS=0: of a later toolkit than the
/// driver knows.
CUresult readHead(const char **image) {
  constexpr size_t headBytes = 64;
  if (std::strncmp(*image, "cubin ", 6) != 0) {
    if (setting("KOLO_STANDIN_JIT", 1) == 0)
      return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    std::this_thread::sleep_for(std::chrono::milliseconds(setting("KOLO_STANDIN_JIT_MS", 0)));
    return CUDA_SUCCESS;
  }
  if (setting("KOLO_STANDIN_CUBINS", 1) == 0)
    return CUDA_ERROR_INVALID_IMAGE;
  if (std::atoi(*image + 6) != setting("KOLO_STANDIN_ARCHITECTURE", 90))
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *image += headBytes;
  return CUDA_SUCCESS;
}

} // namespace
} // namespace kolo::standin

using namespace kolo::standin;

extern "C" {

CUresult cuModuleLoadData(CUmodule *module, const void *data) {
  Busy busy;
  if (CUresult refused = checkUnsafe())
    return refused;
  const char *image = static_cast<const char *>(data);
  if (CUresult refused = readHead(&image))
    return refused;
  size_t sizeBytes = libraryBytes(image);
  if (sizeBytes == 0 && setting("KOLO_STANDIN_RECORD", 0) != 0) {
    addHandle(*module = new CUmod_st);
    (*module)->device = current()->device;
    (*module)->text = image;
    return CUDA_SUCCESS;
  }
  if (sizeBytes == 0)
    return CUDA_ERROR_INVALID_PTX;
  offerPrimitives();
  int fd = memfd_create("standin-module", MFD_CLOEXEC);
  bool isWritten = write(fd, image, sizeBytes) == static_cast<ssize_t>(sizeBytes);
  void *library = isWritten ? dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  // The descriptor stays: the loader would take another library of the same name for this one.
  if (!library)
    return CUDA_ERROR_INVALID_PTX;
  ++numModuleLoads;
  addHandle(*module = new CUmod_st);
  (*module)->device = current()->device;
  (*module)->library = library;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  if (!removeHandle(module))
    return CUDA_ERROR_INVALID_HANDLE;
  if (module->library)
    dlclose(module->library);
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  if (!isHandle(module))
    return CUDA_ERROR_NOT_FOUND;
  void *symbol = module->library ? dlsym(module->library, name) : nullptr;
  if (!symbol && module->text.find(" .entry " + std::string(name) + "(") == std::string::npos)
    return CUDA_ERROR_NOT_FOUND;
  auto made = std::make_unique<CUfunc_st>();
  made->module = module;
  made->run = reinterpret_cast<StandInKernel>(symbol);
  made->name = name;
  *function = made.get();
  module->functions.push_back(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
  *value = maxThreads;
  return attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *number, CUfunction function, int numThreads, size_t) {
  *number = numThreads <= maxThreads ? blocksPerMultiprocessor(static_cast<uint32_t>(numThreads)) : 0;
  return isHandle(function->module) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                        unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int, CUstream stream,
                        void **arguments, void **) {
  return launch(function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, stream, arguments, false);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                                   unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int,
                                   CUstream stream, void **arguments) {
  return launch(function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, stream, arguments, true);
}

/// For tests: launches that were queued.
int64_t standInLaunches() { return numLaunches; }

/// For tests: blocks along the first dimension of the launch that was queued last.
int64_t standInLanes() { return lastLanes; }

/// For tests: the launches that were recorded, the first one first, and forgets them. At most `most`; gives how many.
int64_t standInTakeRecords(StandInRecord *out, int64_t most) {
  std::scoped_lock lock(recordMutex);
  auto number = std::min(most, static_cast<int64_t>(records.size()));
  std::copy_n(records.begin(), number, out);
  records.clear();
  return number;
}
}
