// Thread blocks of an MSCCL algorithm, made from moves: who sends, receives and combines what, in which order, and what
// waits for what. No MLIR.
#pragma once

#include "compiler/export/Moves.h"

#include <variant>

namespace kolo::msccl {

// Limits of RCCL's reader and of its kernel.
inline constexpr int64_t maxBlocksPerRank = 64;
inline constexpr int64_t maxStepsPerBlock = 64;
inline constexpr int64_t maxChunksPerStep = 71;
inline constexpr int64_t maxFusedReductions = 16;
inline constexpr int64_t maxChannels = 128;
inline constexpr int64_t maxChunkNumber = 32767; // 16 bits with a sign
inline constexpr int64_t maxNodesPerRank = 4095; // elements of XML that one rank reads

/// Simple and LL128 have read a message when its send is over; LL has not.
enum class Protocol { Simple, LL, LL128 };

struct ScheduleOptions {
  Protocol protocol = Protocol::Simple;
  int64_t lanes = 1; // channels; each moves its part of every chunk
  bool isInPlace = false;
  bool mayReceiveAndReduce = false; // one instruction receives and combines
};

enum class StepKind { Send, Receive, ReceiveReduceCopy, Copy, Reduce, Nop };

struct Step {
  StepKind kind = StepKind::Nop;
  ChunkId source, destination; // of a message: at the sender and at the receiver
  int64_t numChunks = 0;
  int64_t block = -1, step = -1; // this step waits until that step of that block of its rank is complete
  bool hasDependents = false;    // others wait for this step
};

/// Runs its steps in order. At most one block of a rank sends to a peer on a channel, and at most one receives.
struct ThreadBlock {
  int64_t sendPeer = -1, receivePeer = -1, channel = 0;
  std::vector<Step> steps;
};

struct RankBlocks {
  std::vector<ThreadBlock> blocks;
  int64_t numScratchChunks = 0;
};

/// A chunk of the moves is `lanes` chunks here.
struct Blocks {
  std::vector<RankBlocks> ranks;
  int64_t chunksPerBlock = 1, lanes = 1;
};

/// The blocks keep the sequential meaning of the moves. They cannot deadlock, even if a connection holds one message
/// only: there is a total order in which every step comes after all it waits for, and in which every message is
/// received before the next one is sent. Refuses what exceeds a limit.
std::variant<Blocks, Mistake> makeThreadBlocks(const Moves &moves, const ScheduleOptions &options);

} // namespace kolo::msccl
