// Quantised two-level all-to-all: blocks are encoded once, on their way inside the node, and forwarded along the rail.
// Steps 2.  Bytes sent per rank E (G-1)/G in node, E (N-1)/N by network.  Scratch 2 E.
// (N nodes of G, E bytes if encoded, S bytes of input)
// Use when tokens go to experts in many nodes.  Not inside one node: see QuantisedAllToAll.
// Source: DeepEP, 2025 (FP8 dispatch); Nie et al., LSH-MoE, NeurIPS 2024.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedTwoLevelAllToAll, AllToAll, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank(), inNode = me.others(gpu), onRail = me.others(node);
  Codec tokens = c.codec("tokens", e4m3(128));
  Buffer in = c.input(), out = c.output();
  Buffer stage = c.scratch("stage", in).as(tokens);      // [receiver's node, sender's gpu]
  Buffer arrived = c.scratch("arrived", out).as(tokens); // [sender's node, sender's gpu]
  c.copy(in[{all, me[gpu]}], stage[{all, me[gpu]}]);
  c.send(in[{all, inNode[gpu]}]).to(inNode).at(stage[{all, me[gpu]}]);
  c.copy(stage[{me[node], all}], out[{me[node], all}]);
  c.send(stage[{onRail[node], all}]).to(onRail).at(arrived[{me[node], all}]);
  c.loop(node.size() - 1, [&](Index i) { c.copy(arrived[{me[node] + 1 + i, all}], out[{me[node] + 1 + i, all}]); });
}
