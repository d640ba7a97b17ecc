// The ranks of a mesh as rows along its longest dimension, and how translations move them. Used by Clock and RankSet,
// which hold a row as few runs. Includes no MLIR.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kolo {

/// A rank has a row and a place in it. Ranks that differ along the longest dimension only are in one row.
class RankRows {
public:
  explicit RankRows(std::span<const int64_t> mesh);

  uint32_t rowOf(int64_t rank) const {
    return numInner == 1 && numRows == 1 ? 0 : uint32_t(rank / numInner / length * numInner + rank % numInner);
  }
  uint32_t placeOf(int64_t rank) const { return uint32_t(rank / numInner % length); }
  int64_t rankAt(uint32_t row, uint32_t place) const {
    return (row / numInner * length + place) * numInner + row % numInner;
  }
  int64_t numRanks() const { return int64_t(numRows) * length; }

  uint32_t numRows = 1, length = 1;
  size_t dim = 0;                 // the longest one
  mutable int64_t clockBytes = 0; // of all rows of clocks that are alive; see Clock

private:
  int64_t numInner = 1; // ranks per step along that dimension
};

/// A translation of ranks: every row goes to another one, and all places move alike.
struct RowMove {
  enum class Kind : uint8_t { None, Rotate, Flip };
  Kind kind = Kind::None;
  uint32_t amount = 0;        // place p goes to (p + amount) modulo length, or to p ^ amount
  std::vector<uint32_t> rows; // where each row goes; empty: each stays
  uint32_t rowOf(uint32_t row) const { return rows.empty() ? row : rows[row]; }
};

} // namespace kolo
