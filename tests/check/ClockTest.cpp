// The algebra of clocks and of sets of ranks, against plain vectors with an entry per rank.
#include "compiler/check/Clock.h"
#include "compiler/check/RankSet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace kolo {
namespace {

using Mesh = std::vector<int64_t>;
using Dense = std::vector<uint32_t>;

const std::vector<Mesh> meshes = {{1},    {2},    {7},     {16},    {61},      {128},
                                  {5, 3}, {8, 4}, {3, 64}, {40, 8}, {9, 4, 2}, {4, 4, 4}};

int64_t product(const Mesh &mesh) {
  int64_t result = 1;
  for (int64_t size : mesh)
    result *= size;
  return result;
}

/// A translation of a mesh, as the checker's, and the same rank by rank.
struct Translated {
  RowMove move;
  std::vector<int64_t> ranks;
};

Translated randomTranslation(const Mesh &mesh, const RankRows &rows, std::mt19937 &random) {
  Translated result;
  std::vector<int64_t> amounts;
  std::vector<bool> isFlip;
  for (int64_t size : mesh) {
    amounts.push_back(int64_t(random()) % size);
    isFlip.push_back((size & (size - 1)) == 0 && random() % 2);
  }
  for (int64_t rank = 0; rank < product(mesh); ++rank) {
    int64_t moved = 0, scale = 1, rest = rank;
    for (size_t dim = mesh.size(); dim-- > 0; rest /= mesh[dim], scale *= mesh[dim]) {
      int64_t at = rest % mesh[dim];
      moved += (isFlip[dim] ? at ^ amounts[dim] : (at + amounts[dim]) % mesh[dim]) * scale;
    }
    result.ranks.push_back(moved);
  }
  result.move.kind = isFlip[rows.dim] ? RowMove::Kind::Flip : RowMove::Kind::Rotate;
  result.move.amount = uint32_t(amounts[rows.dim]);
  for (uint32_t row = 0; row < rows.numRows; ++row)
    result.move.rows.push_back(rows.rowOf(result.ranks[size_t(rows.rankAt(row, 0))]));
  return result;
}

/// Runs of a random length and slope, as clocks of rings and of all pairs have, or noise.
Dense randomTimes(size_t numRanks, std::mt19937 &random) {
  Dense result(numRanks, 0);
  size_t longest = random() % 3 ? numRanks : 3;
  for (size_t begin = 0; begin < numRanks;) {
    size_t end = std::min(numRanks, begin + 1 + random() % longest);
    uint32_t value = random() % 4 ? 1000 + random() % 50 : 0;
    int64_t slope = int64_t(random() % 9) - 4;
    for (size_t i = begin; i < end; ++i)
      result[i] = value == 0 ? 0 : uint32_t(std::max<int64_t>(value + slope * int64_t(i - begin), 0));
    begin = end;
  }
  return result;
}

Clock makeClock(const RankRows &rows, const Dense &times) {
  Clock clock(rows);
  for (size_t rank = 0; rank < times.size(); ++rank)
    clock.raise(int64_t(rank), times[rank]);
  return clock;
}

void expectEqual(const Clock &clock, const Dense &times, const std::string &what) {
  for (size_t rank = 0; rank < times.size(); ++rank)
    ASSERT_EQ(clock.at(int64_t(rank)), times[rank]) << what << ", rank " << rank;
}

TEST(Clocks, JoinAndTranslateAsVectorsDo) {
  std::mt19937 random(1);
  for (const Mesh &mesh : meshes) {
    RankRows rows(mesh);
    for (int round = 0; round < 200; ++round) {
      std::string what = "mesh of " + std::to_string(product(mesh)) + ", round " + std::to_string(round);
      Dense mine = randomTimes(size_t(product(mesh)), random), theirs = randomTimes(mine.size(), random);
      Clock clock = makeClock(rows, mine), other = makeClock(rows, theirs);
      expectEqual(clock, mine, what);
      for (int join = 0; join < 4; ++join) {
        Translated translated = randomTranslation(mesh, rows, random);
        for (size_t rank = 0; rank < mine.size(); ++rank) {
          auto to = size_t(translated.ranks[rank]);
          mine[to] = std::max(mine[to], theirs[rank]);
        }
        clock.join(other, translated.move);
        expectEqual(clock, mine, what);
        std::swap(mine, theirs);
        std::swap(clock, other);
      }
      auto rank = int64_t(random() % mine.size());
      auto time = uint32_t(random() % 2000);
      clock.raise(rank, time);
      mine[size_t(rank)] = std::max(mine[size_t(rank)], time);
      expectEqual(clock, mine, what);
      expectEqual(Clock(rows, mine), mine, what);
    }
  }
}

/// A ring: every wait brings the clock of the rank before, one step older.
TEST(Clocks, StaySmallInARing) {
  const Mesh mesh = {10007};
  RankRows rows(mesh);
  Clock clock(rows);
  for (uint32_t step = 0; step < 3 * 10007; ++step) {
    Clock sent = clock;
    clock.join(sent, {RowMove::Kind::Rotate, 1, {}});
    clock.raise(1, 2 * step + 1);
    ASSERT_LE(clock.numPieces(), 8) << step;
  }
}

/// Clocks share what they were copied from, and a change of one is none of the other.
TEST(Clocks, CopiesAreIndependent) {
  const Mesh mesh = {4, 16};
  RankRows rows(mesh);
  Clock clock(rows);
  clock.raise(5, 3);
  Clock copy = clock;
  clock.raise(5, 9);
  EXPECT_EQ(copy.at(5), 3u);
  EXPECT_EQ(clock.at(5), 9u);
  EXPECT_EQ(clock.at(6), 0u);
}

TEST(RankRows, NumberEveryRankOnce) {
  for (const Mesh &mesh : meshes) {
    RankRows rows(mesh);
    ASSERT_EQ(rows.numRanks(), product(mesh));
    for (int64_t rank = 0; rank < rows.numRanks(); ++rank)
      ASSERT_EQ(rows.rankAt(rows.rowOf(rank), rows.placeOf(rank)), rank);
  }
}

TEST(RankSets, UniteAndTranslateAsSetsDo) {
  std::mt19937 random(2);
  for (const Mesh &mesh : meshes) {
    RankRows rows(mesh);
    for (int round = 0; round < 200; ++round) {
      std::set<int64_t> members;
      RankSet set;
      for (auto count = 1 + random() % size_t(product(mesh)); count > 0; --count) {
        auto rank = int64_t(random() % size_t(product(mesh)));
        std::optional<RankSet> more = set.uniteDisjoint(RankSet::single(rows, rank));
        ASSERT_EQ(more.has_value(), members.insert(rank).second);
        if (more)
          set = *more;
      }
      Translated translated = randomTranslation(mesh, rows, random);
      RankSet moved = set.moved(rows, translated.move), again;
      std::set<int64_t> wanted;
      for (int64_t rank : members) {
        wanted.insert(translated.ranks[size_t(rank)]);
        again = *again.uniteDisjoint(RankSet::single(rows, translated.ranks[size_t(rank)]));
      }
      EXPECT_EQ(set.members(rows), std::vector(members.begin(), members.end()));
      EXPECT_EQ(moved.members(rows), std::vector(wanted.begin(), wanted.end()));
      EXPECT_EQ(moved.count(), int64_t(wanted.size()));
      EXPECT_EQ(moved, again);
      EXPECT_EQ(moved.hash(), again.hash());
    }
  }
}

TEST(RankSets, HoldTheMembersThatTheyAreMadeOf) {
  for (const Mesh &mesh : meshes) {
    RankRows rows(mesh);
    for (int64_t number = 0; number <= product(mesh); ++number) {
      std::vector<int64_t> wanted(static_cast<size_t>(number));
      std::iota(wanted.begin(), wanted.end(), 0);
      RankSet first = RankSet::of(rows, wanted), united;
      for (int64_t rank : wanted)
        united = *united.uniteDisjoint(RankSet::single(rows, rank));
      ASSERT_EQ(first.members(rows), wanted);
      ASSERT_EQ(first, united);
    }
  }
}

TEST(RankSets, GroupsAreTheRanksThatDifferAlongTheirDimensionsOnly) {
  for (const Mesh &mesh : meshes)
    for (unsigned dims = 0; dims < 1u << mesh.size(); ++dims) {
      RankRows rows(mesh);
      Mesh inside;
      for (size_t dim = 0; dim < mesh.size(); ++dim)
        if (dims >> dim & 1)
          inside.push_back(int64_t(dim));
      for (int64_t rank = 0; rank < product(mesh); rank += 3) {
        std::vector<int64_t> wanted;
        for (int64_t other = 0; other < product(mesh); ++other) {
          bool isMember = true;
          int64_t a = rank, b = other;
          for (size_t dim = mesh.size(); dim-- > 0; a /= mesh[dim], b /= mesh[dim])
            isMember &= a % mesh[dim] == b % mesh[dim] || (dims >> dim & 1);
          if (isMember)
            wanted.push_back(other);
        }
        ASSERT_EQ(RankSet::group(rows, mesh, inside, rank).members(rows), wanted);
      }
    }
}

} // namespace
} // namespace kolo
