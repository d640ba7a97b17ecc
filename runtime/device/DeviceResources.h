// DeviceResources: internal memory of calls: semaphores per program, scratch memory per shape of a call, and memory
// that stages buffers outside of windows. All ranks take and give back the same blocks, because what decides on that
// follows from what ranks must agree on.
#pragma once

#include "device/DeviceHeap.h"
#include "device/DevicePlan.h"
#include "device/DevicePrograms.h"
#include "device/DeviceRanks.h"
#include "device/DeviceWindows.h"

#include <array>
#include <bitset>
#include <map>
#include <memory>
#include <vector>

namespace kolo::runtime {

class DeviceResources {
public:
  DeviceResources(const DeviceRanks &allRanks, DeviceWindows &allWindows, DevicePrograms &allPrograms)
      : ranks(allRanks), windows(allWindows), programs(allPrograms) {}
  /// With a meeting: makes the first internal window, half of which stages the input and the output of a piece, for two
  /// turns. Collective.
  Status makeStaging();

  /// Gives the plan its program and its shapes. False: there is no room. OutOfMemory, DeviceError: this rank lacks
  /// memory that peers do not need. Without success nothing has changed.
  Result<bool> reserve(DevicePlan &plan);
  /// What a plan needs of the heap that is not there yet.
  struct Need {
    size_t sizeBytes, numShapes;
  };
  Need needOf(const DevicePlan &plan) const;
  /// Whether memory of shapes must be freed before the heap grows.
  bool isFull(const Need &need) const;
  /// Adds an internal window on all ranks, with room for this. Collective.
  Status growFor(const Need &need);

  size_t numShapes() const { return shapes.size(); }
  /// The shapes that graphs of this rank use.
  std::bitset<mostShapes> captured() const;
  /// Clears the memory that it frees, because packet buffers start zeroed.
  Status freeShapes(const std::bitset<mostShapes> &kept);

  /// The bytes of each staging block, and the block of a turn; empty where all ranks are here.
  size_t stagingBytes() const { return stagedInput[0].sizeBytes; }
  const HeapBlock &staging(bool isInput, size_t turn) const { return (isInput ? stagedInput : stagedOutput)[turn]; }
  /// Null for an empty block.
  void *at(const HeapBlock &block, int rank) const { return heap.at(block, rank); }
  /// Unmaps memory of peers. No block can be used any more.
  void unmapPeers() { heap.unmapPeers(); }

private:
  struct ShapeKey {
    ProgramKey program;
    std::array<int64_t, KOLO_MAX_MESH_DIMS> mesh;
    int64_t count, elementBytes, root, numLanes;
    bool hasStaging, sharesPlaces;
    auto operator<=>(const ShapeKey &) const = default;
  };
  ShapeKey shapeKeyOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces) const;
  std::vector<size_t> sizesFor(const DevicePlan &plan) const;
  Status grow(size_t sizeBytes);
  Status fill(DevicePlan &plan, std::span<const HeapBlock> blocks, bool isNewProgram, std::vector<ShapeKey> &newShapes);
  Result<std::shared_ptr<DeviceShape>> makeShape(const DevicePlan &plan, std::span<const HeapBlock> blocks) const;
  Status allocateAside(DevicePlan &plan) const;

  const DeviceRanks &ranks;
  DeviceWindows &windows;
  DevicePrograms &programs;
  DeviceHeap heap;
  HeapBlock stagedInput[2], stagedOutput[2]; // by turn
  std::map<ShapeKey, std::shared_ptr<DeviceShape>> shapes;
};

} // namespace kolo::runtime
