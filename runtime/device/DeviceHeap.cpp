#include "device/DeviceHeap.h"

namespace kolo::runtime {
namespace {

constexpr size_t alignment = 512;

size_t aligned(size_t sizeBytes) { return (sizeBytes + alignment - 1) / alignment * alignment; }

} // namespace

void DeviceHeap::add(MappedWindow window, std::vector<DeviceMemory> own) {
  size_t size = window.sizeBytes;
  windows.push_back({std::move(window), std::move(own), {{0, size}}});
}

size_t DeviceHeap::sizeBytes() const {
  size_t sum = 0;
  for (const Window &window : windows)
    sum += window.mapped.sizeBytes;
  return sum;
}

size_t DeviceHeap::roomFor(std::span<const size_t> sizes) {
  size_t sum = 0;
  for (size_t size : sizes)
    sum += aligned(size);
  return sum;
}

std::optional<HeapBlock> DeviceHeap::takeOne(size_t sizeBytes) {
  const size_t needed = aligned(sizeBytes);
  for (size_t index = 0; index < windows.size(); ++index)
    for (auto &[offset, size] : windows[index].free) {
      if (size < needed)
        continue;
      HeapBlock block = {index, offset, needed};
      if (size > needed)
        windows[index].free[offset + needed] = size - needed;
      windows[index].free.erase(block.offsetBytes);
      return block;
    }
  return std::nullopt;
}

std::optional<std::vector<HeapBlock>> DeviceHeap::take(std::span<const size_t> sizes) {
  std::vector<HeapBlock> blocks;
  for (size_t size : sizes) {
    std::optional<HeapBlock> block = size ? takeOne(size) : HeapBlock{};
    if (!block) {
      for (const HeapBlock &taken : blocks)
        giveBack(taken);
      return std::nullopt;
    }
    blocks.push_back(*block);
  }
  return blocks;
}

bool DeviceHeap::hasRoomFor(std::span<const size_t> sizes) {
  std::optional<std::vector<HeapBlock>> blocks = take(sizes);
  for (size_t index = 0; blocks && index < blocks->size(); ++index)
    giveBack((*blocks)[index]);
  return blocks.has_value();
}

void DeviceHeap::giveBack(const HeapBlock &block) {
  if (block.sizeBytes == 0)
    return;
  auto &free = windows[block.window].free;
  auto own = free.emplace(block.offsetBytes, block.sizeBytes).first;
  if (auto next = std::next(own); next != free.end() && own->first + own->second == next->first) {
    own->second += next->second;
    free.erase(next);
  }
  if (own == free.begin())
    return;
  if (auto before = std::prev(own); before->first + before->second == own->first) {
    before->second += own->second;
    free.erase(own);
  }
}

void *DeviceHeap::at(const HeapBlock &block, size_t place) const {
  if (block.sizeBytes == 0)
    return nullptr;
  return static_cast<std::byte *>(windows[block.window].mapped.bases[place]) + block.offsetBytes;
}

void DeviceHeap::unmapPeers() {
  for (Window &window : windows)
    window.mapped = {};
}

} // namespace kolo::runtime
