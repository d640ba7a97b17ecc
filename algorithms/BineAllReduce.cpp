// Bine all-reduce: reduce-scatter and back, along a butterfly whose distances alternate in sign.
// Steps 2 log2 N.  Bytes sent per rank 2 S (N-1)/N.  Scratch 0.   (N ranks, a power of two; S bytes of input)
// Use when groups of ranks share few links to each other.  Not when bandwidth-bound inside one: see RingAllReduce.
// Source: De Sensi et al., SC 2025, Bine butterfly with blocks permuted; by steps, Swing's on a ring of one port.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(bineAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  c.require(isPowerOfTwo(d), "a power of two of ranks");
  Buffer out = c.inPlace().grid(d);
  AlternatingButterfly butterfly(c, d);
  alternatingReduceScatter(c, butterfly, out);
  alternatingAllGather(c, butterfly, out);
}
