// Rail reduce-scatter: among the ranks at the same place of every node, all pairs at once.
// Steps 1.  Bytes sent per rank S (N-1)/N by network.  Scratch 0 without codecs.   (N nodes, S bytes of input)
// Use when gradients are summed in every node already.  Not before that: see NodeReduceScatter.
// Source: Xu et al., three-level partitions on Frontier, 2025 (optimizer state).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railReduceScatter, ReduceScatter.over("node"), Mesh("node", "module", "die")) {
  Dim node = c.dim("node");
  Rank me = c.rank();
  Codec network = c.codec("network", none());
  Buffer in = c.input(), out = c.output();
  if (network == none()) {
    c.copy(in[me], out);
    allPairsReduceScatter(c, node, in, [&](Selector) { return Slice(out); });
    return;
  }
  // Encoded into slots, and summed in f32.
  Buffer sum = c.scratch("sum", out).as(f32()), fromRail = c.slots("fromRail", in, node.size()).as(network);
  c.copy(in[me], sum);
  slottedAllPairsReduceScatter(c, node, in, [&](Selector) { return Slice(sum); }, fromRail);
  c.copy(sum, out);
}
