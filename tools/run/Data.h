// Data for runs: rank-tagged inputs, and the check of every byte of the outputs against the reference.
#pragma once

#include "tools/run/CallBlocks.h"

#include "kolo/runtime/Communicator.h"

#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

/// Periodic data: element j of a rank's input is entry j mod period of that rank's table. Tables and their reductions
/// come from the reference, so that checking a gigabyte costs one comparison of memory.
class TaggedData {
public:
  /// Values differ from rank to rank, are never zero, and are exact in every type whatever the order of reduction.
  /// `groupDims`: the mesh dimensions over which the collective runs.
  TaggedData(runtime::CollectiveKind collective, const std::vector<int64_t> &groupDims, const runtime::Mesh &mesh,
             runtime::DataType type, runtime::Reduction reduction);

  int64_t groupSize() const { return int64_t(groups.front().size()); }
  void fillInput(int rank, const CallBlocks &blocks, void *input) const;
  /// Overwrites an output with something that no result looks like.
  void poisonOutput(void *output, int64_t numElements) const;
  /// What is wrong with the first element that is not as it should be.
  std::optional<std::string> check(int rank, int root, const CallBlocks &blocks, const void *output) const;
  /// Whether the collective gives this rank an input, or an output.
  bool hasInput(int rank, int root) const;
  bool hasOutput(int rank, int root) const;
  /// The rank's number inside its group.
  int memberNumber(int rank) const;

private:
  using Table = std::vector<std::byte>;
  std::optional<std::string> compare(const Table &table, int64_t phase, int64_t first, int64_t numElements,
                                     const std::byte *output, int rank) const;

  runtime::CollectiveKind collective;
  int64_t elementBytes;
  std::vector<std::vector<int64_t>> groups; // by rank: the ranks it collects with, itself included
  std::vector<Table> inputs, reductions;    // by rank
};

} // namespace kolo::tools
