// Rail all-gather with rings on both levels: a ring along every rail, then a ring inside every node.
// Steps N+G-2.  Bytes sent per rank S/G (N-1)/N by network, S (G-1)/G in node.  Scratch 0.
// (N nodes of G, S bytes of output)
// Use when the ranks of a node form a ring of links.  Not when every pair has a link: see RailAllGather.
// Source: Singh, Singh and Bhatele, The Big Send-off, 2025 (two-level all-gather).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railRingAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  ringAllGather(c, node, [&](Selector i) { return out[{i, me[gpu]}]; });
  ringAllGather(c, gpu, [&](Selector i) { return out[{all, i}]; });
}
