// Functions of a place that are affine on runs of places. Used by the proof for all sizes. Includes no MLIR.
#pragma once

#include "compiler/check/sizes/Affine.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kolo::sizes {

/// At the places from `begin` to before `end`, of which there is one at least. A value has a shape, which does not
/// depend on the place, and numbers that do: `Value::visit(value, visitor)` calls visitor.shape(int64_t) and
/// visitor.number(Affine &, Kind) for each.
enum class Kind : uint8_t {
  Plain,
  ModSize, // a place on the circle of n
  Fixed    // the same at all places of a run
};

template <typename Value> struct Run {
  Affine begin, end;
  Value value;
  bool isPoint() const { return end - begin == Affine(1); }
};
/// In order. Where a function has a value at every place, they have no gaps.
template <typename Value> using Runs = std::vector<Run<Value>>;

/// A value as a list: to compare two, and to see how they grow.
struct Flat {
  std::vector<int64_t> shapes;
  std::vector<std::pair<Affine, Kind>> numbers;
  void shape(int64_t number) { shapes.push_back(number); }
  void number(Affine &number, Kind kind) {
    numbers.emplace_back(kind == Kind::ModSize ? number.modSize() : number, kind);
  }
  bool operator==(const Flat &) const = default;
};
/// How a visitor goes through a value: as its type says.
template <typename Value> struct Visit {
  template <typename Visitor> static void visit(Value &value, Visitor &visitor) { Value::visit(value, visitor); }
};
template <typename Value> struct Visit<Runs<Value>> {
  template <typename Visitor> static void visit(Runs<Value> &runs, Visitor &visitor) {
    visitor.shape(int64_t(runs.size()));
    for (Run<Value> &run : runs) {
      visitor.number(run.begin, Kind::Plain);
      visitor.number(run.end, Kind::Plain);
      Value::visit(run.value, visitor);
    }
  }
};

template <typename Value> Flat flatten(const Value &value) {
  Flat flat;
  Visit<Value>::visit(const_cast<Value &>(value), flat); // which changes nothing
  return flat;
}

/// Calls `change` with every number.
template <typename Value, typename Change> void changeNumbers(Value &value, Change change) {
  struct Visitor {
    Change &change;
    void shape(int64_t) {}
    void number(Affine &number, Kind kind) {
      number = change(std::as_const(number));
      if (kind == Kind::ModSize)
        number = number.modSize();
    }
  } visitor{change};
  Visit<Value>::visit(value, visitor);
}

/// The value with its places numbered anew: place k of the result is place `of` of the value.
template <typename Value> Value withPlaces(Value value, const Affine &of) {
  changeNumbers(value, [&](const Affine &number) { return number.at(of); });
  return value;
}

/// Cuts a run at a place, if one has it inside. The number of the first run from there on.
template <typename Value> size_t cutAt(Runs<Value> &runs, const Affine &place, Decisions &decisions) {
  for (size_t i = 0; i < runs.size(); ++i) {
    if (decisions.hasFailed() || !decisions.isLess(place, runs[i].end))
      continue;
    if (decisions.isLess(runs[i].begin, place)) {
      runs.insert(runs.begin() + std::ptrdiff_t(i), runs[i]);
      runs[i].end = runs[i + 1].begin = place;
      ++i;
    }
    return i;
  }
  return runs.size();
}

/// The value at one place, which does not depend on k then.
template <typename Value> Value valueAt(const Run<Value> &run, const Affine &place) {
  return withPlaces(run.value, place);
}

