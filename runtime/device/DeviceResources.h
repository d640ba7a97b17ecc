// DeviceResources: internal memory of calls: semaphores per program, scratch memory and an inbox per shape of a call,
// and memory that stages buffers outside of windows. All ranks take and give back the same blocks, because what decides
// on that follows from what ranks must agree on.
#pragma once

#include "device/DeviceHeap.h"
#include "device/DeviceNetwork.h"
#include "device/DevicePlan.h"
#include "device/DevicePrograms.h"
#include "device/DeviceRanks.h"
#include "device/DeviceWindows.h"

#include <array>
#include <bitset>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace kolo::runtime {

class DeviceResources {
public:
  DeviceResources(const DeviceRanks &allRanks, DeviceWindows &allWindows, DevicePrograms &allPrograms,
                  DeviceNetwork &ofHosts)
      : ranks(allRanks), windows(allWindows), programs(allPrograms), network(ofHosts) {}
  /// With a meeting: makes the first internal window, half of which stages the input and the output of a piece, for two
  /// turns. Collective.
  Status makeStaging();

  /// Gives the plan its program and its shapes. False: there is no room. OutOfMemory, DeviceError: this rank lacks
  /// memory that peers do not need. Without success nothing has changed.
  Result<bool> reserve(DevicePlan &plan);
  /// Whether memory of shapes must be freed before there is more for this plan.
  bool isFull(const DevicePlan &plan) const;
  /// Adds what the plan lacks, on all ranks. Collective.
  Status growFor(const DevicePlan &plan);

  size_t numShapes() const { return shapes.size(); }
  /// The shapes that graphs of this rank use.
  std::bitset<mostShapes> captured() const;
  /// Clears the memory that it frees, because packet buffers start zeroed.
  Status freeShapes(const std::bitset<mostShapes> &kept);

  /// The bytes of each staging block, and the block of a turn; empty where all ranks are here.
  size_t stagingBytes() const { return stagedInput[0].sizeBytes; }
  const HeapBlock &staging(bool isInput, size_t turn) const { return (isInput ? stagedInput : stagedOutput)[turn]; }
  /// Of the rank at this place of the host. Null for an empty block.
  void *at(const HeapBlock &block, size_t place) const { return heap.at(block, place); }
  const DeviceNetwork &hostNetwork() const { return network; }
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
  /// What a plan needs that is not there yet: the blocks of its program, if that is new, and of each new shape.
  struct Need {
    bool isNewProgram = false;
    std::vector<size_t> sizes;      // of the heap
    std::vector<size_t> inboxSizes; // of the heap of inboxes: one for each new shape
  };
  /// The same as blocks.
  struct TakenBlocks {
    std::vector<HeapBlock> blocks, inboxes;
  };
  Need needOf(const DevicePlan &plan) const;
  bool hasRoomFor(const Need &need) const { return shapes.size() + need.inboxSizes.size() <= mostShapes; }
  std::optional<TakenBlocks> take(const Need &need);
  void giveBack(const TakenBlocks &taken);
  Status grow(size_t sizeBytes);
  Status fill(DevicePlan &plan, const Need &need, const TakenBlocks &taken, std::vector<ShapeKey> &newShapes);
  Result<std::shared_ptr<DeviceShape>> makeShape(const DevicePlan &plan, std::span<const HeapBlock> blocks) const;
  Status allocateAside(DevicePlan &plan) const;

  const DeviceRanks &ranks;
  DeviceWindows &windows;
  DevicePrograms &programs;
  DeviceNetwork &network;
  DeviceHeap heap;
  HeapBlock stagedInput[2], stagedOutput[2]; // by turn
  std::map<ShapeKey, std::shared_ptr<DeviceShape>> shapes;
};

} // namespace kolo::runtime
