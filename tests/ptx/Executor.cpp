#include "Execution.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace kolo::ptx {

namespace {

constexpr uint64_t sharedSpace = uint64_t(1) << 62, sharedOfBlock = uint64_t(1) << 20;

template <class T> std::unique_ptr<T[], void (*)(void *)> zeros(size_t number) {
  return {static_cast<T *>(std::calloc(std::max<size_t>(number, 1), sizeof(T))), std::free};
}

/// Registers that calls within each other can take at once.
Sizes deepestSizes(const Module &module, uint32_t number, std::vector<std::optional<Sizes>> &known, int depth = 0) {
  if (depth > 64)
    throw Problem("a function calls itself");
  if (known[number])
    return *known[number];
  const Function &function = module.functions[number];
  Sizes most{};
  for (uint32_t i = function.first; i < function.end; ++i)
    if (module.code[i].op == Op::Call) {
      Sizes callee = deepestSizes(module, uint32_t(module.code[i].immediate), known, depth + 1);
      for (size_t bank = 0; bank < most.size(); ++bank)
        most[bank] = std::max(most[bank], callee[bank]);
    }
  for (size_t bank = 0; bank < most.size(); ++bank)
    most[bank] += function.sizes[bank];
  known[number] = most;
  return most;
}

} // namespace

Executor::Executor(const std::vector<std::vector<Task>> &ofQueues, HostService ofHosts)
    : queues(ofQueues), service(std::move(ofHosts)), devices(ofQueues.size()) {
  std::vector<ThreadPlace> places;
  uint32_t numBlocks = 0;
  for (size_t number = 0; number < queues.size(); ++number) {
    Device &device = devices[number];
    const Launch *launch = nullptr;
    for (const Task &task : queues[number]) {
      if (task.launch)
        launch = task.launch;
    }
    device.firstThread = uint32_t(places.size());
    prepare(device, *launch);
    for (auto &block : device.blocks) {
      block->device = uint32_t(number), block->sharedBase = sharedSpace + numBlocks * sharedOfBlock;
      places.insert(places.end(), launch->numThreads, ThreadPlace{numBlocks++, uint32_t(number)});
    }
  }
  // Of the host: see serviceThread, hostThread, watchingThread.
  for (size_t number = 0; number < service.numThreads + 2 * queues.size(); ++number)
    places.push_back({numBlocks++, uint32_t(queues.size() + number)});
  memoryThreads = places.size();
  ownMemory = std::make_unique<Memory>(std::move(places));
  for (const Device &device : devices)
    for (const auto &block : device.blocks)
      ownMemory->addRegion(block->sharedBase, sharedOfBlock, nullptr, false);
  std::vector<const Module *> modules;
  for (const auto &queue : queues)
    for (const Task &task : queue)
      if (task.launch && std::ranges::find(modules, task.launch->module) == modules.end()) {
        modules.push_back(task.launch->module);
        executedLines.resize(std::max<size_t>(executedLines.size(), task.launch->module->code.back().line + 2));
        addresses.resize(executedLines.size());
        for (const Module::Table &table : task.launch->module->tables)
          ownMemory->addRegion(uint64_t(reinterpret_cast<uintptr_t>(table.content.get())), table.sizeBytes,
                               table.content.get(), true);
      }
}

Executor::~Executor() = default;

/// Blocks and warps, which all launches of the device use.
void Executor::prepare(Device &device, const Launch &launch) {
  Sizes sizes{};
  std::vector<std::optional<Sizes>> known(launch.module->functions.size());
  sizes = deepestSizes(*launch.module, uint32_t(launch.kernel - launch.module->functions.data()), known);
  for (uint32_t y = 0; y < launch.gridY; ++y)
    for (uint32_t x = 0; x < launch.gridX; ++x) {
      auto &block = device.blocks.emplace_back(std::make_unique<Block>());
      block->x = x, block->y = y, block->numThreads = launch.numThreads, block->gridX = launch.gridX;
      for (uint32_t thread = 0; thread < launch.numThreads; thread += warpThreads) {
        auto &warp = device.warps.emplace_back(std::make_unique<Warp>());
        warp->block = block.get();
        warp->firstThread = device.firstThread + device.numThreads + thread;
        warp->numLanes = std::min<uint32_t>(warpThreads, launch.numThreads - thread);
        warp->preds = zeros<uint32_t>(sizes[size_t(Bank::Pred)]);
        warp->narrow = zeros<Row<uint32_t>>(sizes[size_t(Bank::Narrow)]);
        warp->wide = zeros<Row<uint64_t>>(sizes[size_t(Bank::Wide)]);
        block->warps.push_back(warp.get());
        warps.push_back(warp.get());
      }
      device.numThreads += launch.numThreads;
    }
}

std::vector<uint32_t> Executor::threadsOf(const Device &device) const {
  std::vector<uint32_t> threads;
  for (uint32_t thread = 0; thread < device.numThreads; ++thread)
    threads.push_back(device.firstThread + thread);
  return threads;
}

void Executor::start(Device &device, const Launch &launch) {
  device.launch = &launch, device.numLeft = device.numThreads;
  auto function = uint32_t(launch.kernel - launch.module->functions.data());
  for (auto &block : device.blocks)
    block->barriers = {};
  for (auto &warp : device.warps) {
    warp->alive = warp->runnable = warp->numLanes == warpThreads ? ~uint32_t(0) : (1u << warp->numLanes) - 1;
    warp->sleeping = warp->together = 0;
    warp->pc.fill(launch.kernel->first), warp->function.fill(function);
    warp->depth.fill(0), warp->waitsAt.fill(0), warp->bases.fill({});
    for (uint32_t parameter : launch.kernel->params)
      warp->wide[parameter].fill(launch.argument);
  }
}

