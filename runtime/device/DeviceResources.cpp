#include "device/DeviceResources.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// Of the heap, as a multiple of DeviceOptions::internalBytes. A single shape may need more, and gets it.
constexpr size_t mostHeap = 64;
constexpr size_t blocksPerShape = 5;

} // namespace

Status DeviceResources::makeStaging() {
  if (Status status = grow(ranks.options.internalBytes); !status.isOk())
    return status;
  const size_t part = ranks.options.internalBytes / 8;
  const size_t sizes[] = {part, part, part, part};
  std::vector<HeapBlock> blocks = heap.take(sizes).value();
  std::copy_n(blocks.begin(), 2, stagedInput);
  std::copy_n(blocks.begin() + 2, 2, stagedOutput);
  return {};
}

Status DeviceResources::grow(size_t sizeBytes) {
  std::vector<DeviceMemory> own;
  std::vector<void *> bases;
  Status status = guarded([&]() -> Status {
    for (const LocalRank &local : ranks.locals) {
      const std::shared_ptr<OpenDevice> &device = ranks.devices[local.device];
      Result<DeviceMemory> memory = DeviceMemory::allocate(device, KOLO_MEMORY_SHARED, sizeBytes);
      if (!memory.isOk())
        return memory.status();
      if (Status cleared = device->clear(memory->data(), sizeBytes); !cleared.isOk())
        return cleared;
      bases.push_back(memory->data());
      own.push_back(std::move(memory).value());
    }
    return {};
  });
  Result<MappedWindow> mapped = windows.mapInternal(bases, sizeBytes, status);
  if (!mapped.isOk())
    return mapped.status();
  heap.add(std::move(mapped).value(), std::move(own));
  return {};
}

bool DeviceResources::isFull(const DevicePlan &plan) const {
  const Need need = needOf(plan);
  const size_t most = mostHeap * ranks.options.internalBytes;
  return !hasRoomFor(need) || (!shapes.empty() && (heap.sizeBytes() + DeviceHeap::roomFor(need.sizes) > most ||
                                                   network.inboxBytes() + DeviceHeap::roomFor(need.inboxSizes) > most));
}

Status DeviceResources::growFor(const DevicePlan &plan) {
  constexpr size_t least = size_t(64) << 10, most = size_t(64) << 20;
  const Need need = needOf(plan);
  if (!heap.hasRoomFor(need.sizes))
    if (Status status = grow(std::max({DeviceHeap::roomFor(need.sizes), least, std::min(heap.sizeBytes(), most)}));
        !status.isOk())
      return status;
  return plan.isForNetwork() ? network.growFor(need.inboxSizes, plan) : Status();
}

DeviceResources::ShapeKey DeviceResources::shapeKeyOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces) const {
  const Call &call = plan.calls.front();
  ShapeKey key = {{plan.plugin->content, call.key.program},
                  {},
                  pieces.count,
                  call.elementBytes,
                  call.root,
                  call.numLanes,
                  false,
                  plan.sharesPlaces()};
  std::copy_n(call.dimSizes, KOLO_MAX_MESH_DIMS, key.mesh.begin());
  size_t largest = static_cast<size_t>(std::max(call.largest.input, call.largest.output) * call.elementBytes);
  key.hasStaging = plan.isStaged && largest * static_cast<size_t>(pieces.count) > stagingBytes();
  return key;
}

DeviceResources::Need DeviceResources::needOf(const DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  Need need;
  need.isNewProgram = !programs.contains(plan);
  if (need.isNewProgram)
    need.sizes.push_back(programs.semaphoreBytes(plan));
  for (const DevicePlan::Pieces *pieces : {&plan.pieces, &plan.rest}) {
    ShapeKey key = shapeKeyOf(plan, *pieces);
    if ((pieces == &plan.rest && pieces->count == 0) || shapes.contains(key))
      continue;
    auto stagingFor = [&](int64_t blocks) {
      return key.hasStaging ? static_cast<size_t>(blocks * pieces->count * call.elementBytes) : 0;
    };
    need.sizes.insert(need.sizes.end(),
                      {static_cast<size_t>(call.scratchBytesFor(pieces->count)),
                       call.hasPackets ? 2 * static_cast<size_t>(call.packetBytesFor(pieces->count)) : 0,
                       stagingFor(call.largest.input), stagingFor(call.largest.output),
                       plan.sharesPlaces() ? sharedPlacesBytes(ranks) : 0});
    need.inboxSizes.push_back(static_cast<size_t>(plan.inboxBytesFor(pieces->count)));
  }
  return need;
}

/// Nothing: some of it has no room.
std::optional<DeviceResources::TakenBlocks> DeviceResources::take(const Need &need) {
  std::optional<std::vector<HeapBlock>> blocks = heap.take(need.sizes);
  if (!blocks)
    return std::nullopt;
  TakenBlocks taken = {std::move(*blocks), {}};
  std::optional<std::vector<HeapBlock>> inboxes = network.takeInboxes(need.inboxSizes);
  if (!inboxes) {
    giveBack(taken);
    return std::nullopt;
  }
  taken.inboxes = std::move(*inboxes);
  return taken;
}

