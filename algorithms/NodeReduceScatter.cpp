// Node reduce-scatter: in the node, between dies, then between modules; the blocks of a die are one range.
// Steps 2.  Bytes sent per rank S (P-1)/P between dies, S/P (M-1)/M between modules.  Scratch S.
// (M modules of P dies, S bytes of input)
// Use when gradients are spread over a node, as part of the share of a die.  Not over all nodes: see RailReduceScatter.
// Source: Xu et al., three-level partitions on Frontier, 2025 (gradients).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(nodeReduceScatter, ReduceScatter.over("die", "module"), Mesh("node", "module", "die")) {
  Rank me = c.rank();
  Dim module = c.dim("module"), die = c.dim("die");
  Buffer in = c.input(), out = c.output(), sum = c.scratch("sum", in);
  Blocks sums = [&](Selector i) { return sum[{i, all}]; };
  c.copy(in[{me[die], all}], sums(me[die]));
  allPairsReduceScatter(c, die, [&](Selector i) { return in[{i, all}]; }, sums);
  c.copy(sum[me], out);
  allPairsReduceScatter(c, module, [&](Selector i) { return sum[{me[die], i}]; }, [&](Selector) { return Slice(out); });
}
