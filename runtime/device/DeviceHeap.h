// DeviceHeap: internal windows. All ranks have the same ones, take and give back the same blocks in the same order, and
// so find every block at the same place without asking each other.
#pragma once

#include "device/DevicePeers.h"
#include "device/OpenDevice.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace kolo::runtime {

/// Memory of one size on every rank, mapped here.
struct MappedWindow {
  std::vector<void *> bases; // of the ranks of this host, by place
  std::vector<std::shared_ptr<const DeviceImport>> imports;
  size_t sizeBytes = 0;
};

struct HeapBlock {
  size_t window = 0; // of the heap
  size_t offsetBytes = 0;
  size_t sizeBytes = 0; // 0: no block
};

class DeviceHeap {
public:
  /// Adds a window, whose memory this rank has cleared. `own` by local rank.
  void add(MappedWindow window, std::vector<DeviceMemory> own);
  size_t sizeBytes() const;

  /// One block for each size, or nothing if there is no room for all. A size of 0 gives an empty block.
  std::optional<std::vector<HeapBlock>> take(std::span<const size_t> sizes);
  /// What peers find in the block later must be cleared before they know of it.
  void giveBack(const HeapBlock &block);
  /// The bytes of a window that surely has room for blocks of these sizes.
  static size_t roomFor(std::span<const size_t> sizes);

  /// Whether `take` would give them now.
  bool hasRoomFor(std::span<const size_t> sizes);

  /// Of the rank at this place of the host. Null for an empty block.
  void *at(const HeapBlock &block, size_t place) const;

  /// Unmaps memory of peers. No block can be used any more.
  void unmapPeers();

private:
  struct Window {
    MappedWindow mapped;
    std::vector<DeviceMemory> own;
    std::map<size_t, size_t> free; // size by offset
  };
  std::optional<HeapBlock> takeOne(size_t sizeBytes);

  std::vector<Window> windows;
};

} // namespace kolo::runtime
