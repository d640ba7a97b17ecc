// All-reduce on Frontier: along trees that are packed into the links of every node, with all pairs along every rail.
// Steps 8.  Bytes sent per rank 2 S (G-1)/G on average in node, 2 S/G (N-1)/N by network.  Scratch 9/4 S + S/G.
// (N nodes of G, S bytes of input)
// Use when bandwidth-bound, with --pipeline.  Not when memory is short, or elsewhere: see HierarchicalAllReduce.
// Source: Cho et al., BlueConnect, MLSys 2019 (rails); Zhao et al., ForestColl, 2024 (trees).
#include "algorithms/FrontierTrees.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(frontierAllReduce, AllReduce, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer out = c.inPlace().grid(node, gpu, numFrontierTrees);
  Buffer fromNode = c.slots("fromNode", out, {max(numFrontierRounds, gpu.size()), node, numFrontierTrees}),
         fromRail = c.slots("fromRail", out, {node, numFrontierTrees});
  BlockPieces pieces = [&](Selector block, Selector piece) { return out[{all, block, piece}]; };
  Blocks rail = [&](Selector i) { return out[{i, me[gpu], all}]; };
  frontierTreesReduceScatter(c, gpu, {}, pieces,
                             [&](Selector round, Selector piece) { return fromNode[{round, all, piece}]; });
  slottedAllPairsReduceScatter(c, node, rail, rail, [&](Selector i) { return fromRail[{i, all}]; });
  allPairsAllGather(c, node, rail);
  frontierTreesAllGather(c, gpu, pieces);
}
