// Least times that any algorithm needs for a collective on a machine. No MLIR here.
#pragma once

#include "compiler/cost/machine/Placement.h"
#include "kolo/runtime/PluginAbi.h"

namespace kolo::cost {

/// A bound, and the cut that gives it.
struct LowerBound {
  double seconds = 0; // the larger of both
  double bandwidthSeconds = 0, latencySeconds = 0;
  std::string bottleneck;   // the links that the cut goes through: "into {GCD 0, GCD 1}", "out of a group"
  bool triesAllCuts = true; // false: a node has too many cuts to try all, so that a larger bound may exist
};

/// The bounds of one placement; all its ranks take part. Bandwidths are peak ones, and the largest of those for working
/// sets that are no smaller than the call. Where a root is not said, the bound
/// is that of the best root.
///
/// Bandwidth: for a set S of s of P ranks, with B bytes per second out of S and as much into it, and n bytes, the time
/// is at least
///   all_gather, gather (into S), reduce_scatter, scatter (out of S)   (P - s) / P n / B    gather, scatter: root in S
///   broadcast (into S), reduce (out of S)                             n / B                root outside of S
///   scan, exscan (into S; out of S, if its ranks are before all others)   n / B
///   all_to_all                                                        s (P - s) / P n / B
///   all_reduce, a partition into k parts                              2 (k - 1) n / (sum of B over the parts)
/// Sources: the cuts, Zhao et al., ForestColl, 2024. The partitions: every element crosses from part to part 2 (k - 1)
/// times at least, since so many one-way messages let k parties know what all know (Harary and Schwenk 1974; for single
/// ranks, Patarasuk and Yuan 2009). Networks that reduce or copy by themselves are not counted on.
/// Sets: all of a node's devices, the same one in all nodes, a node, and a unit of every level. Memories must read
/// every input once, and write every output that does not lie there in a call in place.
///
/// Latency: the longest of the shortest ways between two ranks whose data must meet, over any links and with any
/// protocol. A rank may send to all others at once, so the ceil(log2 P) messages of Chan et al. 2007, for ranks that
/// send one message at a time, are no bound here.
class LowerBounds {
public:
  LowerBounds(const Machine &machine, const Placement &placement);

  /// `bytes`: of the larger of one rank's buffers, as `kolo bench` counts them: the output of all_gather and gather,
  /// the input of reduce_scatter and scatter, either of the others.
  LowerBound of(KoloCollective collective, int64_t bytes) const;

private:
  /// Of calls of at least so many bytes, until the next.
  struct FromBytes {
    int64_t bytes;
    std::vector<LowerBound> perByte; // by collective; latencies are whole
  };
  std::vector<FromBytes> bounds;
};

/// One bound of a placement. Many: LowerBounds, which looks for the cuts once.
inline LowerBound lowerBound(const Machine &machine, const Placement &placement, KoloCollective collective,
                             int64_t bytes) {
  return LowerBounds(machine, placement).of(collective, bytes);
}

} // namespace kolo::cost
