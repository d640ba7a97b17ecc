// All ranks of a mesh, whose kernels run on the host and share the memory of this process.
#pragma once

#include "EmulatedNetwork.h"
#include "Emulator.h"

#include "compiler/lower/PacketFormat.h"
#include "ir/Kolo.h"
#include "ir/reference/Oracle.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace kolo::test {

/// Launches have a multiple of so many threads.
inline constexpr int64_t emulatedGroupSize = 2;

/// A program in channel form, and compiled.
struct EmulatedProgram {
  std::string name;
  PacketFormat format = llPackets; // where there are packets
  std::vector<int64_t> mesh;
  ProgramOp program;
  std::unique_ptr<Emulator> emulator;
};

/// A buffer somewhere in memory, aligned to elements only, with guards around it.
class Guarded {
public:
  Guarded(size_t size, size_t elementBytes, size_t elementsOff)
      : size(size), first(guard + elementsOff * elementBytes) {
    bytes.assign(first + size + guard, reference::poison);
  }
  void *data() { return bytes.data() + first; }
  void fill(const reference::Bytes &content) { std::ranges::copy(content, bytes.begin() + ptrdiff_t(first)); }
  reference::Bytes content() const {
    return {bytes.begin() + ptrdiff_t(first), bytes.begin() + ptrdiff_t(first + size)};
  }
  bool isIntact() const {
    auto isPoison = [](std::byte value) { return value == reference::poison; };
    return std::all_of(bytes.begin(), bytes.begin() + ptrdiff_t(first), isPoison) &&
           std::all_of(bytes.begin() + ptrdiff_t(first + size), bytes.end(), isPoison);
  }

private:
  static constexpr size_t guard = 64;
  size_t size, first;
  std::vector<std::byte> bytes;
};

/// All ranks of a mesh, which share the memory of this process.
class EmulatedRanks {
public:
  EmulatedRanks(EmulatedProgram &program, const LaunchShape &shape) : program(program), shape(shape) {
    call.collective = program.program.getCollective();
    call.meshSizes = program.mesh;
    numRanks = size_t(reference::numRanks(call));
    size_t numCounters = size_t(shape.lanes) * size_t(program.program.getSemaphores()) * numRanks;
    for (auto *table : {&semaphores, &sent, &awaited})
      table->assign(numRanks, std::vector<uint64_t>(numCounters, 0));
    for (auto *table : {&numCalls, &packetCalls})
      table->assign(numRanks, std::vector<uint64_t>(size_t(shape.lanes)));
    for (std::vector<uint64_t> &cells : semaphores)
      peerSemaphores.push_back(cells.data());
    failures.assign(numRanks, std::vector<KoloDeviceFailure>(size_t(shape.lanes)));
  }

  reference::Call call;                   // with block tables, for a program that takes some
  uint64_t timeoutNs = uint64_t(1) << 60; // long enough
  bool isInPlace = false;                 // for collectives whose input is as large as their output
  uint64_t abort = 0;
  std::vector<std::vector<KoloDeviceFailure>> failures;
  size_t numRanks = 0;

  /// Of a program that uses a staged network: has ranks with different numbers be on different hosts.
  void placeOn(std::vector<int> hosts);
  EmulatedNetwork &hosts() { return *network; }

  using TakesPart = std::function<bool(size_t rank)>;
  static bool all(size_t) { return true; }
  /// Several calls one after the other, with other data in the same buffers; a rank waits for nobody between them. Says
  /// what is wrong, or nothing. Ranks for which `takesPart` is false stay away.
  std::string run(int numBackToBack, uint64_t seed, const TakesPart &takesPart = all);
  /// Likewise with this data, and with these outputs by call and rank; no output: it may be anything.
  using Outputs = std::vector<std::optional<reference::Bytes>>;
  std::string run(const std::vector<reference::SimulatedCall> &calls, const std::vector<Outputs> &expected,
                  uint64_t seed);

private:
  /// What is wrong with an output.
  using Check = std::function<std::string(size_t call, size_t rank, const reference::Bytes &output)>;
  std::string runAll(uint64_t seed, const Check &check, const TakesPart &takesPart);
  void place(uint64_t seed);
  KoloDeviceInvocation describe(size_t rank);
  KoloDeviceNetworkInvocation describeAmongHosts(size_t rank);
  void placeBlocks();
  void mapPeers();
  void runRank(size_t rank, const Check &check, std::string &wrong);

  EmulatedProgram &program;
  LaunchShape shape;
  std::vector<reference::SimulatedCall> simulatedCalls; // one per call
  std::vector<Guarded> buffers[KOLO_NUM_BUFFER_ROLES];
  std::vector<void *> addresses[KOLO_NUM_BUFFER_ROLES];
  size_t packetBytes = 0; // of one turn
  std::vector<std::vector<uint64_t>> semaphores, sent, awaited, numCalls, packetCalls;
  std::vector<uint64_t *> peerSemaphores;
  // Of a program that uses a staged network.
  std::unique_ptr<EmulatedNetwork> network;
  std::vector<Guarded> inboxes;                                   // by rank
  size_t inboxBytes = 0;                                          // of each
  std::vector<std::vector<void *>> mapped[KOLO_NUM_BUFFER_ROLES]; // by rank: its peers' buffers
  std::vector<std::vector<void *>> mappedInboxes;
  std::vector<std::vector<uint64_t *>> mappedSemaphores;
  // Of a call with block tables, by role and rank.
  std::vector<std::vector<int64_t>> blockPlaces[2];
  std::vector<const int64_t *> peerPlaces[2];
};

} // namespace kolo::test
