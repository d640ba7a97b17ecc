// Two-shot all-reduce: all-pairs reduce-scatter, then all-pairs all-gather.
// Steps 2.  Bytes sent per rank 2 S (N-1)/N.  Scratch 0.   (N ranks, S bytes of input)
// Use when every pair of ranks has a link, as in a node.  Not when messages are tiny: see OneShotAllReduce.
// Source: Cowan et al., MSCCLang, ASPLOS 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(twoShotAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input().grid(d), out = c.output().grid(d);
  c.copy(in[me], out[me]);
  allPairsReduceScatter(c, d, in, out);
  allPairsAllGather(c, d, out);
}
