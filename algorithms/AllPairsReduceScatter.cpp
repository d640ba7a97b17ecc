// All-pairs reduce-scatter: every rank sends every other rank its contribution to that rank's block, at once.
// Steps 1.  Bytes sent per rank S (N-1)/N.  Scratch 0.   (N ranks, S bytes of input)
// Use when every pair of ranks has a link, as in a node.  Not when N is large: N-1 messages leave every rank at once.
// Source: Cowan et al., MSCCLang, ASPLOS 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(allPairsReduceScatter, ReduceScatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in[me], out);
  Rank peer = me.others(d);
  c.send(in[peer]).to(peer).at(out).reduce();
}
