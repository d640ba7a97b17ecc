// A schedule that is right, as one sequence of steps per rank: what a lane of Kolo runs. Thread blocks take turns in an
// order that their own waits allow, so a rank needs no synchronisation inside. No MLIR.
//
// Kolo's chunks may have different sizes where a count does not divide; those of the other libraries are equal. So
// every chunk keeps its number inside of its block, also in scratch memory: each buffer is cut as the caller's are.
#pragma once

#include "compiler/import/Schedule.h"

#include <array>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace kolo::foreign {

struct Taken; // see BlockRun

enum class BufferName : uint8_t { Input, Output, Scratch, Arrived, Work };
inline constexpr size_t numBuffers = 5;

/// Consecutive chunks of one block.
struct SequenceSlice {
  BufferName buffer = BufferName::Input;
  int32_t block = 0, chunk = 0;
  auto operator<=>(const SequenceSlice &) const = default;
};

enum class StepKind : uint8_t { Copy, Reduce, Put, Signal, Wait, Flush, Divide };

struct SequenceStep {
  StepKind kind = StepKind::Flush;
  int32_t line = 0;
  SequenceSlice source, destination; // of a move; of Divide the destination
  int32_t count = 0;                 // chunks
  int32_t peer = -1;                 // of Put, Signal and Wait; of a move that reads another rank's memory; else -1
  int32_t semaphore = 0;
  bool isEntry = false; // a credit: the peer has entered the call
};

struct Sequence {
  std::array<int32_t, numBuffers> numBlocks{}; // 0: there is no such buffer
  int32_t numSemaphores = 0;
  bool mayRunInPlace = false; // as it is, if the input lies inside the output
  std::vector<std::vector<SequenceStep>> ranks;
};

/// `order` is that of Judgement. Refuses schedules that move what nobody wrote, and that combine chunks with different
/// numbers: neither can be part of a result.
std::variant<Sequence, Refusal> makeSequence(const ForeignSchedule &schedule, std::span<const Taken> order);

} // namespace kolo::foreign
