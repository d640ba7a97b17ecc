// How long the blocks of a call's buffers are, and where they lie. Used by Data and by RankMain.
#pragma once

#include "kolo/runtime/Types.h"

#include <functional>
#include <vector>

namespace kolo::tools {

/// Elements of the input and of the output of one rank.
struct BufferSizes {
  int64_t inputElements, outputElements;
};
/// Where all blocks have `count` elements.
BufferSizes bufferSizes(runtime::CollectiveKind collective, int64_t count, int64_t groupSize);

enum class BufferSide : uint8_t { Input, Output };

/// Elements of a block of a member's buffer.
using CountOfBlock = std::function<int64_t(BufferSide side, int64_t member, int64_t block)>;

/// The blocks of all buffers of a call. In each buffer they follow each other. Members are numbers in the group.
class CallBlocks {
public:
  /// `tabled`: of a call with block tables; empty: every block has `each` elements.
  CallBlocks(runtime::CollectiveKind collective, int64_t groupSize, int64_t each, CountOfBlock tabled = {});

  int64_t numBlocks(BufferSide side) const;
  int64_t count(BufferSide side, int64_t member, int64_t block) const;
  /// The first element of a block.
  int64_t place(BufferSide side, int64_t member, int64_t block) const;
  /// At a root, if there is one.
  BufferSizes sizes(int64_t member) const;
  /// Of the largest buffer of any member.
  int64_t largestBuffer() const;
  /// The elements of every block, once where all members have the same table.
  std::vector<int64_t> all() const;

private:
  runtime::CollectiveKind collective;
  int64_t groupSize, each;
  CountOfBlock tabled;
};

/// The tables that a member gives to a call; both are empty where it has no such buffer.
struct RankTables {
  RankTables(const CallBlocks &blocks, int64_t member, bool hasInput, bool hasOutput);
  RankTables(const RankTables &) = delete;
  RankTables &operator=(const RankTables &) = delete;

  std::vector<int64_t> input, output;
  runtime::BlockTables tables; // of these counts
};

} // namespace kolo::tools
