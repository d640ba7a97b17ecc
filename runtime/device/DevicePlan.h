// DevicePlan: a call that this process has resolved, with what its launches need, kept for repetitions.
#pragma once

#include "call/Call.h"
#include "call/CallIdentity.h"
#include "device/DeviceCells.h"
#include "device/DeviceHeap.h"
#include "device/DeviceImages.h"
#include "device/DeviceRanks.h"
#include "kolo/runtime/DeviceAbi.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace kolo::runtime {

using ProgramKey = std::pair<PluginContent, int32_t>; // and the program's number in the plugin

/// Calls with the same counters: of a program, and of one that may cross a network only those with the same peers.
struct CountersKey {
  ProgramKey program;
  std::array<int64_t, KOLO_MAX_MESH_DIMS> mesh = {}; // zeros, as is `root`, of a program of one host
  int64_t root = 0;
  auto operator<=>(const CountersKey &) const = default;
};

/// What calls with one CountersKey have in common, and `calls` also those of other meshes and roots: the counters of
/// KoloDeviceInvocation, which start at zero, and the failure records. Never freed before the communicator.
struct DeviceProgram {
  struct OfRank {
    DeviceMemory sent, awaited;
    DeviceMemory places; // of a program that may cross a network: see KoloDeviceNetworkInvocation
  };
  std::shared_ptr<const PluginState> plugin; // owns `info`
  const ProgramInfo *info = nullptr;
  HeapBlock semaphores;
  std::vector<OfRank> ranks;                              // of this process
  const DeviceCells *cells = nullptr;                     // that other hosts raise; null: none do
  std::shared_ptr<const std::vector<DeviceMemory>> calls; // by rank of this process: see KoloDeviceInvocation
  DeviceMemory failures;                                  // in host memory: [local rank][lane]

  const KoloDeviceFailure *failureOf(size_t local, int lane, int mostLanes) const {
    return static_cast<const KoloDeviceFailure *>(failures.data()) + local * static_cast<size_t>(mostLanes) +
           static_cast<size_t>(lane);
  }
};

/// The tables that kernels read, by device: the invocations of its ranks, and the rows of addresses that these point
/// to.
using DeviceTable = std::vector<DeviceMemory>;

/// Scratch memory and packet buffers. Calls share them only if they have the same program, mesh, count, element size
/// and root. Nothing orders the accesses of two calls on different devices, except the proof that a program is right
/// back to back with itself.
struct DeviceShape {
  size_t number = 0; // equal on all ranks, below mostShapes
  HeapBlock scratch, packets;
  HeapBlock input, output; // staging of its own, if the call must be staged in one piece that has no room elsewhere
  HeapBlock places;        // of the blocks of a rank's input, then of its output: see DevicePlan::sharesPlaces
  HeapBlock inbox;         // of the heap of inboxes
  std::vector<DeviceMemory> packetCalls; // by local rank; see KoloDeviceInvocation
  bool isCaptured = false;               // a graph of this rank may use it at any time
  // Of staged calls, by type and reduction: a table for each turn of the staging memory.
  std::map<std::pair<int32_t, int32_t>, std::array<std::shared_ptr<DeviceTable>, 2>> staged;
};

/// One rank's buffers. A window has another number after it was registered again.
struct LocatedBuffers {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t inputWindow = 0, outputWindow = 0; // numbers; 0: in none
  const BlockTables *blocks = nullptr;
  bool operator==(const LocatedBuffers &other) const {
    return input == other.input && output == other.output && inputWindow == other.inputWindow &&
           outputWindow == other.outputWindow && (blocks ? areEqual(blocks, other.blocks) : !other.blocks);
  }
};

struct DevicePlan {
  DevicePlan(std::shared_ptr<const PluginState> ofPlugin, const CallArguments &arguments,
             std::vector<LocatedBuffers> ofRanks)
      : plugin(std::move(ofPlugin)), request(plugin->load, arguments), buffers(std::move(ofRanks)) {
    for (LocatedBuffers &own : buffers)
      if (own.blocks)
        own.blocks = &blocks.emplace_back(std::make_unique<KeptTables>(*own.blocks))->get();
  }

  /// Pieces of one size.
  struct Pieces {
    int64_t count = 0; // of each
    std::shared_ptr<DeviceShape> shape;
    std::array<std::shared_ptr<DeviceTable>, 2> tables; // by turn; both are the same unless the plan shares its tables
  };

  std::shared_ptr<const PluginState> plugin;
  KeptCall request;                                      // without pointers
  std::vector<LocatedBuffers> buffers;                   // by local rank
  std::vector<std::unique_ptr<const KeptTables>> blocks; // that `buffers` refer to
  bool isCaptured = false;                               // a graph may launch it at any time

