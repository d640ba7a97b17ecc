// How long the blocks of a call's buffers are, and where they lie.
#include "tools/run/CallBlocks.h"

#include <algorithm>

namespace kolo::tools {

static bool isPerRank(runtime::CollectiveKind collective, BufferSide side) {
  const runtime::CollectiveFacts facts = runtime::factsOf(collective);
  return runtime::isPerRank(side == BufferSide::Input ? facts.input : facts.output);
}

BufferSizes bufferSizes(runtime::CollectiveKind collective, int64_t count, int64_t groupSize) {
  return CallBlocks(collective, groupSize, count).sizes(0);
}

CallBlocks::CallBlocks(runtime::CollectiveKind collective, int64_t groupSize, int64_t each, CountOfBlock tabled)
    : collective(collective), groupSize(groupSize), each(each), tabled(std::move(tabled)) {}

int64_t CallBlocks::numBlocks(BufferSide side) const { return isPerRank(collective, side) ? groupSize : 1; }

int64_t CallBlocks::count(BufferSide side, int64_t member, int64_t block) const {
  return tabled ? tabled(side, member, block) : each;
}

int64_t CallBlocks::place(BufferSide side, int64_t member, int64_t block) const {
  if (!tabled)
    return block * each;
  int64_t place = 0;
  for (int64_t before = 0; before < block; ++before)
    place += count(side, member, before);
  return place;
}

BufferSizes CallBlocks::sizes(int64_t member) const {
  return {place(BufferSide::Input, member, numBlocks(BufferSide::Input)),
          place(BufferSide::Output, member, numBlocks(BufferSide::Output))};
}

int64_t CallBlocks::largestBuffer() const {
  int64_t largest = 0;
  for (int64_t member = 0; member < groupSize; ++member) {
    const BufferSizes own = sizes(member);
    largest = std::max({largest, own.inputElements, own.outputElements});
  }
  return largest;
}

std::vector<int64_t> CallBlocks::all() const {
  std::vector<int64_t> all;
  const BufferSide side = isPerRank(collective, BufferSide::Input) ? BufferSide::Input : BufferSide::Output;
  const bool isPair = isPerRank(collective, BufferSide::Input) && isPerRank(collective, BufferSide::Output);
  for (int64_t member = 0; member < (isPair ? groupSize : 1); ++member)
    for (int64_t block = 0; block < numBlocks(side); ++block)
      all.push_back(count(side, member, block));
  return all;
}

RankTables::RankTables(const CallBlocks &blocks, int64_t member, bool hasInput, bool hasOutput) {
  for (int64_t block = 0; hasInput && block < blocks.numBlocks(BufferSide::Input); ++block)
    input.push_back(blocks.count(BufferSide::Input, member, block));
  for (int64_t block = 0; hasOutput && block < blocks.numBlocks(BufferSide::Output); ++block)
    output.push_back(blocks.count(BufferSide::Output, member, block));
  tables.input.counts = input;
  tables.output.counts = output;
}

} // namespace kolo::tools
