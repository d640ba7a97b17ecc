// A vector clock: how many steps of every rank are over. Held as runs that are affine in the place of a rank, exactly,
// so that its size does not grow with the number of ranks while it is simple. Used by VectorClockRun. Includes no MLIR.
#pragma once

#include "compiler/check/RankRows.h"

#include <memory>
#include <utility>

namespace kolo {

class Clock {
public:
  /// Nothing is over yet. `ranks` must outlive the clock.
  explicit Clock(const RankRows &ranks) : ranks(&ranks), rows(ranks.numRows) {}
  /// With an entry per rank.
  Clock(const RankRows &ranks, std::span<const uint32_t> times);

  int64_t numRanks() const { return ranks->numRanks(); }
  uint32_t at(int64_t rank) const;
  /// The rank's entry becomes at least `time`.
  void raise(int64_t rank, uint32_t time);
  /// Every entry becomes at least that of the other clock, whose ranks are moved first.
  void join(const Clock &other, const RowMove &move);

  /// Beside the rows, which clocks share, and which count once, in RankRows::clockBytes.
  int64_t numBytes() const { return int64_t(rows.size() * sizeof(RowPointer)); }
  /// Runs and dense entries: what a join looks at.
  int64_t numPieces() const;

private:
  /// From `begin` to the next run's: value + slope * (place - begin).
  struct Run {
    uint32_t begin, value;
    int64_t slope;
    bool operator==(const Run &) const = default;
    int64_t at(uint32_t place) const { return int64_t(value) + slope * int64_t(place - begin); }
  };
  /// A part of a sum, for as long as it lives.
  class Share {
  public:
    Share() = default;
    Share(int64_t &whole, int64_t part) : sum(&whole), part(part) { whole += part; }
    Share(Share &&other) noexcept : sum(std::exchange(other.sum, nullptr)), part(other.part) {}
    Share &operator=(Share &&other) noexcept {
      std::swap(sum, other.sum);
      std::swap(part, other.part);
      return *this;
    }
    ~Share() {
      if (sum)
        *sum -= part;
    }

  private:
    int64_t *sum = nullptr, part = 0;
  };
  /// Runs or, where they would become many, one entry per place.
  struct Row {
    std::vector<Run> runs;
    std::vector<uint32_t> dense;
    Share bytes = {};
    uint32_t at(uint32_t place) const;
  };
  using RowPointer = std::shared_ptr<const Row>; // null: all zero
  class Runs;

  void joinRow(uint32_t row, const RowPointer &other, const RowMove &move);
  static std::vector<uint32_t> expand(const Row &row, uint32_t length);
  static std::vector<Run> rotate(const std::vector<Run> &runs, uint32_t length, uint32_t amount);
  RowPointer moved(const RowPointer &row, const RowMove &move) const;
  RowPointer makeRow(std::vector<Run> runs) const;
  RowPointer share(Row row) const;
  RowPointer joinRuns(const RowPointer &a, const RowPointer &b) const;
  RowPointer joinDense(const RowPointer &a, const RowPointer &b) const;

  const RankRows *ranks;
  std::vector<RowPointer> rows;
};

} // namespace kolo
