// All-gather on Frontier: all pairs along every rail, then trees that are packed into the links of every node.
// Steps 4.  Bytes sent per rank S/G (N-1)/N by network, S (G-1)/G on average in node.  Scratch 0.
// (N nodes of G, S bytes of output)
// Use when bandwidth-bound, with --pipeline.  Not on nodes that are wired otherwise: see RailAllGather.
// Source: Singh et al., The Big Send-off, 2025 (rails); Zhao et al., ForestColl, 2024 (trees).
#include "algorithms/FrontierTrees.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(frontierAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input().grid(numFrontierTrees), out = c.output().grid(node, gpu, numFrontierTrees);
  c.copy(in, out[me]);
  allPairsAllGather(c, node, [&](Selector i) { return out[{i, me[gpu], all}]; });
  frontierTreesAllGather(c, gpu, [&](Selector block, Selector piece) { return out[{all, block, piece}]; });
}
