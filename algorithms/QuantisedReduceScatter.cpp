// Quantised reduce-scatter: all-to-all in the node, sums in f32, all-to-all along the rail. The order is in the slices.
// Steps 2.  Bytes sent per rank E (G-1)/G in node, F/G (N-1)/N by network.  Scratch 2 S + E + F/G.
// (N nodes of G, E and F bytes if encoded for node and network, S bytes of input)
// Use when the network is the bottleneck.  Not for exact results: see HierarchicalReduceScatter.
// Source: Wang et al., ZeRO++, ICLR 2024 (qgZ); Jia et al., SDP4Bit, NeurIPS 2024 (8 bits in node, 4 between nodes).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedReduceScatter, ReduceScatter, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank(), near = me.others(gpu), far = me.others(node);
  Codec inNode = c.codec("node", int8(256)), network = c.codec("network", int4(256));
  Buffer in = c.input(), sum = c.scratch("sum", in).as(f32());
  Buffer fromNode = c.slots("fromNode", in, {gpu, node}).as(inNode);
  Buffer fromRail = c.slots("fromRail", in, node.size()).as(network);

  c.copy(in[{all, me[gpu]}], sum[{all, me[gpu]}]);
  c.send(in[{all, near[gpu]}]).to(near).at(fromNode[{me[gpu], all}]);
  c.loop(gpu.size() - 1, [&](Index i) { c.reduce(fromNode[{me[gpu] + 1 + i, all}], sum[{all, me[gpu]}]); });
  c.send(sum[{far[node], me[gpu]}]).to(far).at(fromRail[me[node]]);
  c.loop(node.size() - 1, [&](Index i) { c.reduce(fromRail[me[node] + 1 + i], sum[me]); });
  c.copy(sum[me], c.output());
}
