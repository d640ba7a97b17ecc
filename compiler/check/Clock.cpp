// The algebra of clocks: join, translation, and lookups, in time of the number of runs.
#include "compiler/check/Clock.h"

#include <algorithm>

namespace kolo {

/// Appends pieces to runs; pieces that continue a run become part of it.
class Clock::Runs {
public:
  explicit Runs(size_t capacity) { runs.reserve(capacity); }

  void append(uint32_t begin, uint32_t end, int64_t value, int64_t slope) {
    if (begin == end)
      return;
    if (!runs.empty() && continues(begin, end, value, slope))
      return;
    runs.push_back({begin, uint32_t(value), end - begin == 1 ? 0 : slope});
  }
  std::vector<Run> take() { return std::move(runs); }

private:
  bool continues(uint32_t begin, uint32_t end, int64_t value, int64_t slope) {
    Run &last = runs.back();
    // A run of one place takes any slope.
    bool isSingle = begin - last.begin == 1;
    int64_t wanted = isSingle ? value - int64_t(last.value) : last.slope;
    if (last.value + wanted * int64_t(begin - last.begin) != value || (end - begin > 1 && slope != wanted))
      return false;
    last.slope = wanted;
    return true;
  }

  std::vector<Run> runs;
};

uint32_t Clock::Row::at(uint32_t place) const {
  if (runs.empty())
    return dense[place];
  auto next = std::ranges::upper_bound(runs, place, {}, &Run::begin);
  return uint32_t(std::prev(next)->at(place));
}

Clock::Clock(const RankRows &ranks, std::span<const uint32_t> times) : Clock(ranks) {
  for (uint32_t row = 0; row < ranks.numRows; ++row) {
    Runs runs(4);
    for (uint32_t place = 0; place < ranks.length; ++place)
      runs.append(place, place + 1, times[size_t(ranks.rankAt(row, place))], 0);
    rows[row] = makeRow(runs.take());
  }
}

uint32_t Clock::at(int64_t rank) const {
  const RowPointer &row = rows[ranks->rowOf(rank)];
  return row ? row->at(ranks->placeOf(rank)) : 0;
}

void Clock::raise(int64_t rank, uint32_t time) {
  if (at(rank) >= time)
    return;
  uint32_t place = ranks->placeOf(rank);
  Runs runs(3);
  runs.append(0, place, 0, 0);
  runs.append(place, place + 1, time, 0);
  runs.append(place + 1, ranks->length, 0, 0);
  joinRow(ranks->rowOf(rank), share({runs.take(), {}}), {});
}

void Clock::join(const Clock &other, const RowMove &move) {
  for (uint32_t row = 0; row < ranks->numRows; ++row)
    if (other.rows[row])
      joinRow(move.rowOf(row), other.rows[row], move);
}

void Clock::joinRow(uint32_t row, const RowPointer &other, const RowMove &move) {
  RowPointer b = moved(other, move);
  RowPointer &a = rows[row];
  if (!a)
    a = std::move(b);
  else if (a != b)
    a = a->runs.empty() || b->runs.empty() ? joinDense(a, b) : joinRuns(a, b);
}

Clock::RowPointer Clock::moved(const RowPointer &row, const RowMove &move) const {
  bool isConstant = row->runs.size() == 1 && row->runs.front().slope == 0;
  if (move.kind == RowMove::Kind::None || move.amount == 0 || isConstant)
    return row;
  bool isRotation = move.kind == RowMove::Kind::Rotate;
  if (isRotation && !row->runs.empty())
    return share({rotate(row->runs, ranks->length, move.amount), {}});
  std::vector<uint32_t> before = expand(*row, ranks->length), after(ranks->length);
  if (isRotation)
    std::ranges::rotate_copy(before, before.end() - ptrdiff_t(move.amount), after.begin());
  else
    for (uint32_t place = 0; place < ranks->length; ++place)
      after[place ^ move.amount] = before[place];
  return share({{}, std::move(after)});
}

std::vector<Clock::Run> Clock::rotate(const std::vector<Run> &runs, uint32_t length, uint32_t amount) {
  Runs result(runs.size() + 1);
  uint32_t first = length - amount; // the place that comes to 0
  auto appendFrom = [&](uint32_t from, uint32_t to, uint32_t shift) {
    for (size_t i = 0; i < runs.size(); ++i) {
      uint32_t end = i + 1 < runs.size() ? runs[i + 1].begin : length;
      uint32_t begin = std::max(runs[i].begin, from);
      end = std::min(end, to);
      if (begin < end)
        result.append(begin + shift, end + shift, runs[i].at(begin), runs[i].slope);
    }
  };
  appendFrom(first, length, amount - length); // modulo 2^32
  appendFrom(0, first, amount);
  return result.take();
}

/// The larger of two runs, place by place: each is the larger one up to where they cross.
Clock::RowPointer Clock::joinRuns(const RowPointer &a, const RowPointer &b) const {
  const std::vector<Run> &left = a->runs, &right = b->runs;
  Runs result(left.size() + right.size() + 2);
  uint32_t length = ranks->length;
  for (size_t i = 0, j = 0, begin = 0; begin < length;) {
    uint32_t leftEnd = i + 1 < left.size() ? left[i + 1].begin : length;
    uint32_t rightEnd = j + 1 < right.size() ? right[j + 1].begin : length;
    uint32_t from = uint32_t(begin), end = std::min(leftEnd, rightEnd);
    int64_t mine = left[i].at(from), other = right[j].at(from);
    bool isMineFirst = mine > other || (mine == other && left[i].slope >= right[j].slope);
    const Run &first = isMineFirst ? left[i] : right[j], &second = isMineFirst ? right[j] : left[i];
    // The first is the larger one for `lead` places.
    int64_t lead = end - from;
    if (first.slope < second.slope)
      lead = std::min(lead, (first.at(from) - second.at(from)) / (second.slope - first.slope) + 1);
    uint32_t middle = from + uint32_t(lead);
    result.append(from, middle, first.at(from), first.slope);
    if (middle < end)
      result.append(middle, end, second.at(middle), second.slope);
    i += leftEnd == end;
    j += rightEnd == end;
    begin = end;
  }
  std::vector<Run> runs = result.take();
  if (runs == left)
    return a;
  if (runs == right)
    return b;
  return makeRow(std::move(runs));
}

Clock::RowPointer Clock::makeRow(std::vector<Run> runs) const {
  Row row{std::move(runs), {}};
  if (row.runs.size() > std::max<size_t>(4, ranks->length / 8))
    row = Row{{}, expand(row, ranks->length)};
  return share(std::move(row));
}

Clock::RowPointer Clock::share(Row row) const {
  auto numBytes = int64_t(sizeof(Row) + row.runs.size() * sizeof(Run) + row.dense.size() * sizeof(uint32_t));
  row.bytes = Share(ranks->clockBytes, numBytes);
  return std::make_shared<const Row>(std::move(row));
}

std::vector<uint32_t> Clock::expand(const Row &row, uint32_t length) {
  if (row.runs.empty())
    return row.dense;
  std::vector<uint32_t> result(length);
  for (size_t i = 0; i < row.runs.size(); ++i) {
    uint32_t end = i + 1 < row.runs.size() ? row.runs[i + 1].begin : length;
    for (uint32_t place = row.runs[i].begin; place < end; ++place)
      result[place] = uint32_t(row.runs[i].at(place));
  }
  return result;
}

Clock::RowPointer Clock::joinDense(const RowPointer &a, const RowPointer &b) const {
  std::vector<uint32_t> left = expand(*a, ranks->length), right = expand(*b, ranks->length);
  bool isLeft = true, isRight = true;
  for (uint32_t place = 0; place < ranks->length; ++place) {
    isLeft &= left[place] >= right[place];
    isRight &= right[place] >= left[place];
    left[place] = std::max(left[place], right[place]);
  }
  // Runs stay runs where they are the larger ones.
  if (isRight)
    return b;
  return isLeft ? a : share({{}, std::move(left)});
}

int64_t Clock::numPieces() const {
  int64_t result = int64_t(rows.size());
  for (const RowPointer &row : rows)
    if (row)
      result += int64_t(row->runs.size() + row->dense.size());
  return result;
}

} // namespace kolo
