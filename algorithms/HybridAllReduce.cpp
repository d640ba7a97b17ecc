// Hybrid all-reduce: strong compression between nodes, mild or none inside them; all pairs on both levels.
// Steps 4.  Bytes sent per rank 2 E (G-1)/G in node, 2 F/G (N-1)/N by network.  Scratch 2 S + 2 E + 2 F.
// (N nodes of G, E and F bytes if encoded for node and network, S bytes of input)
// Use when the network is much slower than the node.  Not for exact results: see SlottedHierarchicalAllReduce.
// Source: Xu et al., hybrid compression, 2024.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(hybridAllReduce, AllReduce, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Codec inNode = c.codec("node", none()), network = c.codec("network", int8(256));
  Buffer in = c.input().grid(gpu, node), out = c.output().grid(gpu, node); // the share of a gpu is contiguous
  Buffer sum = c.scratch("sum", out).as(f32());
  Buffer packed = c.scratch("packed", out).as(network), share = c.scratch("share", out).as(inNode);
  Buffer fromNode = c.slots("fromNode", out, {gpu, node}).as(inNode);
  Buffer fromRail = c.slots("fromRail", out, node.size()).as(network);
  Blocks sums = [&](Selector i) { return sum[{i, all}]; }, shares = [&](Selector i) { return share[{i, all}]; };
  Blocks ownSums = [&](Selector i) { return sum[{me[gpu], i}]; };
  Blocks ownPacked = [&](Selector i) { return packed[{me[gpu], i}]; };

  c.copy(in[{me[gpu], all}], sums(me[gpu]));
  slottedAllPairsReduceScatter(
      c, gpu, [&](Selector i) { return in[{i, all}]; }, sums, [&](Selector i) { return fromNode[{i, all}]; });
  slottedAllPairsReduceScatter(c, node, ownSums, ownSums, fromRail);
  c.copy(ownSums(me[node]), ownPacked(me[node]));
  allPairsAllGather(c, node, ownPacked);
  c.copy(ownPacked(all), sums(me[gpu]));
  c.copy(sums(me[gpu]), shares(me[gpu]));
  allPairsAllGather(c, gpu, shares);
  c.copy(share, out);
}
