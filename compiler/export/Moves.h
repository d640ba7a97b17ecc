// The moves of a choreography on one mesh, in the chunks of an algorithm of MSCCL. What an export is made of; no MLIR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::msccl {

/// The collectives that have no root: RCCL selects an algorithm without looking at the root of a call.
enum class Collective { AllGather, AllReduce, AllToAll, ReduceScatter };

enum class Memory : uint8_t { Input, Output, Scratch };

/// A chunk of one buffer of a rank. All scratch of a program is one buffer.
struct ChunkId {
  Memory memory = Memory::Input;
  int64_t chunk = 0;
  auto operator<=>(const ChunkId &) const = default;
};

/// Consecutive chunks at both ends.
struct Run {
  ChunkId source, destination;
  int64_t numChunks = 0;
};

/// What one rank sends to another, or moves inside itself, in one execution of a statement. Runs are chunks of the
/// choreography, whose elements lie side by side; all of one move have one length.
struct Move {
  int64_t sender = 0, receiver = 0;
  std::vector<Run> runs;
};

/// One execution of a statement. All its sources are read before any destination is written.
struct Statement {
  std::string line; // "file:line:column" of the author
  bool reduces = false;
  std::vector<Move> moves; // in the order in which a place that several of them reduce into combines them
};

/// All ranks' moves. The statements run one after the other.
struct Moves {
  std::string name;
  std::string line; // of the choreography
  Collective collective = Collective::AllReduce;
  int64_t numRanks = 0;         // numbered as the collective numbers its members
  int64_t chunksPerBlock = 1;   // of a block of the call's count; the same for all buffers
  int64_t numScratchChunks = 0; // per rank
  std::vector<Statement> statements;

  int64_t numInputBlocks() const {
    return collective == Collective::AllToAll || collective == Collective::ReduceScatter ? numRanks : 1;
  }
  int64_t numOutputBlocks() const {
    return collective == Collective::AllToAll || collective == Collective::AllGather ? numRanks : 1;
  }
  int64_t numInputChunks() const { return numInputBlocks() * chunksPerBlock; }
  int64_t numOutputChunks() const { return numOutputBlocks() * chunksPerBlock; }
};

/// A refusal, at the author's line where there is one.
struct Mistake {
  std::string line; // "file:line:column", or empty
  std::string message;
};

/// Where a chunk of a rank lies, by one name even if input and output share memory, as in a call in place.
class Aliasing {
public:
  Aliasing(const Moves &moves, bool isInPlace) : moves(moves), isInPlace(isInPlace) {}
  ChunkId place(int64_t rank, ChunkId place) const;

private:
  const Moves &moves;
  bool isInPlace;
};

/// Whether the moves, run one after the other, give the collective's result. In place, input and output share memory
/// as RCCL defines it. Contents are compared by 64-bit sums of hashes of their contributions.
bool givesResult(const Moves &moves, bool isInPlace);

} // namespace kolo::msccl
