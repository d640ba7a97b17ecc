// Direct all-to-all: every rank sends every other rank its block, at once.
// Steps 1.  Bytes sent per rank S (N-1)/N.  Scratch 0.   (N ranks, S bytes of input)
// Use when blocks are large or N is small.  Not when latency-bound: see TwoLevelAllToAll, BruckAllToAll.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(directAllToAll, AllToAll, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), peer = me.others(d);
  Buffer in = c.input(), out = c.output();
  c.copy(in[me], out[me]);
  c.send(in[peer]).to(peer).at(out[me]);
}
