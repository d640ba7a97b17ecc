// Which structures are worth a closer look: costs a sample of a space, and then what lies near the best of it. Knows
// costs as a function only. Same seed, same result, for any number of threads.
#pragma once

#include "tools/explore/Structure.h"

#include <functional>

namespace kolo::explore {

/// Calls body(thread, i) for all i < count, thread < numThreads. The first exception is thrown again, after all ended.
void forEach(size_t count, unsigned numThreads, const std::function<void(unsigned thread, size_t i)> &body);

/// What one structure costs with each of the schedules that are tried.
struct Costs {
  /// By schedule, by size; infinite where a limit does not allow it. Of a refused schedule: empty.
  std::vector<std::vector<double>> seconds;
  std::vector<std::string> refusals; // by schedule; empty: it is not refused
};
/// Called by several threads at once, with different `thread`s.
using CostFunction = std::function<Costs(unsigned thread, const Structure &structure)>;

struct SearchOptions {
  size_t mostStructures = 400;
  uint64_t seed = 0;
  unsigned numThreads = 1;
  std::function<void(size_t done, size_t total)> progress = [](size_t, size_t) {}; // one call at a time
};

struct SearchResult {
  std::vector<Structure> structures;
  std::vector<Costs> costs;              // by structure
  std::map<std::string, size_t> leftOut; // number of candidates, by reason
  size_t numCandidates = 0;              // structures times schedules, costed
  size_t numInSpace = 0;                 // structures that there were to choose from
};

/// Three quarters of the structures are a sample that gives every mesh its share; the rest are neighbours of the best
/// at some size. A neighbour differs in one phase's block, in the striping, or in the order of two phases.
SearchResult search(const Space &space, const SearchOptions &options, const CostFunction &cost);

struct Ranked {
  size_t structure, schedule;
  double seconds;
};
/// The best so many at a size, the best first; where times are equal, in the order of the result. Of a structure, its
/// best two schedules; of candidates that take the same time with the same schedule, the first alone.
std::vector<Ranked> rank(const SearchResult &result, size_t size, size_t most);

} // namespace kolo::explore
