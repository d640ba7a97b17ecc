// Chunk boundaries and wrapping slices.
#include "ir/reference/Layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace kolo::reference;
using BlockNumbers = std::vector<int64_t>;

TEST(Layout, ChunksCoverABlockInOrderWithoutGapsAndStartAtMultiplesOf16Bytes) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t count : {0, 1, 5, 17, 100, 1000})
      for (int64_t numChunks : {1, 2, 3, 7, 64}) {
        int64_t end = 0;
        for (int64_t chunk = 0; chunk < numChunks; ++chunk) {
          int64_t begin = cut(chunk, numChunks, count, 16 / bytes);
          EXPECT_EQ(begin, end);
          EXPECT_EQ(begin * bytes % 16, 0);
          end = cut(chunk + 1, numChunks, count, 16 / bytes);
          EXPECT_GE(end, begin);
        }
        EXPECT_EQ(end, count);
      }
}

TEST(Layout, CountsAsLargeAsTheyComeDoNotOverflow) {
  int64_t count = INT64_MAX;
  EXPECT_EQ(cut(3, 4, count, 16), 6917529027641081840);
  EXPECT_EQ(cut(4, 4, count, 16), count);
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

TEST(Layout, PartsOfAChunkAreCutLikeChunksOfASlot) {
  EXPECT_EQ(partOf({17, 9}, 12, 0, 2, 4), (Range{17, 4}));
  EXPECT_EQ(partOf({17, 9}, 12, 1, 2, 4), (Range{21, 5}));
  EXPECT_EQ(partOf({17, 3}, 12, 0, 2, 4), (Range{17, 3}));
  EXPECT_EQ(partOf({17, 3}, 12, 1, 2, 4), (Range{20, 0}));
  EXPECT_EQ(partOf({17, 0}, 12, 1, 2, 4), (Range{17, 0}));
}

TEST(Layout, NoChunkIsLargerThanItsSlotAndNoSmallerSlotWouldDo) {
  for (int64_t bytes : {1, 2, 4, 8}) {
    int64_t alignment = 16 / bytes;
    std::map<int64_t, int64_t> largest; // chunk in slots of this size
    for (int64_t numChunks = 1; numChunks <= 40; ++numChunks)
      for (int64_t count = 0; count <= 400; ++count) {
        int64_t size = slotSize(numChunks, count, 16 / bytes);
        EXPECT_EQ(size % alignment, 0);
        for (int64_t chunk = 0; chunk < numChunks; ++chunk) {
          int64_t length = cut(chunk + 1, numChunks, count, 16 / bytes) - cut(chunk, numChunks, count, 16 / bytes);
          EXPECT_LE(length, size) << "chunk " << chunk << " of " << numChunks << " of " << count;
          largest[size] = std::max(largest[size], length);
        }
      }
    for (auto [size, length] : largest)
      if (size < 10 * alignment) // larger ones are not tried with enough counts
        EXPECT_GT(length, size - alignment) << "in slots of " << size << " elements of " << bytes << " bytes";
  }
}

TEST(Layout, PartsCoverEveryChunkAndPartsOfDifferentNumbersLieApartInAllChunksOfABlock) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t numChunks : {1, 2, 3, 7})
      for (int64_t numParts : {1, 2, 3, 5})
        for (int64_t count = 0; count <= 250; ++count) {
          Layout block{{numChunks}, 0, count, 16 / bytes};
          std::vector<Range> reach(size_t(numParts), Range{INT64_MAX, 0}); // of a part in any chunk; size is the end
          for (int64_t number = 0; number < numChunks; ++number) {
            Range chunk = block.chunk(number);
            int64_t end = chunk.begin;
            for (int64_t part = 0; part < numParts; ++part) {
              Range elements = partOf(chunk, block.slotSize(), part, numParts, 16 / bytes);
              EXPECT_EQ(elements.begin, end);
              end += elements.size;
              if (elements.size == 0)
                continue;
              Range &all = reach[size_t(part)];
              all.begin = std::min(all.begin, elements.begin - chunk.begin);
              all.size = std::max(all.size, end - chunk.begin);
            }
            EXPECT_EQ(end, chunk.begin + chunk.size);
          }
          for (size_t part = 1; part < reach.size(); ++part)
            EXPECT_TRUE(reach[part].size == 0 || reach[part - 1].size <= reach[part].begin)
                << count << " elements of " << bytes << " bytes in " << numChunks << " chunks of " << numParts
                << " parts";
        }
}

TEST(Layout, SlotsFollowEachOtherAtOneDistanceWhateverTheirNumber) {
  Layout slots{{2, 3}, 2, 17, 4, /*slotCut=*/4}; // ceil(17 / 4) + 3 is 8
  EXPECT_EQ(slots.numElements(), 48);
  EXPECT_EQ(slots.chunksPerBlock(), 4);
  EXPECT_EQ(slots.chunk(0), (Range{0, 8}));
  EXPECT_EQ(slots.chunk(5), (Range{40, 8}));
  EXPECT_EQ((Layout{{0}, 1, 17, 4, 4}.numElements()), 0);
  EXPECT_EQ((Layout{{1}, 1, 17, 4, 0}.numElements()), 20); // no chunks at all: as one
}

TEST(Layout, SlicesWrapInEveryDimensionAndListChunksRowMajor) {
  Layout layout{{3, 4}, 2, 1, 4};
  EXPECT_EQ(layout.chunksOf({2, 3}, {2, 2}), (BlockNumbers{11, 8, 3, 0}));
  EXPECT_EQ(layout.chunksOf({-1, -5}, {1, 4}), (BlockNumbers{11, 8, 9, 10}));
  EXPECT_EQ(layout.chunksOf({0, 0}, {0, 4}), BlockNumbers{});
  EXPECT_EQ((Layout{{}, 0, 5, 4}.chunksOf({}, {})), BlockNumbers{0});
  EXPECT_EQ((Layout{{0}, 0, 5, 4}.chunksOf({3}, {0})), BlockNumbers{});
}
