// Push two-shot all-reduce: every rank pushes contributions to the ranks that combine them; then all-pairs all-gather.
// Steps 2.  Bytes sent per rank 2 S (N-1)/N.  Scratch S.   (N ranks, S bytes of input)
// Use when every pair of ranks has a link, written faster than read.  Not when memory is short: see TwoShotAllReduce.
// Source: Cowan et al., MSCCLang, ASPLOS 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(pushTwoShotAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input().grid(d), out = c.output().grid(d);
  c.copy(in[me], out[me]);
  slottedAllPairsReduceScatter(c, d, in, out, c.slots("contributions", out, d.size()));
  allPairsAllGather(c, d, out);
}
