// Partition all-gather: what a die's optimizer updated, over modules and nodes: rings on rails, then inside nodes.
// Steps N.  Bytes sent per rank S/M (N-1)/N by network, S (M-1)/M in node.  Scratch 0 without codecs.
// (N nodes of M modules, S bytes of output)
// Use when the optimizer's state is spread over modules and nodes.  Not inside a module: see PairAllGather.
// Source: Xu et al., three-level partitions on Frontier, 2025 (optimizer state).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(partitionAllGather, AllGather.over("module", "node"), Mesh("node", "module", "die")) {
  Rank me = c.rank();
  Dim node = c.dim("node"), module = c.dim("module");
  Codec weights = c.codec("weights", none());
  Buffer out = c.output(), packed = weights == none() ? out : c.scratch("packed", out).as(weights);
  c.copy(c.input(), packed[me]);
  ringAllGather(c, node, [&](Selector i) { return packed[{me[module], i}]; });
  allPairsAllGather(c, module, [&](Selector i) { return packed[{i, all}]; });
  if (weights != none())
    c.copy(packed, out);
}