/// Joins runs of which one affine function gives all values: at least three single places, or a run and its neighbour.
template <typename Value> void normalise(Runs<Value> &runs) {
  for (Run<Value> &run : runs)
    if (run.isPoint())
      run.value = valueAt(run, run.begin);
  auto isExtended = [](const Run<Value> &longer, const Run<Value> &other) {
    return other.isPoint() ? flatten(valueAt(longer, other.begin)) == flatten(other.value)
                           : flatten(longer.value) == flatten(other.value);
  };
  auto join = [&](size_t i) { // run i and the next
    Run<Value> &a = runs[i], &b = runs[i + 1];
    if (a.end != b.begin || (a.isPoint() && b.isPoint()))
      return false;
    bool isSame = a.isPoint() ? isExtended(b, a) : isExtended(a, b);
    if (!isSame)
      return false;
    if (a.isPoint())
      a.value = b.value;
    a.end = b.end;
    runs.erase(runs.begin() + std::ptrdiff_t(i) + 1);
    return true;
  };
  auto joinPoints = [&](size_t i) { // three single places
    Run<Value> &a = runs[i];
    for (size_t j : {i, i + 1, i + 2})
      if (!runs[j].isPoint() || (j > i && runs[j - 1].end != runs[j].begin))
        return false;
    Flat first = flatten(a.value), second = flatten(runs[i + 1].value), third = flatten(runs[i + 2].value);
    if (first.shapes != second.shapes || first.shapes != third.shapes)
      return false;
    std::vector<int64_t> slopes;
    for (size_t number = 0; number < first.numbers.size(); ++number) {
      auto [x, kind] = first.numbers[number];
      Affine slope = second.numbers[number].first - x;
      if (!slope.isConstant() || third.numbers[number].first - second.numbers[number].first != slope ||
          (kind == Kind::Fixed && slope != Affine()))
        return false;
      slopes.push_back(slope.constant);
    }
    size_t number = 0;
    changeNumbers(a.value, [&](const Affine &x) {
      int64_t slope = slopes[number++];
      return x + (Affine::k() - a.begin) * slope;
    });
    a.end = runs[i + 2].end;
    runs.erase(runs.begin() + std::ptrdiff_t(i) + 1, runs.begin() + std::ptrdiff_t(i) + 3);
    return true;
  };
  for (size_t i = 0; i + 1 < runs.size();) {
    if (join(i) || (i + 2 < runs.size() && joinPoints(i)))
      i = i > 0 ? i - 1 : 0;
    else
      ++i;
  }
}

/// Turns places around a circle of n: place k comes to k + amount, which lies between 0 and n - 1.
template <typename Value> Runs<Value> rotate(Runs<Value> runs, const Affine &amount, Decisions &decisions) {
  if (amount == Affine())
    return runs;
  size_t first = cutAt(runs, Affine::n() - amount, decisions);
  if (decisions.hasFailed())
    return runs;
  std::rotate(runs.begin(), runs.begin() + std::ptrdiff_t(first), runs.end());
  for (size_t i = 0; i < runs.size(); ++i) {
    Affine moved = i < runs.size() - first ? amount - Affine::n() : amount;
    runs[i] = {runs[i].begin + moved, runs[i].end + moved, withPlaces(runs[i].value, Affine::k() - moved)};
  }
  return runs;
}

/// The function at the places `of`, which is affine in k with a slope of -1, 0 or 1, for k from `begin` to before
/// `end`. Nothing where the function is not known at all of them.
template <typename Value>
std::optional<Runs<Value>> compose(const Runs<Value> &runs, Affine of, const Affine &begin, const Affine &end,
                                   Decisions &decisions) {
  Runs<Value> result;
  if (end - begin == Affine(1))
    of = of.at(begin);
  if (of.place == 0) {
    for (const Run<Value> &run : runs)
      if (decisions.isLess(of, run.end)) {
        if (decisions.hasFailed() || decisions.isLess(of, run.begin))
          return std::nullopt;
        result.push_back({begin, end, valueAt(run, of)});
        return result;
      }
    return std::nullopt;
  }
  if (of.place != 1 && of.place != -1)
    return std::nullopt;
  Affine rest = of.at(0), covered = 0;
  for (const Run<Value> &run : runs) {
    Affine from = of.place == 1 ? run.begin - rest : rest - run.end + 1;
    Affine to = of.place == 1 ? run.end - rest : rest - run.begin + 1;
    from = decisions.larger(from, begin);
    to = decisions.smaller(to, end);
    if (!decisions.isLess(from, to))
      continue;
    result.push_back({from, to, withPlaces(run.value, of)});
    covered = covered + to - from;
  }
  if (decisions.hasFailed() || covered != end - begin)
    return std::nullopt;
  return result;
}

} // namespace kolo::sizes
