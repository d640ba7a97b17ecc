// Staged two-shot all-reduce: all-pairs reduce-scatter into scratch memory, then all-pairs all-gather from there.
// Steps 2.  Bytes sent per rank 2 S (N-1)/N.  Scratch S.   (N ranks, S bytes of input)
// Use when peers cannot reach the output, with inputs published.  Not when they can: see TwoShotAllReduce.
// Source: Cowan et al., MSCCLang, ASPLOS 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(stagedTwoShotAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input().grid(d), out = c.output().grid(d), combined = c.scratch("combined", out);
  c.copy(in[me], combined[me]);
  allPairsReduceScatter(c, d, in, combined);
  c.copy(combined[me], out[me]);
  c.send(combined[me]).to(me.others(d)).at(out[me]);
}
