// A schedule of another library, as its interpreter runs it: thread blocks that move chunks, and what orders them. All
// formats become this; the run of blocks and the channel form are made from it. No MLIR.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::foreign {

/// What the file gives and Kolo has, too.
enum class Collective : uint8_t { AllGather, AllReduce, AllToAll, ReduceScatter };

enum class Memory : uint8_t { Input, Output, Scratch };

/// The first chunk of a run of consecutive ones.
struct ChunkPlace {
  int32_t rank = 0;
  Memory memory = Memory::Input;
  int32_t chunk = 0;
  bool isPackets = false; // data with the number of its call: a read waits for it, and then knows what its writer knew
  bool operator==(const ChunkPlace &) const = default;
  auto operator<=>(const ChunkPlace &) const = default;
};

/// That a proxy's thread has done so many of its actions of this call.
struct ProxyProgress {
  int32_t thread = 0, numActions = 0;
};

/// What a thread does at once. First it waits for `waits`, acquires, and takes a message and the packets among the
/// sources. It combines all these values, writes them to every destination and sends them. Last it signals and raises.
struct Action {
  int32_t line = 0;  // of the file
  int32_t count = 0; // chunks of the message, and of every place
  std::vector<ChunkPlace> sources, destinations;
  int32_t receives = -1, sends = -1;  // connections
  std::vector<int32_t> waits;         // events
  std::vector<int32_t> raises;        // events
  std::vector<int32_t> acquires;      // semaphores: each takes one signal
  std::vector<int32_t> signals;       // semaphores: each adds one
  std::vector<ProxyProgress> flushes; // waited for, too
  bool copiesPackets = false;         // the packets that lie in the sources, of whatever call, without waiting for them
  bool isRelaxed = false;             // signals and acquires order only what was over before the call
  bool mayStillRead = false;          // when it raises: the sources are read at the latest when the thread goes on
  bool isMove() const { return count > 0; }
};

/// Actions of one thread follow each other. Threads of a rank begin a call when all of them have ended the one before.
/// A proxy's thread is none of them: a call can end before it has done what it was told.
struct Thread {
  int32_t rank = 0;
  std::string name; // "thread block 3"
  int32_t line = 0;
  std::vector<Action> actions;
  bool isProxy = false;
};

/// Messages from one rank to another, in order. One thread sends, one receives.
struct BlockConnection {
  int32_t sender = 0, receiver = 0, channel = 0;
};

/// A counter that keeps its value from one call to the next.
struct PlanSemaphore {
  std::string name; // "memory channel 2 from rank 1"
  int32_t rank = 0; // that waits for it
  int32_t initial = 0;
};

/// Of connections.
struct Messages {
  int32_t slots = 0;            // that a connection holds; 0: any number
  int32_t chunksPerMessage = 1; // at least: a step of more chunks is several messages
  int64_t bytes = 0;            // that one holds
  std::string protocol;         // "Simple", "LL", "LL128"
};

struct ForeignSchedule {
  std::string path, name;
  std::string interpreter; // "RCCL", "MSCCL++"
  Collective collective = Collective::AllReduce;
  int32_t numRanks = 0;
  int32_t chunksPerBlock = 1; // of a block of the call's count
  int32_t pieces = 1;         // a chunk of the file is so many of these chunks
  bool runsInPlace = false, runsOutOfPlace = true;
  bool hasTwoPacketBuffers = false; // packets go to two scratch buffers in turn, a call each
  Messages messages;
  int32_t line = 0;                   // of the head
  std::vector<int32_t> scratchChunks; // by rank
  std::vector<Thread> threads;
  std::vector<BlockConnection> connections;
  std::vector<PlanSemaphore> semaphores;
  int32_t numEvents = 0;          // each concerns one rank, and is raised once in a call
  std::vector<std::string> notes; // what the reader took for granted; one line each

  int32_t numInputBlocks() const {
    return collective == Collective::AllToAll || collective == Collective::ReduceScatter ? numRanks : 1;
  }
  int32_t numOutputBlocks() const {
    return collective == Collective::AllToAll || collective == Collective::AllGather ? numRanks : 1;
  }
  int32_t numChunks(int32_t rank, Memory memory) const {
    switch (memory) {
    case Memory::Input:
      return numInputBlocks() * chunksPerBlock;
    case Memory::Output:
      return numOutputBlocks() * chunksPerBlock;
    case Memory::Scratch:
      return scratchChunks[size_t(rank)];
    }
    return 0;
  }
};

/// One name for memory that input and output share in a call in place, as NCCL defines it.
ChunkPlace resolve(const ForeignSchedule &schedule, bool isInPlace, ChunkPlace place);

/// "chunk 3 of the output of rank 2", by the numbers of the file.
std::string describe(const ForeignSchedule &schedule, const ChunkPlace &place);

/// Why a file is refused, at a line of it; 0: the file as a whole.
struct Refusal {
  int32_t line = 0;
  std::string message;
};

} // namespace kolo::foreign
