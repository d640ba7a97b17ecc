// The blocks of calls that `kolo run` makes, and the check of their data.
#include "tools/run/Data.h"

#include <gtest/gtest.h>

using namespace kolo::tools;
using kolo::runtime::CollectiveKind;

namespace {

/// Member g gives member t g + 2 t elements, or of one block each as many as member m has: 3 m.
CallBlocks blocksOf(CollectiveKind kind) {
  return {kind, 3, 3, [kind](BufferSide side, int64_t member, int64_t block) {
            if (kind == CollectiveKind::AllToAll)
              return side == BufferSide::Input ? member + 2 * block : block + 2 * member;
            const bool isOfMember = (kind == CollectiveKind::AllGather) == (side == BufferSide::Input);
            return 3 * (isOfMember ? member : block);
          }};
}

class TabledData : public testing::TestWithParam<CollectiveKind> {
protected:
  /// What is wrong with a rank's output if a byte of it is.
  std::optional<std::string> checkWith(std::optional<int64_t> wrongByte) {
    const CollectiveKind kind = GetParam();
    auto mesh = kolo::runtime::Mesh::create({{"rank", 3}});
    const TaggedData data(kind, {0}, *mesh, kolo::runtime::DataType::U8, kolo::runtime::Reduction::Sum);
    const CallBlocks blocks = blocksOf(kind);
    std::vector<std::vector<uint8_t>> inputs;
    for (int rank = 0; rank < 3; ++rank) {
      inputs.emplace_back(size_t(blocks.sizes(rank).inputElements));
      data.fillInput(rank, blocks, inputs.back().data());
    }
    std::vector<uint8_t> output;
    constexpr int64_t self = 2;
    for (int64_t block = 0; block < blocks.numBlocks(BufferSide::Output); ++block)
      for (int64_t i = 0; i < blocks.count(BufferSide::Output, self, block); ++i)
        output.push_back(valueOf(kind, blocks, inputs, block, self, i));
    if (wrongByte)
      output.at(size_t(*wrongByte)) ^= 1;
    return data.check(self, 0, blocks, output.data());
  }

private:
  static uint8_t valueOf(CollectiveKind kind, const CallBlocks &blocks, const std::vector<std::vector<uint8_t>> &inputs,
                         int64_t block, int64_t self, int64_t i) {
    if (kind == CollectiveKind::AllGather)
      return inputs[size_t(block)][size_t(i)];
    auto at = [&](int64_t giver) {
      int64_t place = 0;
      for (int64_t before = 0; before < self; ++before)
        place += blocks.count(BufferSide::Input, giver, before);
      return inputs[size_t(giver)][size_t(place + i)];
    };
    return kind == CollectiveKind::AllToAll ? at(block) : uint8_t(at(0) + at(1) + at(2));
  }
};

} // namespace

TEST(CallBlocks, FollowEachOther) {
  const CallBlocks blocks = blocksOf(CollectiveKind::AllToAll);
  EXPECT_EQ(blocks.place(BufferSide::Input, 1, 2), 1 + 3);
  EXPECT_EQ(blocks.sizes(1).inputElements, 1 + 3 + 5);
  EXPECT_EQ(blocks.sizes(1).outputElements, 2 + 3 + 4);
  EXPECT_EQ(blocks.largestBuffer(), 4 + 5 + 6);
  EXPECT_EQ(blocks.all(), (std::vector<int64_t>{0, 2, 4, 1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(blocksOf(CollectiveKind::ReduceScatter).all(), (std::vector<int64_t>{0, 3, 6}));
  const CallBlocks equal(CollectiveKind::AllGather, 3, 5);
  EXPECT_EQ(equal.place(BufferSide::Output, 1, 2), 10);
  EXPECT_EQ(equal.sizes(0).inputElements, 5);
  EXPECT_EQ(equal.sizes(0).outputElements, 15);
}

TEST_P(TabledData, IsRightWhereEveryByteIs) {
  EXPECT_EQ(checkWith(std::nullopt), std::nullopt);
  const int64_t last = blocksOf(GetParam()).sizes(2).outputElements - 1;
  for (int64_t wrong : {int64_t(0), last / 2, last})
    EXPECT_EQ(checkWith(wrong), "rank 2: element " + std::to_string(wrong) + " of the output is wrong");
}

INSTANTIATE_TEST_SUITE_P(Collectives, TabledData,
                         testing::Values(CollectiveKind::AllGather, CollectiveKind::AllToAll,
                                         CollectiveKind::ReduceScatter),
                         [](const auto &info) { return std::string(kolo::runtime::toString(info.param)); });
