// Reduce-scatter on Frontier: trees that are packed into the links of every node, then all pairs along every rail.
// Steps 4.  Bytes sent per rank S (G-1)/G on average in node, S/G (N-1)/N by network.  Scratch 13/4 S + S/G.
// (N nodes of G, S bytes of input)
// Use when bandwidth-bound, with --pipeline.  Not when memory is short, or elsewhere: see HierarchicalReduceScatter.
// Source: Cho et al., BlueConnect, MLSys 2019 (rails); Zhao et al., ForestColl, 2024 (trees).
#include "algorithms/FrontierTrees.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(frontierReduceScatter, ReduceScatter, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input().grid(node, gpu, numFrontierTrees), out = c.output().grid(numFrontierTrees);
  Buffer partial = c.scratch("partial", in),
         fromNode = c.slots("fromNode", in, {numFrontierRounds, node, numFrontierTrees}),
         fromRail = c.slots("fromRail", in, {node, numFrontierTrees});
  Blocks rail = [&](Selector i) { return partial[{i, me[gpu], all}]; };
  c.copy(in, partial);
  frontierTreesReduceScatter(
      c, gpu, [&](Selector block, Selector piece) { return partial[{all, block, piece}]; },
      [&](Selector round, Selector piece) { return fromNode[{round, all, piece}]; });
  slottedAllPairsReduceScatter(c, node, rail, rail, [&](Selector i) { return fromRail[{i, all}]; });
  c.copy(partial[me], out);
}
