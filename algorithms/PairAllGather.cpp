// Pair all-gather: one all-gather per module, among its dies only.
// Steps 1.  Bytes sent per rank S (P-1)/P.  Scratch 0 without codecs.
// (any number of modules of P dies, S bytes of output)
// Use when weights are spread over the dies of a module.  Not when they are spread further: see PartitionAllGather.
// Source: Xu et al., three-level partitions on Frontier, 2025 (weights).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(pairAllGather, AllGather.over("die"), Mesh("node", "module", "die")) {
  Rank me = c.rank();
  Codec weights = c.codec("weights", none());
  Buffer in = c.input(), out = c.output();
  if (weights == none()) {
    c.copy(in, out[me]);
    c.send(in).to(me.others(c.dim("die"))).at(out[me]);
    return;
  }
  // Encoded once.
  Buffer packed = c.scratch("packed", out).as(weights);
  c.copy(in, packed[me]);
  allPairsAllGather(c, c.dim("die"), packed);
  c.copy(packed, out);
}
