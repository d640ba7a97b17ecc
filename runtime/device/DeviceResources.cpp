// Internal memory of calls: counters per program, scratch memory per shape of a call. All ranks take and give back the
// same blocks, because what decides on that follows from what ranks must agree on.
#include "device/DeviceState.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// Of the heap, as a multiple of DeviceOptions::internalBytes. A single shape may need more, and gets it.
constexpr size_t mostHeap = 64;
constexpr size_t blocksPerShape = 4;

Result<DeviceMemory> allocateCleared(const std::shared_ptr<OpenDevice> &device, size_t sizeBytes) {
  Result<DeviceMemory> memory =
      DeviceMemory::allocate(device, KOLO_MEMORY_PRIVATE, std::max(sizeBytes, sizeof(uint64_t)));
  if (memory.isOk())
    if (Status status = device->clear(memory->data(), memory->sizeBytes()); !status.isOk())
      return status;
  return memory;
}

} // namespace

DeviceState::ShapeKey DeviceState::shapeKeyOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces) const {
  const Call &call = plan.calls.front();
  ShapeKey key = {{plan.plugin->content, call.key.program}, {}, pieces.count, call.elementBytes, call.root, false};
  std::copy_n(call.dimSizes, KOLO_MAX_MESH_DIMS, key.mesh.begin());
  size_t largest = static_cast<size_t>(std::max(call.largest.input, call.largest.output) * call.elementBytes);
  key.hasStaging = plan.isStaged && largest * static_cast<size_t>(pieces.count) > stagedInput[0].sizeBytes;
  return key;
}

/// The blocks that the heap does not have yet: those of the program, if it is new, and of each new shape.
std::vector<size_t> DeviceState::sizesFor(const DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  std::vector<size_t> sizes;
  if (!programs.contains({plan.plugin->content, call.key.program}))
    sizes.push_back(std::max<size_t>(static_cast<size_t>(options.lanes) *
                                         static_cast<size_t>(call.info->numSemaphores) * static_cast<size_t>(numRanks) *
                                         sizeof(uint64_t),
                                     sizeof(uint64_t)));
  for (const DevicePlan::Pieces *pieces : {&plan.pieces, &plan.rest}) {
    ShapeKey key = shapeKeyOf(plan, *pieces);
    if ((pieces == &plan.rest && pieces->count == 0) || shapes.contains(key))
      continue;
    auto stagingFor = [&](int64_t blocks) {
      return key.hasStaging ? static_cast<size_t>(blocks * pieces->count * call.elementBytes) : 0;
    };
    sizes.insert(sizes.end(), {static_cast<size_t>(call.scratchBytesFor(pieces->count)),
                               call.hasPackets ? 2 * static_cast<size_t>(call.packetBytesFor(pieces->count)) : 0,
                               stagingFor(call.largest.input), stagingFor(call.largest.output)});
  }
  return sizes;
}

/// Gives the plan its program and its shapes. False: there is no room. OutOfMemory, DeviceError: this rank lacks memory
/// that peers do not need. Without success nothing has changed.
Result<bool> DeviceState::reserve(DevicePlan &plan) {
  const std::vector<size_t> sizes = sizesFor(plan);
  if (shapes.size() + sizes.size() / blocksPerShape > mostShapes)
    return false;
  std::optional<std::vector<HeapBlock>> blocks = heap.take(sizes);
  if (!blocks)
    return false;
  const bool isNewProgram = sizes.size() % blocksPerShape != 0;
  std::vector<ShapeKey> newShapes;
  Status status = fill(plan, *blocks, isNewProgram, newShapes);
  if (status.isOk())
    return true;
  if (isNewProgram)
    programs.erase({plan.plugin->content, plan.calls.front().key.program});
  for (const ShapeKey &key : newShapes)
    shapes.erase(key);
  for (const HeapBlock &block : *blocks)
    heap.giveBack(block);
  return status;
}

