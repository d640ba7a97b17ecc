// Rabenseifner's all-reduce: recursive-halving reduce-scatter, then recursive-doubling all-gather.
// Steps 2 log2 N.  Bytes sent per rank 2 S (N-1)/N.  Scratch 0.   (N ranks, a power of two; S bytes of input)
// Use when messages are of medium size.  Not when tiny: see RecursiveDoublingAllReduce.
// Source: Rabenseifner, ICCS 2004.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(rabenseifnerAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(d);
  recursiveHalvingReduceScatter(c, d, out);
  recursiveDoublingAllGather(c, d, out);
}
