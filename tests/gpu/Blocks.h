// Calls with block tables, for tests on devices. A block is the beginning of that block in a call without tables, whose
// oracle so serves for these calls too.
#pragma once

#include "../support/DrawnCounts.h"
#include "Oracle.h"

#include "kolo/runtime/PluginAbi.h"
#include "kolo/runtime/Types.h"

#include <random>

namespace kolo::test {

/// The tables of all ranks, by KoloBufferRole and rank. No block has more elements than `count` of the call.
class DeviceBlocks {
public:
  /// With places, blocks lie in any order with gaps between them; else they follow each other.
  DeviceBlocks(const DeviceCall &call, Distribution distribution, bool hasPlaces, std::mt19937_64 &random);

  /// Refers to this object.
  runtime::BlockTables tablesOf(size_t rank) const;
  size_t sizeBytes(size_t role, size_t rank) const;
  /// Of a buffer of the call without tables: the same blocks, as far as they go, at their places. Elsewhere poison.
  Bytes placed(size_t role, size_t rank, const Bytes &whole) const;

  /// As checkOutput. `inputs`: of the call without tables.
  std::string check(const DeviceCall &call, const std::vector<Bytes> &inputs, int rank, const Bytes &actual) const;

private:
  void draw(const DeviceCall &call, size_t role, int rank, std::mt19937_64 &random);

  size_t elementBytes, wholeBytes; // of an element, and of a block of the call without tables
  bool hasPlaces;
  std::vector<DrawnCounts> matrices; // by rank: elements that each member of its group gives to each other one
  std::vector<std::vector<int64_t>> counts[2], places[2];
  std::vector<size_t> sizes[2];
};

} // namespace kolo::test
