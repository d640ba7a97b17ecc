// RowSums: rows that are sums of other rows times weights.
#pragma once

#include "kolo/runtime/Types.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::runtime {

/// Which rows each row of a result is the sum of.
class RowSums {
public:
  struct RowTerm {
    int64_t row;    // of the input
    int64_t weight; // its number among all weights; negative: the weight is 1
  };

  void clear() {
    terms.clear();
    ends.clear();
  }
  void add(RowTerm term) { terms.push_back(term); }
  /// What was added since the last call makes the next row of the result.
  void endRow() { ends.push_back(terms.size()); }

  /// Sums in f32, in the order of the terms, and rounds once. A row without terms becomes zeros. F32, F16, BF16.
  void run(DataType type, size_t elements, const std::byte *input, std::span<const float> weights,
           std::byte *output) const;

private:
  std::vector<RowTerm> terms;
  std::vector<size_t> ends; // by row of the result
};

} // namespace kolo::runtime