void DeviceResources::giveBack(const TakenBlocks &taken) {
  for (const HeapBlock &block : taken.blocks)
    heap.giveBack(block);
  for (const HeapBlock &inbox : taken.inboxes)
    network.giveBack(inbox);
}

Result<bool> DeviceResources::reserve(DevicePlan &plan) {
  const Need need = needOf(plan);
  std::optional<TakenBlocks> taken = hasRoomFor(need) && network.hasCellsFor(plan) ? take(need) : std::nullopt;
  if (!taken)
    return false;
  std::vector<ShapeKey> newShapes;
  Status status = fill(plan, need, *taken, newShapes);
  if (status.isOk())
    return true;
  if (need.isNewProgram)
    programs.forget(plan);
  for (const ShapeKey &key : newShapes)
    shapes.erase(key);
  giveBack(*taken);
  return status;
}

/// Adds to newShapes.
Status DeviceResources::fill(DevicePlan &plan, const Need &need, const TakenBlocks &taken,
                             std::vector<ShapeKey> &newShapes) {
  std::span<const HeapBlock> blocks = taken.blocks;
  if (Status status = programs.give(plan, need.isNewProgram ? blocks.front() : HeapBlock{}, network.cellsOf(plan));
      !status.isOk())
    return status;
  blocks = blocks.subspan(need.isNewProgram ? 1 : 0);
  for (DevicePlan::Pieces *pieces : {&plan.pieces, &plan.rest}) {
    if (pieces == &plan.rest && pieces->count == 0)
      continue;
    const ShapeKey key = shapeKeyOf(plan, *pieces);
    if (!shapes.contains(key)) {
      Result<std::shared_ptr<DeviceShape>> shape = makeShape(plan, blocks.first(blocksPerShape));
      if (!shape.isOk())
        return shape.status();
      (*shape)->inbox = taken.inboxes[newShapes.size()];
      shapes.emplace(key, std::move(shape).value());
      newShapes.push_back(key);
      blocks = blocks.subspan(blocksPerShape);
    }
    pieces->shape = shapes.at(key);
  }
  return allocateAside(plan);
}

/// A staged call copies its input anyway, but piece by piece.
Status DeviceResources::allocateAside(DevicePlan &plan) const {
  plan.aside.resize(ranks.locals.size());
  for (size_t local = 0; local < ranks.locals.size(); ++local) {
    const Call &call = plan.calls[local];
    if (!(plan.isStaged ? call.overlap() == Overlap::Other : call.mustCopyInput()))
      continue;
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(ranks.devices[ranks.locals[local].device], KOLO_MEMORY_SHARED, call.inputBytes);
    if (!memory.isOk())
      return memory.status();
    plan.aside[local] = std::move(memory).value();
  }
  return {};
}

Result<std::shared_ptr<DeviceShape>> DeviceResources::makeShape(const DevicePlan &plan,
                                                                std::span<const HeapBlock> blocks) const {
  auto isTaken = [&](size_t number) {
    return std::ranges::any_of(shapes, [&](const auto &entry) { return entry.second->number == number; });
  };
  auto made = std::make_shared<DeviceShape>();
  for (made->number = shapes.size(); isTaken(made->number); made->number = (made->number + 1) % mostShapes)
    ;
  made->scratch = blocks[0], made->packets = blocks[1], made->input = blocks[2], made->output = blocks[3];
  made->places = blocks[4];
  for (const LocalRank &local : ranks.locals) {
    DeviceMemory &calls = made->packetCalls.emplace_back();
    if (!plan.calls.front().hasPackets)
      continue;
    Result<DeviceMemory> cleared =
        allocateCleared(ranks.devices[local.device], static_cast<size_t>(ranks.mostLanes()) * sizeof(uint64_t));
    if (!cleared.isOk())
      return cleared.status();
    calls = std::move(cleared).value();
  }
  return made;
}

std::bitset<mostShapes> DeviceResources::captured() const {
  std::bitset<mostShapes> used;
  for (const auto &[key, shape] : shapes)
    used[shape->number] = shape->isCaptured;
  return used;
}

Status DeviceResources::freeShapes(const std::bitset<mostShapes> &kept) {
  for (auto entry = shapes.begin(); entry != shapes.end();) {
    const DeviceShape &shape = *entry->second;
    if (kept[shape.number]) {
      ++entry;
      continue;
    }
    for (const HeapBlock *block : {&shape.scratch, &shape.packets, &shape.input, &shape.output, &shape.places}) {
      for (const LocalRank &local : ranks.locals)
        if (block->sizeBytes)
          if (Status status =
                  ranks.devices[local.device]->clear(heap.at(*block, ranks.placeHere(local.rank)), block->sizeBytes);
              !status.isOk())
            return status;
      heap.giveBack(*block);
    }
    network.giveBack(shape.inbox);
    entry = shapes.erase(entry);
  }
  return {};
}

} // namespace kolo::runtime
