// What a collective must give, straight from its definition and without the compiler: data for tests on devices, and
// the outputs that belong to it. OracleTest compares it with the reference interpreter's.
#pragma once

#include "kolo/runtime/Plugin.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace kolo::test {

using Bytes = std::vector<std::byte>;

/// What an output holds before anybody wrote it.
inline constexpr std::byte poison{0xdb};

/// One call, without its data.
struct DeviceCall {
  runtime::CollectiveKind collective = runtime::CollectiveKind::AllGather;
  std::vector<int> groupDims; // as in ProgramInfo
  runtime::Mesh mesh;
  int64_t count = 0;
  runtime::DataType type = runtime::DataType::F32;
  runtime::Reduction reduction = runtime::Reduction::Sum;
  int root = 0; // number inside the group

  /// The ranks that `rank` collects with, itself included, in the order of their numbers inside the group.
  std::vector<int> groupOf(int rank) const;
  int groupSize() const { return int(groupOf(0).size()); }
  size_t inputBytes() const;
  size_t outputBytes() const;
};

/// The inputs by rank: positive integers that depend on rank, element and `salt`. For groups of up to 8 ranks their
/// sums and products are exact in any order and in each type, so results compare bitwise. Integers may wrap.
/// With `hasSpecials`, some elements of floating-point types are zeros, infinities and NaNs of either sign.
std::vector<Bytes> taggedInputs(const DeviceCall &call, uint64_t salt, bool hasSpecials = true);

/// The output of a rank. Nothing where the collective leaves it as it was.
std::optional<Bytes> expectedOutput(const DeviceCall &call, const std::vector<Bytes> &inputs, int rank);

/// "" if `actual` is that output, or still poison where there is none; else its first element that is wrong.
std::string checkOutput(const DeviceCall &call, const std::vector<Bytes> &inputs, int rank, const Bytes &actual);

} // namespace kolo::test
