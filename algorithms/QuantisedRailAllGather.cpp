// Quantised rail all-gather: blocks are encoded once, go around a ring along every rail, then to all ranks of the node.
// Steps N.  Bytes sent per rank E/G (N-1)/N by network, E (G-1)/G in node.  Scratch E.
// (N nodes of G, E bytes if encoded, S bytes of output)
// Use when the network is the bottleneck, and weights bear one rounding.  Not for exact results: see RailAllGather.
// Source: Wang et al., ZeRO++, ICLR 2024 (qwZ).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedRailAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Codec weights = c.codec("weights", int8(256));
  Buffer out = c.output(), packed = c.scratch("packed", out).as(weights);
  c.copy(c.input(), packed[me]);
  ringAllGather(c, node, [&](Selector i) { return packed[{i, me[gpu]}]; });
  allPairsAllGather(c, gpu, [&](Selector i) { return packed[{all, i}]; });
  c.copy(packed, out);
}
