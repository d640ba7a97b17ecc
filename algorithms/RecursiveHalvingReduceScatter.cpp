// Recursive-halving reduce-scatter: ranks exchange half of what is left, with ever nearer partners.
// Steps log2 N.  Bytes sent per rank S (N-1)/N.  Scratch S.   (N ranks, a power of two; S bytes of input)
// Use when latency-bound.  Not when N is not a power of two: see RingReduceScatter, AllPairsReduceScatter.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveHalvingReduceScatter, ReduceScatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer in = c.input(), partial = c.scratch("partial", in);
  c.copy(in, partial);
  recursiveHalvingReduceScatter(c, d, partial);
  c.copy(partial[c.rank()], c.output());
}
