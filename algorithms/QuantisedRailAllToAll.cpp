// Quantised all-to-all along every rail: blocks are encoded while they are sent to other nodes; the receivers decode.
// Steps 1.  Bytes sent per rank E (N-1)/N, by network.  Scratch E.   (N nodes, E bytes if encoded, S bytes of input)
// Use when tokens go to nodes, and on inside them by NodeAllToAll.  Not among all ranks: see QuantisedTwoLevelAllToAll.
// Source: DeepEP, 2025 (FP8 dispatch between nodes).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedRailAllToAll, AllToAll.over("node"), Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank(), peer = me.others(node);
  Codec tokens = c.codec("tokens", e4m3(128));
  Buffer in = c.input(), out = c.output(), arrived = c.scratch("arrived", out).as(tokens); // a block for each node
  c.copy(in[me], out[me]);
  c.send(in[peer]).to(peer).at(arrived[me]);
  c.loop(node.size() - 1, [&](Index i) { c.copy(arrived[me[node] + 1 + i], out[me[node] + 1 + i]); });
}
