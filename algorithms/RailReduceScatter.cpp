// Rail reduce-scatter: among the ranks at the same place of every node, all pairs at once.
// Steps 1.  Bytes sent per rank S (N-1)/N by network.  Scratch 0.   (N nodes, S bytes of input)
// Use when gradients are summed in every node already.  Not before that: see NodeReduceScatter.
// Source: Xu et al., three-level partitions on Frontier, 2025 (optimizer state).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railReduceScatter, ReduceScatter.over("node"), Mesh("node", "module", "die")) {
  Buffer in = c.input(), out = c.output();
  c.copy(in[c.rank()], out);
  allPairsReduceScatter(c, c.dim("node"), in, [&](Selector) { return Slice(out); });
}