/// `blocks` are those for sizesFor. Adds to newShapes.
Status DeviceState::fill(DevicePlan &plan, std::span<const HeapBlock> blocks, bool isNewProgram,
                         std::vector<ShapeKey> &newShapes) {
  if (Status status = fillProgram(plan, isNewProgram ? blocks.front() : HeapBlock{}); !status.isOk())
    return status;
  blocks = blocks.subspan(isNewProgram ? 1 : 0);
  for (DevicePlan::Pieces *pieces : {&plan.pieces, &plan.rest}) {
    if (pieces == &plan.rest && pieces->count == 0)
      continue;
    const ShapeKey key = shapeKeyOf(plan, *pieces);
    if (!shapes.contains(key)) {
      Result<std::shared_ptr<DeviceShape>> shape = makeShape(plan, blocks.first(blocksPerShape));
      if (!shape.isOk())
        return shape.status();
      shapes.emplace(key, std::move(shape).value());
      newShapes.push_back(key);
      blocks = blocks.subspan(blocksPerShape);
    }
    pieces->shape = shapes.at(key);
  }
  return allocateAside(plan);
}

/// A staged call copies its input anyway, but piece by piece.
Status DeviceState::allocateAside(DevicePlan &plan) const {
  plan.aside.resize(locals.size());
  for (size_t local = 0; local < locals.size(); ++local) {
    const Call &call = plan.calls[local];
    if (!(plan.isStaged ? call.overlap() == Overlap::Other : call.mustCopyInput()))
      continue;
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(devices[locals[local].device], KOLO_MEMORY_SHARED, call.inputBytes);
    if (!memory.isOk())
      return memory.status();
    plan.aside[local] = std::move(memory).value();
  }
  return {};
}

Status DeviceState::fillProgram(DevicePlan &plan, HeapBlock semaphores) {
  const ProgramKey key = {plan.plugin->content, plan.calls.front().key.program};
  if (auto known = programs.find(key); known != programs.end()) {
    plan.program = known->second;
    return {};
  }
  auto made = std::make_shared<DeviceProgram>();
  made->plugin = plan.plugin;
  made->info = plan.calls.front().info;
  made->semaphores = semaphores;
  size_t numFailures = locals.size() * static_cast<size_t>(options.lanes);
  Result<DeviceMemory> failures =
      DeviceMemory::allocate(devices.front(), KOLO_MEMORY_HOST, numFailures * sizeof(KoloDeviceFailure));
  if (!failures.isOk())
    return failures.status();
  made->failures = std::move(failures).value();
  for (const LocalRank &local : locals) {
    DeviceProgram::OfRank &own = made->ranks.emplace_back();
    const size_t ofCalls = static_cast<size_t>(options.lanes) * sizeof(uint64_t);
    for (auto [memory, sizeBytes] :
         {std::pair(&own.sent, semaphores.sizeBytes), {&own.awaited, semaphores.sizeBytes}, {&own.calls, ofCalls}}) {
      Result<DeviceMemory> cleared = allocateCleared(devices[local.device], sizeBytes);
      if (!cleared.isOk())
        return cleared.status();
      *memory = std::move(cleared).value();
    }
  }
  programs.emplace(key, made);
  plan.program = std::move(made);
  return {};
}

Result<std::shared_ptr<DeviceShape>> DeviceState::makeShape(const DevicePlan &plan,
                                                            std::span<const HeapBlock> blocks) const {
  auto isTaken = [&](size_t number) {
    return std::ranges::any_of(shapes, [&](const auto &entry) { return entry.second->number == number; });
  };
  auto made = std::make_shared<DeviceShape>();
  for (made->number = shapes.size(); isTaken(made->number); made->number = (made->number + 1) % mostShapes)
    ;
  made->scratch = blocks[0], made->packets = blocks[1], made->input = blocks[2], made->output = blocks[3];
  for (const LocalRank &local : locals) {
    DeviceMemory &calls = made->packetCalls.emplace_back();
    if (!plan.calls.front().hasPackets)
      continue;
    Result<DeviceMemory> cleared =
        allocateCleared(devices[local.device], static_cast<size_t>(options.lanes) * sizeof(uint64_t));
    if (!cleared.isOk())
      return cleared.status();
    calls = std::move(cleared).value();
  }
  return made;
}

