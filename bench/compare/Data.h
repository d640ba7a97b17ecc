// Data: what goes in and what must come out. Values name their rank and their place, and are integers small enough that
// every sum is exact, in any order.
#pragma once

#include "Counts.h"

#include <optional>
#include <string>

namespace kolo::bench {

/// One collective call as one rank sees it. Elements are f32.
struct Cell {
  Collective collective;
  int64_t count;                     // as NCCL and the MPI calls count: per rank or per pair where the collective does
  int64_t numInput;                  // elements this rank reads
  int64_t numOutput;                 // elements this rank holds afterwards
  std::optional<Tables> tables = {}; // then `count` is 0
  std::optional<CountMatrix> blocks = {}; // likewise, of all ranks
};

/// A vector of sizeBytes is the larger of input and output; it is rounded up to one element per rank where the
/// collective cuts it.
Cell shapeOf(Collective collective, int64_t sizeBytes, int numRanks);
/// The same as one rank sees it, with tables by a distribution. Throws Failure for a collective that has none.
Cell shapeOf(const Command &command, int numRanks, int rank);

std::optional<Collective> parseCollective(const std::string &name);
const char *toString(Collective collective);

/// Writes this rank's input. A broadcast takes place in the output, which for its root starts as the input.
void fillInput(float *input, int64_t numElements, int rank);
/// Overwrites what the call must produce; for a broadcast's root, writes what it sends.
void poisonOutput(const Cell &cell, const float *input, float *output, int rank);

/// The first wrong element in words; nothing when all are right.
std::optional<std::string> findMistake(const Cell &cell, const float *output, int rank, int numRanks);

} // namespace kolo::bench
