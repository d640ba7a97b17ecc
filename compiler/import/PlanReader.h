// PlanReader: makes a schedule of a plan of MSCCL++. PlanSchedule.cpp has what reads the plan, PlanOperations.cpp what
// reads one operation.
//
// A thread block of a plan becomes two threads. Its data thread stands for all threads of the block: they move data
// together, an element each. Its control thread stands for the few that signal and wait. Only `nop`, which is
// __syncthreads, and `barrier` order the two, as in the kernel. What goes through a port channel is done by a thread of
// the proxy.
#pragma once

#include "compiler/import/ForeignText.h"
#include "compiler/import/PlanFields.h"
#include "compiler/import/PlanText.h"

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kolo::foreign::plan {

/// A rank's end of a channel: the peer, and how many of that type to this peer come before it.
struct PlanChannel {
  int32_t peer = 0, ordinal = 0;
};

struct RemoteBuffer {
  int32_t rank = 0;
  Memory memory = Memory::Input;
};

/// What a block refers to by small numbers.
struct ThreadBlockTables {
  std::array<std::vector<int32_t>, 2> channels;     // numbers of the rank's channels, by type
  std::array<std::vector<RemoteBuffer>, 2> buffers; // by type
};

class PlanReader {
public:
  PlanReader(const PlanNode &root, const std::string &path) : root(root) { schedule.path = path; }
  ForeignSchedule read();

private:
  // The plan.
  void readHead();
  void readSizes(const PlanNode &gpu, int32_t rank);
  void findPieces();
  void readChannels(const PlanNode &gpu, int32_t rank);
  void readRemoteBuffers(const PlanNode &gpu, int32_t rank);
  void readBlock(const PlanNode &block, int32_t number);
  void countBarriers(const PlanNode &gpu);

  // One operation.
  void readOperation(const PlanNode &op);
  void synchronise(const PlanNode &op, bool isBarrier);
  void signalOrWait(const PlanNode &op, bool isSignal, bool isRelaxed);
  void useSemaphores(const PlanNode &op, bool isRelease);
  void putByPort(const PlanNode &op, bool isPackets, bool signals, bool flushes);
  void readPutByPort(const PlanNode &op);
  void flush(const PlanNode &op);
  void put(const PlanNode &op, bool isPackets, bool readsPackets);
  void get(const PlanNode &op);
  void copy(const PlanNode &op, bool readsPackets, bool writesPackets);
  void reduce(const PlanNode &op, bool isPackets, bool isRemote, size_t numPacketOutputs);
  struct PlanRun {
    ChunkPlace place;
    int32_t count;
  };
  PlanRun run(const PlanNode &op, const PlanNode &buffer, bool isPackets) const;
  PlanRun packetSource(const PlanNode &op, const PlanNode &buffer) const;
  const PlanChannel &channelOf(const PlanNode &op, const PlanNode &id, ChannelType type) const;

  Action &data(const PlanNode &op) { return add(dataThread, op); }
  Action &control(const PlanNode &op) { return add(controlThread, op); }
  Action &add(int32_t thread, const PlanNode &op) {
    Action &action = schedule.threads[size_t(thread)].actions.emplace_back();
    action.line = op.line;
    return action;
  }
  int32_t channelSemaphore(ChannelType type, int32_t sender, int32_t receiver, int32_t ordinal);
  int32_t proxy(const PlanNode &op, const PlanChannel &channel, const PlanNode &id);
  Action &tell(const PlanNode &op, int32_t proxy);
  void checkWaiters() const;

  const PlanNode &root;
  ForeignSchedule schedule;
  int32_t pieces = 1;                                            // of a chunk, for operations that several blocks share
  std::vector<std::array<std::vector<PlanChannel>, 2>> channels; // by rank and type
  std::vector<std::vector<RemoteBuffer>> remoteBuffers;          // by rank
  std::map<std::tuple<ChannelType, int32_t, int32_t, int32_t>, int32_t> channelSemaphores;
  std::map<std::pair<int32_t, int32_t>, int32_t> rankSemaphores; // by rank and number
  std::map<std::pair<int32_t, int32_t>, int32_t> proxies;        // by rank and port channel
  std::map<int32_t, int32_t> blockOfProxy;                       // that tells it, by thread

  // The block that is read.
  int32_t rank = 0, block = 0, dataThread = 0, controlThread = 0;
  ThreadBlockTables tables;
  std::map<int32_t, int32_t> numBarriers;                                 // passed by this block, by number
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> barrierEvents; // of this rank: barrier, turn, block
  std::map<int32_t, std::set<int32_t>> barrierBlocks;                     // of this rank
};

} // namespace kolo::foreign::plan