/// Whether memory of shapes must be freed before the heap grows. `numBlocks`: that a new plan needs.
bool DeviceState::isFull(size_t sizeBytes, size_t numBlocks) const {
  if (shapes.size() + numBlocks / blocksPerShape > mostShapes)
    return true;
  return !shapes.empty() && heap.sizeBytes() + sizeBytes > mostHeap * options.internalBytes;
}

/// Frees the memory of all shapes that no graph uses. Collective.
Status DeviceState::drain() {
  Status own = waitForLaunches();
  if (!own.isOk())
    return own;
  std::bitset<mostShapes> kept;
  for (const auto &[key, shape] : shapes)
    kept[shape->number] = shape->isCaptured;
  if (meeting) {
    DeviceRecord &record = meeting->next();
    record.purpose = DevicePurpose::Drain;
    record.captured = kept;
    if (Status status = exchange(record, {}); !status.isOk())
      return status;
    for (int peer = 0; peer < numRanks; ++peer)
      kept |= meeting->heard(peer).captured;
  }
  own = freePlans();
  if (own.isOk())
    own = freeShapes(kept);
  if (!meeting)
    return own;
  DeviceRecord &record = meeting->next();
  record.purpose = DevicePurpose::Drain;
  return exchange(record, own);
}

/// Puts all plans aside, and frees those put aside earlier whose launches are done: their tables serve new plans. Waits
/// for nothing.
void DeviceState::retirePlans() {
  std::erase_if(retired, [&](RetiredPlans &each) {
    bool areDone = std::ranges::all_of(each.launched, [](const auto &event) {
      Result<bool> isDone = event->isDone();
      return isDone.isOk() && *isDone;
    });
    for (const std::unique_ptr<DevicePlan> &plan : each.plans)
      if (areDone)
        keepTables(*plan);
    return areDone;
  });
  RetiredPlans &now = retired.emplace_back();
  for (std::unique_ptr<DevicePlan> &plan : plans)
    (plan->isCaptured ? captured : now.plans).push_back(std::move(plan));
  plans.clear();
  lastPlan = 0;
  for (const LocalRank &local : locals)
    if (local.hasLaunched)
      now.launched.push_back(local.launched); // which no later launch records, then
}

/// Of a plan that ends. To free memory of a device, the driver may wait for the whole device. All tables of one device
/// have one size.
void DeviceState::keepTables(DevicePlan &plan) {
  if (plan.isStaged)
    return; // its shape has them
  for (DevicePlan::Pieces *pieces : {&plan.pieces, &plan.rest})
    for (std::shared_ptr<DeviceTable> &table : pieces->tables)
      if (std::shared_ptr<DeviceTable> last = std::move(table); last && last.use_count() == 1)
        spareTables.push_back(std::move(last));
}

/// Frees the plans that no graph uses. Waits for all launches outside of graphs.
Status DeviceState::freePlans() {
  if (Status status = waitForLaunches(); !status.isOk())
    return status;
  retirePlans();
  retired.clear();
  return {};
}

/// Clears the memory that it frees, because packet buffers start zeroed.
Status DeviceState::freeShapes(const std::bitset<mostShapes> &kept) {
  for (auto entry = shapes.begin(); entry != shapes.end();) {
    const DeviceShape &shape = *entry->second;
    if (kept[shape.number]) {
      ++entry;
      continue;
    }
    for (const HeapBlock *block : {&shape.scratch, &shape.packets, &shape.input, &shape.output}) {
      for (const LocalRank &local : locals)
        if (block->sizeBytes)
          if (Status status = devices[local.device]->clear(heap.at(*block, local.rank), block->sizeBytes);
              !status.isOk())
            return status;
      heap.giveBack(*block);
    }
    entry = shapes.erase(entry);
  }
  return {};
}

} // namespace kolo::runtime
