// Slotted hierarchical all-reduce: as HierarchicalAllReduce, but senders push all data into slots of the receivers.
// Steps 2 + 2(N-1).  Bytes sent per rank 2 S (G-1)/G in node, 2 S/G (N-1)/N by network.  Scratch S + S/G (N-1)/N.
// (N nodes of G, S bytes of input)
// Use when bandwidth-bound and puts are faster than gets.  Not when memory is short: see HierarchicalAllReduce.
// Source: Cho et al., BlueConnect, MLSys 2019.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(slottedHierarchicalAllReduce, AllReduce, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input().grid(gpu, node), out = c.output().grid(gpu, node); // the share of a gpu is contiguous
  Buffer fromNode = c.slots("fromNode", out, {gpu, node}), fromRail = c.slots("fromRail", out, node.size() - 1);
  Blocks share = [&](Selector i) { return out[{i, all}]; };
  Blocks ownShare = [&](Selector i) { return out[{me[gpu], i}]; };

  c.copy(in[{me[gpu], all}], share(me[gpu]));
  slottedAllPairsReduceScatter(
      c, gpu, [&](Selector i) { return in[{i, all}]; }, share, [&](Selector i) { return fromNode[{i, all}]; });
  slottedRingReduceScatter(c, node, ownShare, fromRail);
  ringAllGather(c, node, ownShare);
  allPairsAllGather(c, gpu, share);
}
