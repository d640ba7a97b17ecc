// CombinedRecords: what ranks say in an exchange where all follows from what they say together. Hosts add it up on the
// way, so that each hears one such sum in each round, whatever the number of ranks. Exchange uses it; the layers above
// know what the bytes mean.
#pragma once

#include "kolo/runtime/Status.h"

#include <cstddef>
#include <span>
#include <vector>

namespace kolo::runtime {

/// Begins with nothing. The order of additions does not matter, nor whether a rank is in several of them.
class CombinedRecords {
public:
  virtual ~CombinedRecords() = default;
  /// Adds what a rank of this host publishes.
  virtual void addRank(int rank, const std::byte *published) = 0;
  /// Adds what `write` made elsewhere. Mismatch: it makes no such bytes.
  virtual Status add(std::span<const std::byte> others) = 0;
  /// All that was added: 1 to maxCombinedBytes bytes.
  virtual std::vector<std::byte> write() const = 0;
};

} // namespace kolo::runtime
