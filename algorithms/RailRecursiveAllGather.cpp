// Rail all-gather in few steps: recursive doubling along every rail, then all pairs inside every node.
// Steps log2 N + 1.  Bytes sent per rank S/G (N-1)/N by network, S (G-1)/G in node.  Scratch 0.
// (N = 2^k nodes of G, S bytes of output)
// Use when latency-bound on many nodes.  Not when the number of nodes is not a power of two: see RailAllGather.
// Source: Singh, Singh and Bhatele, The Big Send-off, 2025 (two-level all-gather).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railRecursiveAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  recursiveDoublingAllGather(c, node, [&](Selector i) { return out[{i, me[gpu]}]; });
  allPairsAllGather(c, gpu, [&](Selector i) { return out[{all, i}]; });
}
