// Reduce-scatter on Frontier: trees that are packed into the links of every node, then all pairs along every rail.
// Steps 4.  Bytes sent per rank S (G-1)/G on average in node, S/G (N-1)/N by network.  Scratch 19/8 S + S/G.
// (N nodes of G, S bytes of input)
// Use when bandwidth-bound, with --pipeline.  Not when memory is short, or elsewhere: see HierarchicalReduceScatter.
// Source: Cho et al., BlueConnect, MLSys 2019 (rails); Zhao et al., ForestColl, 2024 (trees).
#include "algorithms/FrontierTrees.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(frontierReduceScatter, ReduceScatter, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input().grid(node, gpu, numFrontierTrees), out = c.output().grid(numFrontierTrees);
  Buffer sums = c.scratch("sums", in),
         fromNode = c.slots("fromNode", in, {max(numFrontierSumRounds, gpu.size()), node, numFrontierTrees}),
         fromRail = c.slots("fromRail", in, {node, numFrontierTrees});
  auto piecesOf = [](const Buffer &buffer) -> BlockPieces {
    return [=](const Selector &block, const Selector &piece) { return buffer[{all, block, piece}]; };
  };
  Blocks rail = [&](Selector i) { return sums[{i, me[gpu], all}]; };
  frontierTreesReduceScatter(c, gpu, piecesOf(in), piecesOf(sums),
                             [&](Selector round, Selector piece) { return fromNode[{round, all, piece}]; });
  slottedAllPairsReduceScatter(c, node, rail, rail, [&](Selector i) { return fromRail[{i, all}]; });
  c.copy(sums[me], out);
}
