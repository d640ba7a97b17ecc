// Node reduce-scatter: in the node, between dies, then between modules; the blocks of a die are one range.
// Steps 2.  Bytes sent per rank S (P-1)/P between dies, S/P (M-1)/M between modules.  Scratch S without codecs.
// (M modules of P dies, S bytes of input)
// Use when gradients are spread over a node, as part of the share of a die.  Not over all nodes: see RailReduceScatter.
// Source: Xu et al., three-level partitions on Frontier, 2025 (gradients).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(nodeReduceScatter, ReduceScatter.over("die", "module"), Mesh("node", "module", "die")) {
  Rank me = c.rank();
  Dim module = c.dim("module"), die = c.dim("die");
  Codec ofDie = c.codec("die", none()), ofModule = c.codec("module", none());
  bool isExact = ofDie == none() && ofModule == none();
  Buffer in = c.input(), out = c.output(), sum = c.scratch("sum", in).as(isExact ? none() : f32());
  Blocks sums = [&](Selector i) { return sum[{i, all}]; }, own = [&](Selector i) { return sum[{me[die], i}]; };
  c.copy(in[{me[die], all}], sums(me[die]));
  if (!isExact) { // encoded into slots, and summed in f32
    Buffer fromDie = c.slots("fromDie", in, {die, module}).as(ofDie);
    Buffer fromModule = c.slots("fromModule", in, module.size()).as(ofModule);
    slottedAllPairsReduceScatter(
        c, die, [&](Selector i) { return in[{i, all}]; }, sums, [&](Selector i) { return fromDie[{i, all}]; });
    slottedAllPairsReduceScatter(c, module, own, own, fromModule);
    c.copy(sum[me], out);
    return;
  }
  allPairsReduceScatter(c, die, [&](Selector i) { return in[{i, all}]; }, sums);
  c.copy(sum[me], out);
  allPairsReduceScatter(c, module, own, [&](Selector) { return Slice(out); });
}
