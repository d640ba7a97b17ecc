// Quantised all-to-all: every rank encodes its blocks while it sends them, all at once; the receivers decode.
// Steps 1.  Bytes sent per rank E (N-1)/N.  Scratch E.   (N ranks, E bytes if encoded, S bytes of input)
// Use when tokens go to experts in one node.  Not between many nodes: see QuantisedTwoLevelAllToAll.
// Source: DeepEP, 2025 (FP8 dispatch).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedAllToAll, AllToAll, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), peer = me.others(d);
  Codec tokens = c.codec("tokens", e4m3(128));
  Buffer in = c.input(), out = c.output(), arrived = c.scratch("arrived", out).as(tokens);
  c.copy(in[me], out[me]);
  c.send(in[peer]).to(peer).at(arrived[me]);
  c.loop(d.size() - 1, [&](Index i) { c.copy(arrived[me[d] + 1 + i], out[me[d] + 1 + i]); });
}
