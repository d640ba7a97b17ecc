// Hierarchical all-reduce: reduce-scatter inside every node, all-reduce along every rail, all-gather inside every node.
// Steps 2 + 2(N-1).  Bytes sent per rank 2 S (G-1)/G in node, 2 S/G (N-1)/N by network.  Scratch 0.
// (N nodes of G, S bytes of input)
// Use when bandwidth-bound on nodes with fast links inside.  Not when there is one rank per node: see RingAllReduce.
// Source: Cho et al., BlueConnect, MLSys 2019.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(hierarchicalAllReduce, AllReduce, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input().grid(gpu, node), out = c.output().grid(gpu, node); // the share of a gpu is contiguous
  Blocks share = [&](Selector i) { return out[{i, all}]; };
  Blocks ownShare = [&](Selector i) { return out[{me[gpu], i}]; };

  c.copy(in[{me[gpu], all}], share(me[gpu]));
  allPairsReduceScatter(c, gpu, [&](Selector i) { return in[{i, all}]; }, share);
  ringReduceScatter(c, node, ownShare);
  ringAllGather(c, node, ownShare);
  allPairsAllGather(c, gpu, share);
}
