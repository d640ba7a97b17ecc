// Board: memory that the ranks of one system share: the barrier, the command, the times. Every system is measured on
// it, so that none pays for its own barrier.
#pragma once

#include "kolo/runtime/PluginAbi.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace kolo::bench {

inline constexpr int maxRanks = 16;
inline constexpr int64_t maxIterations = 100'000;

/// Ends the measurement of a system. The text is what the driver reports.
class Failure : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Those that are compared, by the C ABI's numbers and names.
enum class Collective : uint8_t {
  AllReduce = KOLO_ALL_REDUCE,
  AllGather = KOLO_ALL_GATHER,
  ReduceScatter = KOLO_REDUCE_SCATTER,
  AllToAll = KOLO_ALL_TO_ALL,
  Broadcast = KOLO_BROADCAST,
};

/// Of a call whose blocks have counts of their own: all equal; random; by Zipf's law with the exponent 1.2; or one
/// block that has all. By Zipf's law, the same blocks are large for all ranks. None: the call without tables.
enum class Distribution : uint8_t { None, Equal, Random, Zipf, OneHot };

/// What rank 0 was told to do, for all ranks to read.
struct Command {
  bool isLast = false;
  Collective collective = Collective::AllReduce;
  Distribution distribution = Distribution::None;
  int64_t sizeBytes = 0;    // of the whole vector
  double budgetSeconds = 0; // that the timed iterations should take
  char plugin[1024] = {};   // of programs that take one
};

/// When one rank entered and left one operation, by CLOCK_MONOTONIC.
struct Interval {
  int64_t startNs;
  int64_t endNs;
};

struct BoardMemory {
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> phase;
  alignas(64) std::atomic<uint32_t> numCommands;
  alignas(64) std::atomic<uint32_t> isFailing; // somebody writes the failure
  std::atomic<uint32_t> hasFailed;             // it is written
  std::atomic<uint32_t> isReported;            // rank 0 has told the driver of the failure
  char failure[1024];
  alignas(64) Command command;
  int64_t numIterations; // written by rank 0 before a barrier, read after it
  int32_t pids[maxRanks];
  alignas(64) Interval intervals[maxRanks][maxIterations];
};

class Board {
public:
  Board(BoardMemory *shared, int rankNumber, int numberOfRanks);

  /// Waits for all ranks: spinning where each has a core, else giving way at once. Throws Failure once any rank failed.
  void barrier();

  /// Rank 0: hands the command to the others.
  void post(const Command &command);
  /// The others: the next command. Sleeps in between, so that a system that is not being measured uses no processor.
  Command await();

  /// Records a failure, the first of all ranks only.
  void fail(const std::string &reason);

  BoardMemory &memory() { return *shared; }
  int rank() const { return ownRank; }
  int numRanks() const { return size; }

private:
  BoardMemory *shared;
  int ownRank;
  int size;
  bool isOversubscribed;
  uint32_t numCommandsSeen = 0;
};

/// A descriptor of memory for one board, zeroed; -1 when the system refuses. The memory ends with its last mapping.
int createBoardFile();
/// The same as a file, for ranks that see no common process; -1 when the system refuses. New files are zeroed.
int openBoardFile(const std::string &path);
/// Null when the system refuses.
BoardMemory *mapBoard(int fd);

/// Keeps the calling thread on the rank's processor, counted among those that it may use.
void pinToCore(int rank);
/// Processors that this process may use; counted once, before anything was pinned.
int numCores();

} // namespace kolo::bench
