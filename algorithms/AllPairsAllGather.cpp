// All-pairs all-gather: every rank sends its block to every other rank at once.
// Steps 1.  Bytes sent per rank S (N-1)/N.  Scratch 0.   (N ranks, S bytes of output)
// Use when every pair of ranks has a link, as in a node.  Not when N is large: N-1 messages leave every rank at once.
// Source: Cowan et al., MSCCLang, ASPLOS 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(allPairsAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in, out[me]);
  c.send(in).to(me.others(d)).at(out[me]); // from the input: does not wait for the copy
}
