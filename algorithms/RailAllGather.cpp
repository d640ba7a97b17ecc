// Rail all-gather: a ring along every rail, which crosses the network once, then all pairs inside every node.
// Steps N.  Bytes sent per rank S/G (N-1)/N by network, S (G-1)/G in node.  Scratch 0.
// (N nodes of G, S bytes of output)
// Use when bandwidth-bound on nodes with fast links inside.  Not when there are many nodes: see RailRecursiveAllGather.
// Source: Singh, Singh and Bhatele, The Big Send-off, 2025 (two-level all-gather).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  ringAllGather(c, node, [&](Selector i) { return out[{i, me[gpu]}]; });
  allPairsAllGather(c, gpu, [&](Selector i) { return out[{all, i}]; });
}
