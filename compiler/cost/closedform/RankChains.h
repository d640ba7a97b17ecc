// How long ranks of a node wait for each other in rounds of a loop. Private to the closed form. No MLIR here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace kolo::cost {

/// A put, or what a rank moves itself: then both ends are the same.
struct ChainedMove {
  struct Use {
    size_t resource;
    double seconds; // per byte of the call
  };
  int64_t from, to; // as EnumeratedMoves says ranks
  double latency;
  std::vector<Use> uses;
};

/// What ranks put goes on at the same time. A rank that waits has got all that was put to it, and waits for no one
/// else. Resources serve puts in the order of these waits, and those between two waits fairly. Latencies and times per
/// byte have longest chains of their own, whose sum is no less than the longest of both.
class RankChains {
public:
  void put(const std::vector<ChainedMove> &moves) { open.insert(open.end(), moves.begin(), moves.end()); }
  /// All ranks wait.
  void wait();

  /// Until the last rank has what was put to it before the last wait.
  double latency() const { return longest.latency; }
  double perByte() const { return longest.perByte; }

private:
  struct Elapsed {
    double latency = 0, perByte = 0;
  };
  /// By the puts that are open.
  struct Resource {
    double begin = 0, load = 0;
    double until = 0; // it is busy with earlier ones
  };
  void load();
  double endOf(const ChainedMove &move);

  std::vector<ChainedMove> open; // since the last wait
  std::unordered_map<int64_t, Elapsed> ranks;
  std::unordered_map<size_t, Resource> resources;
  Elapsed longest;
};

} // namespace kolo::cost
