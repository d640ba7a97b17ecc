// Sets of ranks: union, translation, and the groups of a collective.
#include "compiler/check/RankSet.h"

#include <algorithm>
#include <bit>

namespace kolo {

RankSet RankSet::single(const RankRows &ranks, int64_t rank) { return of(ranks, {&rank, 1}); }

RankSet RankSet::of(const RankRows &ranks, std::span<const int64_t> members) {
  RankSet result;
  for (int64_t member : members) {
    uint32_t number = ranks.rowOf(member) * ranks.length + ranks.placeOf(member);
    result.intervals.push_back({number, number + 1});
  }
  result.normalize();
  return result;
}

RankSet RankSet::group(const RankRows &ranks, std::span<const int64_t> mesh, std::span<const int64_t> dims,
                       int64_t rank) {
  std::vector<int64_t> strides(mesh.size(), 1);
  for (size_t dim = mesh.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * mesh[dim];
  bool isLineInside = std::ranges::find(dims, int64_t(ranks.dim)) != dims.end();
  // The members with the least place, one per row; a row is in the group as a whole, or in one place.
  std::vector<int64_t> firsts{rank};
  for (int64_t dim : dims) {
    int64_t stride = strides[size_t(dim)], size = mesh[size_t(dim)];
    if (size_t(dim) == ranks.dim)
      continue;
    std::vector<int64_t> more;
    for (int64_t first : firsts)
      for (int64_t i = 0; i < size; ++i)
        more.push_back(first + (i - first / stride % size) * stride);
    firsts = std::move(more);
  }
  RankSet result;
  for (int64_t first : firsts) {
    uint32_t row = ranks.rowOf(first) * ranks.length, place = isLineInside ? 0 : ranks.placeOf(first);
    result.intervals.push_back({row + place, row + (isLineInside ? ranks.length : place + 1)});
  }
  result.normalize();
  return result;
}

size_t RankSet::hash() const {
  uint64_t result = 0xcbf29ce484222325;
  for (const Interval &interval : intervals)
    for (uint32_t number : {interval.begin, interval.end}) {
      result = (result ^ number) * 0x9e3779b97f4a7c15;
      result ^= result >> 29;
    }
  return result;
}

int64_t RankSet::count() const {
  int64_t result = 0;
  for (const Interval &interval : intervals)
    result += interval.end - interval.begin;
  return result;
}

std::vector<int64_t> RankSet::members(const RankRows &ranks) const {
  std::vector<int64_t> result;
  for (const Interval &interval : intervals)
    for (uint32_t number = interval.begin; number < interval.end; ++number)
      result.push_back(ranks.rankAt(number / ranks.length, number % ranks.length));
  std::ranges::sort(result);
  return result;
}

/// Intervals come in ascending order.
void RankSet::append(uint32_t begin, uint32_t end) {
  if (!intervals.empty() && intervals.back().end == begin)
    intervals.back().end = end;
  else
    intervals.push_back({begin, end});
}

void RankSet::normalize() {
  std::ranges::sort(intervals, {}, &Interval::begin);
  std::vector<Interval> sorted = std::move(intervals);
  intervals.clear();
  for (const Interval &interval : sorted)
    append(interval.begin, interval.end);
}

std::optional<RankSet> RankSet::uniteDisjoint(const RankSet &other) const {
  RankSet result;
  result.intervals.reserve(intervals.size() + other.intervals.size());
  auto mine = intervals.begin(), theirs = other.intervals.begin();
  uint32_t end = 0;
  while (mine != intervals.end() || theirs != other.intervals.end()) {
    bool isMine = theirs == other.intervals.end() || (mine != intervals.end() && mine->begin < theirs->begin);
    const Interval &next = isMine ? *mine++ : *theirs++;
    if (next.begin < end)
      return std::nullopt;
    end = next.end;
    result.append(next.begin, next.end);
  }
  return result;
}

RankSet RankSet::moved(const RankRows &ranks, const RowMove &move) const {
  RankSet result;
  uint32_t length = ranks.length;
  auto moveInRow = [&](uint32_t row, uint32_t begin, uint32_t end) {
    uint32_t base = row * length;
    auto add = [&](uint32_t from, uint32_t to) { result.intervals.push_back({base + from, base + to}); };
    if (move.kind == RowMove::Kind::None || move.amount == 0 || end - begin == length)
      return add(begin, end);
    if (move.kind == RowMove::Kind::Rotate) {
      uint32_t first = length - move.amount; // the place that comes to 0
      if (begin < first)
        add(begin + move.amount, std::min(end, first) + move.amount);
      if (end > first)
        add(std::max(begin, first) - first, end - first);
      return;
    }
    // Exclusive or moves aligned blocks onto aligned blocks.
    while (begin < end) {
      uint32_t size = std::bit_floor(end - begin);
      if (begin != 0)
        size = std::min(size, begin & -begin);
      uint32_t to = (begin ^ move.amount) & ~(size - 1);
      add(to, to + size);
      begin += size;
    }
  };
  for (const Interval &interval : intervals)
    for (uint32_t begin = interval.begin; begin < interval.end;) {
      uint32_t row = begin / length, end = std::min(interval.end, (row + 1) * length);
      moveInRow(move.rowOf(row), begin - row * length, end - row * length);
      begin = end;
    }
  result.normalize();
  return result;
}

} // namespace kolo
