// Recursive-doubling all-gather: in every step, ranks exchange all they have with a partner twice as far away.
// Steps log2 N.  Bytes sent per rank S (N-1)/N.  Scratch 0.   (N ranks, a power of two; S bytes of output)
// Use when latency-bound.  Not when N is not a power of two: see BruckAllGather.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveDoublingAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.output();
  c.copy(c.input(), out[c.rank()]);
  recursiveDoublingAllGather(c, d, out);
}
