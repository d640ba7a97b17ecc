// Chunk boundaries and wrapping slices.
#include "ir/reference/Layout.h"

#include <gtest/gtest.h>

using namespace kolo::reference;
using Numbers = std::vector<int64_t>;

TEST(Layout, ChunksCoverABlockInOrderWithoutGapsAndStartAtMultiplesOf16Bytes) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t count : {0, 1, 5, 17, 100, 1000})
      for (int64_t numChunks : {1, 2, 3, 7, 64}) {
        int64_t end = 0;
        for (int64_t chunk = 0; chunk < numChunks; ++chunk) {
          int64_t begin = cut(chunk, numChunks, count, bytes);
          EXPECT_EQ(begin, end);
          EXPECT_EQ(begin * bytes % 16, 0);
          end = cut(chunk + 1, numChunks, count, bytes);
          EXPECT_GE(end, begin);
        }
        EXPECT_EQ(end, count);
      }
}

TEST(Layout, CountsAsLargeAsTheyComeDoNotOverflow) {
  int64_t count = INT64_MAX;
  EXPECT_EQ(cut(3, 4, count, 1), 6917529027641081840);
  EXPECT_EQ(cut(4, 4, count, 1), count);
}

TEST(Layout, BlocksComeFirstAndAreCutEachByItself) {
  Layout layout{{2, 3}, 1, 17, 4};
  EXPECT_EQ(layout.numElements(), 34);
  EXPECT_EQ(layout.chunk(0), (Range{0, 4}));
  EXPECT_EQ(layout.chunk(1), (Range{4, 4}));
  EXPECT_EQ(layout.chunk(2), (Range{8, 9}));
  EXPECT_EQ(layout.chunk(3), (Range{17, 4}));
  EXPECT_EQ(layout.chunk(5), (Range{25, 9}));
}

TEST(Layout, PartsOfAChunkAreCutLikeChunks) {
  EXPECT_EQ(partOf({17, 9}, 0, 2, 4), (Range{17, 4}));
  EXPECT_EQ(partOf({17, 9}, 1, 2, 4), (Range{21, 5}));
  EXPECT_EQ(partOf({17, 0}, 1, 2, 4), (Range{17, 0}));
}

TEST(Layout, SlicesWrapInEveryDimensionAndListChunksRowMajor) {
  Layout layout{{3, 4}, 2, 1, 4};
  EXPECT_EQ(layout.chunksOf({2, 3}, {2, 2}), (Numbers{11, 8, 3, 0}));
  EXPECT_EQ(layout.chunksOf({-1, -5}, {1, 4}), (Numbers{11, 8, 9, 10}));
  EXPECT_EQ(layout.chunksOf({0, 0}, {0, 4}), Numbers{});
  EXPECT_EQ((Layout{{}, 0, 5, 4}.chunksOf({}, {})), Numbers{0});
  EXPECT_EQ((Layout{{0}, 0, 5, 4}.chunksOf({3}, {0})), Numbers{});
}
