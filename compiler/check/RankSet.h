// Sets of ranks as intervals along the rows of a mesh: what a chunk's content combines. Equal sets have equal
// intervals. Used by Contents. Includes no MLIR.
#pragma once

#include "compiler/check/RankRows.h"

#include <optional>

namespace kolo {

class RankSet {
public:
  RankSet() = default;
  static RankSet single(const RankRows &ranks, int64_t rank);
  static RankSet of(const RankRows &ranks, std::span<const int64_t> members);
  /// The ranks that differ from `rank` along marked dimensions only.
  static RankSet group(const RankRows &ranks, std::span<const int64_t> mesh, std::span<const int64_t> dims,
                       int64_t rank);

  bool operator==(const RankSet &) const = default;
  bool isSingle(const RankRows &ranks, int64_t rank) const {
    uint32_t number = ranks.rowOf(rank) * ranks.length + ranks.placeOf(rank);
    return intervals.size() == 1 && intervals[0] == Interval{number, number + 1};
  }
  size_t hash() const;
  int64_t count() const;
  int64_t numBytes() const { return int64_t(sizeof(RankSet) + intervals.size() * sizeof(Interval)); }
  /// In ascending order.
  std::vector<int64_t> members(const RankRows &ranks) const;
  /// Nothing when a rank is in both.
  std::optional<RankSet> uniteDisjoint(const RankSet &other) const;
  RankSet moved(const RankRows &ranks, const RowMove &move) const;

private:
  /// Of numbers row * length + place: those from `begin` to `end` - 1. Intervals do not touch.
  struct Interval {
    uint32_t begin, end;
    bool operator==(const Interval &) const = default;
  };
  void normalize();
  void append(uint32_t begin, uint32_t end);

  std::vector<Interval> intervals;
};

} // namespace kolo
