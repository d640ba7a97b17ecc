// Quantised node all-gather: one all-gather per node, of blocks that are encoded once; no byte leaves a node.
// Steps 1.  Bytes sent per rank E (G-1)/G.  Scratch E.
// (any number of nodes of G, E bytes if encoded, S bytes of output)
// Use when every node holds all weights, as secondary partitions.  Not for exact results: see NodeLocalAllGather.
// Source: Wang et al., ZeRO++, ICLR 2024 (hpZ).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedNodeAllGather, AllGather.over("gpu"), Mesh("node", "gpu")) {
  Codec weights = c.codec("weights", int8(256));
  Buffer out = c.output(), packed = c.scratch("packed", out).as(weights);
  c.copy(c.input(), packed[c.rank()]);
  allPairsAllGather(c, c.dim("gpu"), packed);
  c.copy(packed, out);
}
