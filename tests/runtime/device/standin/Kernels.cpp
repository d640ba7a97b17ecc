// Modules and launches of the stand-in driver. A device holds a fixed number of blocks of all launches at once. Further
// blocks start when others have ended, which may be never.
#include "Blocks.h"
#include "StandIn.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

struct CUmod_st {
  int device = 0;
  void *library = nullptr;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
  CUmod_st *module = nullptr;
  StandInKernel run = nullptr;
};

namespace kolo::standin {

std::atomic<int64_t> numModuleLoads = 0;

namespace {

constexpr int maxThreads = 512;
std::atomic<int64_t> numLaunches = 0;

/// Room for blocks on one device.
class Room {
public:
  /// Waits until so many blocks fit at once.
  void take(int number) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return used + number <= residentBlocks(); });
    used += number;
  }
  void giveBack() {
    std::scoped_lock lock(mutex);
    --used;
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
  int used = 0;
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
  std::vector<std::thread> threads;
  for (int thread = 0; thread < block.numThreads; ++thread)
    threads.emplace_back([&launch, &block, thread] {
      currentBlock = &block, currentThread = thread;
      launch.run(launch.argument, &block.position);
    });
  for (std::thread &thread : threads)
    thread.join();
}

void perform(const Launch &launch) {
  Room &room = Room::of(launch.device);
  if (launch.isTogether)
    room.take(static_cast<int>(launch.gridX * launch.gridY));
  std::vector<std::thread> threads;
  for (uint32_t y = 0; y < launch.gridY; ++y)
    for (uint32_t x = 0; x < launch.gridX; ++x) {
      if (!launch.isTogether)
        room.take(1);
      threads.emplace_back([&launch, &room, x, y] {
        runBlock(launch, {x, y, launch.gridX, launch.gridY, launch.numThreads});
        room.giveBack();
      });
    }
  for (std::thread &thread : threads)
    thread.join();
}

CUresult launch(CUfunction function, const uint32_t (&grid)[3], const uint32_t (&block)[3], CUstream handle,
                void **arguments, bool isTogether) {
  CUstream_st *stream = streamOf(handle);
  if (!stream || !isHandle(function->module) || function->module->device != stream->device)
    return CUDA_ERROR_INVALID_HANDLE;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] != 1 || block[0] == 0 || block[0] > maxThreads || block[1] != 1 ||
      block[2] != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (isTogether && grid[0] * grid[1] > static_cast<uint32_t>(residentBlocks()))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  const void *argument = nullptr;
  std::memcpy(&argument, arguments[0], sizeof(argument));
  CUdeviceptr base;
  Allocation found;
  if (!findAllocation(reinterpret_cast<CUdeviceptr>(argument), &base, &found) || found.device != stream->device)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  Launch what = {function->run, argument, grid[0], grid[1], block[0], stream->device, isTogether};
  ++numLaunches;
  enqueue(*stream, [what] { perform(what); });
  return CUDA_SUCCESS;
}

/// The bytes of a shared library, as its header says; 0 when it is none.
size_t libraryBytes(const void *image) {
  Elf64_Ehdr header;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return 0;
  std::memcpy(&header, image, sizeof(header));
  return header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
}

} // namespace
} // namespace kolo::standin

using namespace kolo::standin;

extern "C" {

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  if (CUresult refused = checkUnsafe())
    return refused;
  size_t sizeBytes = libraryBytes(image);
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
  dlclose(module->library);
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  void *symbol = isHandle(module) ? dlsym(module->library, name) : nullptr;
  if (!symbol)
    return CUDA_ERROR_NOT_FOUND;
  auto made = std::make_unique<CUfunc_st>();
  made->module = module;
  made->run = reinterpret_cast<StandInKernel>(symbol);
  *function = made.get();
  module->functions.push_back(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
  *value = maxThreads;
  return attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// As many multiprocessors as blocks: each holds one.
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *number, CUfunction function, int numThreads, size_t) {
  *number = numThreads <= maxThreads;
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
}
