// Devices that execute PTX: blocks of warps, under the schedule that a seed chooses.
#pragma once

#include "Memory.h"

#include <functional>
#include <span>

namespace kolo::ptx {

/// A kernel with one parameter.
struct Launch {
  const Module *module = nullptr;
  const Function *kernel = nullptr;
  uint64_t argument = 0;
  uint32_t gridX = 1, gridY = 1, numThreads = warpThreads;
};

/// What a device does next: a launch, or something that the host does between launches of this device.
struct Task {
  const Launch *launch = nullptr;
  std::function<void(Memory &memory, uint32_t hostThread)> host;
};

struct Style {
  uint64_t seed = 1;
  MemoryStyle memory; // its seed is made from this one's
  uint64_t mostSteps = 30'000'000;
};

/// What threads of the host do while kernels run, again and again, as threads from `first` on of the memory.
struct HostService {
  size_t numThreads = 0;
  std::function<void(Memory &memory, uint32_t first)> serve;
};

/// Of one kernel, or of several one after the other.
struct Counts {
  uint64_t longestThread = 0;                                  // instructions
  uint64_t loads = 0, stores = 0, transactions = 0, bytes = 0; // of global memory; transactions of up to 32 bytes
  uint64_t barriers = 0;                                       // of a block or a part of it, by all blocks
  uint64_t releases = 0, acquires = 0, fences = 0;
};

class Executor {
public:
  /// As many devices as there are queues. All launches of a device have the same grid; each device has one at least.
  explicit Executor(const std::vector<std::vector<Task>> &queues, HostService service = {});
  ~Executor();
  Memory &memory() { return *ownMemory; }

  /// Works off all queues. Throws Problem.
  void run(const Style &style);
  /// Of the last run, all devices together.
  Counts counts() const;
  /// By the clock of all devices; an instruction of any warp takes so long, so that 1 ms is 50,000 of them.
  uint64_t elapsedNs() const { return now * nanosecondsPerInstruction; }
  /// Whether an instruction of this line has been executed in any run.
  bool isExecuted(uint32_t line) const;
  /// Of a line that accesses global memory: an address that it accessed; 0: none.
  uint64_t addressOf(uint32_t line) const { return line < addresses.size() ? addresses[line] : 0; }
  uint32_t hostThread(size_t device) const { return uint32_t(memoryThreads - 2 * queues.size() + device); }
  /// Of the host, too: what looks at memory while kernels run, and knows nothing of their end.
  uint32_t watchingThread(size_t device) const { return uint32_t(memoryThreads - queues.size() + device); }

private:
  uint32_t serviceThread() const { return uint32_t(memoryThreads - 2 * queues.size() - service.numThreads); }

  static constexpr uint64_t nanosecondsPerInstruction = 20;
  struct Bases {
    uint32_t preds = 0, narrow = 0, wide = 0;
    bool operator==(const Bases &) const = default;
  };
  struct Frame {
    uint32_t pc = 0; // to return to
    uint32_t result = nowhere;
    Bases bases; // of the caller
    uint32_t function = 0;
  };
  static constexpr size_t mostFrames = 12, mostBarriers = 16;
  struct Block;
  struct Warp {
    Block *block = nullptr;
    uint32_t firstThread = 0, numLanes = 0; // firstThread: of memory's threads
    uint32_t alive = 0, runnable = 0, sleeping = 0, together = 0, carry = 0;
    uint32_t togetherAt = 0; // the instruction that the lanes of `together` execute at once
    uint64_t wake = 0;
    std::array<uint8_t, warpThreads> waitsAt{}; // a barrier's number and 1; atWarp: for others of the warp
    Row<uint32_t> waitsFor{};                   // atWarp: these lanes
    Row<uint32_t> pc{}, function{};
    std::array<uint8_t, warpThreads> depth{};
    Row<Bases> bases{};
    std::array<Row<Frame>, mostFrames> frames;
    Row<uint64_t> executed{};
    std::unique_ptr<uint32_t[], void (*)(void *)> preds{nullptr, nullptr};
    std::unique_ptr<Row<uint32_t>[], void (*)(void *)> narrow { nullptr, nullptr };
    std::unique_ptr<Row<uint64_t>[], void (*)(void *)> wide { nullptr, nullptr };
  };
  static constexpr uint8_t atWarp = 255;
  struct Barrier {
    uint32_t arrived = 0, expected = 0;
    bool value = false;
  };
  struct Block {
    uint32_t x = 0, y = 0, numThreads = 0, gridX = 0, device = 0;
    uint64_t sharedBase = 0;
    std::array<Barrier, mostBarriers> barriers;
    std::vector<Warp *> warps;
  };
  struct Device {
    size_t nextTask = 0;
    uint32_t firstThread = 0, numThreads = 0, numLeft = 0; // numLeft: threads that have not ended
    const Launch *launch = nullptr;
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<std::unique_ptr<Warp>> warps;
  };
  struct Group {
    uint32_t mask = 0, pc = 0;
    Bases bases;
  };
  /// A register whose value a load brings later.
  struct Delayed {
    Warp *warp;
    int lane;
    Operand target; // of the whole warp: the index is not that of a frame
    bool isStrong;
    uint32_t load; // its number in memory
  };
  friend class Execution;

  void prepare(Device &device, const Launch &launch);
  void start(Device &device, const Launch &launch);
  void advance(size_t number); // to the next launch, where no thread is left
  Warp *pickWarp();
  void runWarp(Warp &warp, uint32_t budget);
  Group pickGroup(Warp &warp);
  std::vector<uint32_t> threadsOf(const Device &device) const;

  const std::vector<std::vector<Task>> queues;
  const HostService service;
  std::vector<Device> devices;
  std::vector<Warp *> warps; // of all devices
  std::unique_ptr<Memory> ownMemory;
  size_t memoryThreads = 0;
  std::vector<bool> executedLines;
  std::vector<uint64_t> addresses; // by line
  std::vector<Delayed> delayed;
  Counts counted;
  Random random{1};
  uint64_t now = 0;
  uint32_t laggingDevice = 0, mostBudget = 256;
};

} // namespace kolo::ptx