/// What the host does comes between all that launches before it and after it do.
void Executor::advance(size_t number) {
  Device &device = devices[number];
  std::vector<uint32_t> threads = threadsOf(device), host = {hostThread(number)};
  if (device.launch) {
    ownMemory->order(threads, host);
    device.launch = nullptr;
  }
  while (device.nextTask < queues[number].size()) {
    const Task &task = queues[number][device.nextTask++];
    if (task.host)
      task.host(*ownMemory, host.front());
    if (!task.launch)
      continue;
    ownMemory->order(host, threads);
    for (uint32_t thread : threads)
      ownMemory->startKernel(thread);
    return start(device, *task.launch);
  }
}

void Executor::run(const Style &style) {
  MemoryStyle memoryStyle = style.memory;
  random = Random(style.seed);
  memoryStyle.seed = random.next();
  ownMemory->reset(memoryStyle);
  counted = {}, now = 0, delayed.clear();
  laggingDevice = random.below(2 * uint32_t(devices.size())); // half of the time, none is
  static constexpr std::array<uint32_t, 4> budgets = {8, 64, 256, 2000};
  mostBudget = budgets[random.below(uint32_t(budgets.size()))];
  for (auto &warp : warps)
    warp->alive = 0, warp->executed.fill(0);
  for (Device &device : devices)
    device.nextTask = 0, device.launch = nullptr, device.numLeft = 0;
  for (size_t number = 0; number < devices.size(); ++number)
    advance(number);
  while (true) {
    for (size_t number = 0; number < devices.size(); ++number)
      if (devices[number].launch && devices[number].numLeft == 0)
        advance(number);
    if (std::ranges::all_of(devices, [](const Device &device) { return !device.launch; }))
      break;
    if (service.serve)
      for (uint32_t times = random.below(8); times > 0; --times)
        service.serve(*ownMemory, serviceThread());
    Warp *warp = pickWarp();
    runWarp(*warp, 1 + random.below(mostBudget));
    if (now > style.mostSteps)
      throw Stuck("no end after " + std::to_string(now) + " instructions of warps");
  }
}

/// One that can go on; time passes where all of them sleep.
Executor::Warp *Executor::pickWarp() {
  auto number = uint32_t(warps.size()), first = random.below(number);
  while (true) {
    uint64_t soonest = UINT64_MAX;
    for (uint32_t i = 0; i < number; ++i) {
      Warp *warp = warps[(first + i) % number];
      if (warp->sleeping && warp->wake <= now)
        warp->runnable |= warp->sleeping, warp->sleeping = 0;
      if (warp->runnable && (warp->block->device != laggingDevice || i + 8 > number || random.isOneOf(8)))
        return warp;
      if (warp->runnable)
        soonest = std::min(soonest, now + 1);
      if (warp->sleeping)
        soonest = std::min(soonest, warp->wake);
    }
    if (soonest == UINT64_MAX)
      throw Stuck("all threads wait at barriers, for each other");
    now = soonest;
  }
}

void Executor::runWarp(Warp &warp, uint32_t budget) {
  while (budget > 0 && warp.runnable) {
    uint32_t done = Execution(*this, warp, pickGroup(warp)).run(budget);
    budget -= done, now += done;
  }
}

/// Threads at the same place. Mostly those that are furthest behind, so that threads which parted come together again.
/// Now and then others, or only a part of them, since nothing promises that they run together.
Executor::Group Executor::pickGroup(Warp &warp) {
  uint32_t among = warp.together & warp.runnable ? warp.together & warp.runnable : warp.runnable;
  auto first = size_t(__builtin_ctz(among));
  size_t leader = first;
  bool isUniform = true;
  forLanes(among, [&](int lane) {
    auto i = size_t(lane);
    isUniform &= warp.pc[i] == warp.pc[first] && warp.bases[i] == warp.bases[first];
    if (warp.depth[i] > warp.depth[leader] || (warp.depth[i] == warp.depth[leader] && warp.pc[i] < warp.pc[leader]))
      leader = i;
  });
  bool isOdd = random.isOneOf(16);
  if (!isUniform && isOdd)
    for (uint32_t skipped = random.below(uint32_t(__builtin_popcount(among))), rest = among; rest; rest &= rest - 1)
      if (skipped-- == 0) {
        leader = size_t(__builtin_ctz(rest));
        break;
      }
  Group group{0, warp.pc[leader], warp.bases[leader]};
  forLanes(warp.runnable, [&](int lane) {
    auto i = size_t(lane);
    group.mask |= uint32_t(warp.pc[i] == group.pc && warp.bases[i] == group.bases) << lane;
  });
  if (isOdd && !(warp.together & group.mask))
    if (auto part = uint32_t(random.next()); (part & group.mask) != 0)
      group.mask &= part;
  return group;
}

Counts Executor::counts() const {
  Counts counts = counted;
  for (const Warp *warp : warps)
    counts.longestThread = std::max(counts.longestThread, *std::ranges::max_element(warp->executed));
  return counts;
}

bool Executor::isExecuted(uint32_t line) const { return line < executedLines.size() && executedLines[line]; }

} // namespace kolo::ptx
