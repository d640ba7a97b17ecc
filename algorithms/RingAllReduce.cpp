// Ring all-reduce: reduce-scatter, then all-gather, around one ring.
// Steps 2(N-1).  Bytes sent per rank 2 S (N-1)/N.  Scratch 0.   (N ranks, S bytes of input)
// Use when bandwidth-bound.  Not when latency-bound: see RecursiveDoublingAllReduce.
// Source: Patarasuk and Yuan, JPDC 2009.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(ringAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(d); // S bytes cut into N chunks
  ringReduceScatter(c, d, out);
  ringAllGather(c, d, out);
}