  std::vector<Call> calls; // by local rank
  DeviceCallKey key;
  std::vector<std::shared_ptr<const LoadedImage>> images; // by device
  std::shared_ptr<DeviceProgram> program;
  std::vector<DeviceMemory> aside; // by local rank: a copy of the input, if the program cannot run in place

  bool isStaged = false; // input and output are in internal windows, piece by piece
  bool isWhole = false;  // it must run in one piece
  // By role, elements from the begin of the window to the buffer. Nothing: peers access no blocks of a call with tables
  // in windows. Otherwise, before each launch, the stream copies where the blocks are to memory that peers read.
  std::optional<std::array<int64_t, 2>> windowElements;
  Pieces pieces, rest; // rest: the last piece, if it is smaller

  /// Its tables hold a KoloDeviceNetworkInvocation for each rank, instead of a KoloDeviceInvocation.
  bool isForNetwork() const { return inboxBytes() != nullptr; }
  CountersKey countersKey() const {
    const Call &call = calls.front();
    CountersKey counters = {{plugin->content, call.key.program}};
    if (!isForNetwork())
      return counters;
    std::copy_n(call.dimSizes, KOLO_MAX_MESH_DIMS, counters.mesh.begin());
    counters.root = call.root;
    return counters;
  }
  InboxBytes inboxBytes() const { return inboxBytesOf(*images.front()->table, calls.front().key.program); }
  int64_t inboxBytesFor(int64_t count) const {
    const KoloShape shape = calls.front().shapeFor(count);
    return isForNetwork() ? inboxBytes()(&shape) : 0;
  }
  size_t invocationBytes() const {
    return isForNetwork() ? sizeof(KoloDeviceNetworkInvocation) : sizeof(KoloDeviceInvocation);
  }
  bool sharesPlaces() const { return windowElements.has_value(); }
  bool hasBlocks() const { return calls.front().tables != nullptr; } // with tables of their own
  /// Whether its tables are those of all calls of its shape.
  bool sharesTables() const { return isStaged && !hasBlocks(); }
  const KoloDriverKernel &kernelOn(size_t device) const {
    const auto index = static_cast<size_t>(calls.front().key.program);
    return hasBlocks() ? *images[device]->tableKernels[index] : images[device]->kernels[index];
  }
  void *inputOf(size_t local) const { return aside[local].data() ? aside[local].data() : calls[local].input; }
  int64_t numPieces() const {
    int64_t count = calls.front().key.count;
    return count == pieces.count ? 1 : (count + pieces.count - 1) / pieces.count;
  }
  /// Of piece `index`.
  const Pieces &piecesOf(int64_t index) const {
    return (index + 1) * pieces.count <= calls.front().key.count ? pieces : rest;
  }
  /// A graph has recorded a launch.
  void noteCapture() {
    isCaptured = true;
    for (Pieces *each : {&pieces, &rest})
      if (each->shape)
        each->shape->isCaptured = true;
  }
};

/// What a rank has in its KoloDeviceNetworkInvocation beside inboxes.
struct NetworkAddresses {
  uint64_t inboxAgreement = 0, inboxOffset = 0;
  KoloDeviceQueue *queues = nullptr;
  KoloDeviceQueueCounts *queueCounts = nullptr;
};

/// What a table holds apart from the plan: addresses as mapped here, by the place of a rank of this host. Those of a
/// program that may cross a network end in a null, for the ranks of other hosts.
struct TableAddresses {
  std::vector<void *> buffers[KOLO_NUM_BUFFER_ROLES];
  std::vector<void *> semaphores;
  std::vector<void *> inboxes; // of a plan that isForNetwork, as are the next two
  int64_t numHere = 0;         // ranks of this host
  NetworkAddresses network;
  uint64_t *abort = nullptr;
  uint64_t timeoutNs = 1;
  size_t mostLanes = 1; // of any call: failure records of a rank
  int64_t count = 0;
  std::vector<void *> peerPlaces[2]; // of a plan that hasBlocks, by rank: tables of places; null: in the table itself
};

/// Of a plan that shares places: what the stream copies to DeviceShape::places, which has so many bytes.
const void *sharedPlaces(const DevicePlan &plan, const DeviceRanks &ranks);
inline size_t sharedPlacesBytes(const DeviceRanks &ranks) {
  return 2 * static_cast<size_t>(ranks.size) * sizeof(int64_t);
}

/// Writes a table to the devices, over `spare` where that is not null. Blocking, but waits for no launch. OutOfMemory,
/// DeviceError.
Result<std::shared_ptr<DeviceTable>> writeTable(const DevicePlan &plan, const DeviceShape &shape,
                                                const DeviceRanks &ranks, const TableAddresses &addresses,
                                                std::shared_ptr<DeviceTable> spare);

} // namespace kolo::runtime
