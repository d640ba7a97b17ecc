// Bine reduce-scatter: ranks exchange half of what is left, near peers first, by distances that alternate in sign.
// Steps log2 N.  Bytes sent per rank S (N-1)/N.  Scratch S.   (N ranks, a power of two; S bytes of input)
// Use when groups of ranks share few links to each other.  Not when N is not a power of two: see PatReduceScatter.
// Source: De Sensi et al., SC 2025, Bine butterfly with blocks permuted.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(bineReduceScatter, ReduceScatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  c.require(isPowerOfTwo(d), "a power of two of ranks");
  Buffer in = c.input(), partial = c.scratch("partial", in);
  AlternatingButterfly butterfly(c, d);
  c.loop(d.size(), [&](Index i) { c.copy(in[i], partial[butterfly.blockOf(i)]); });
  alternatingReduceScatter(c, butterfly, partial);
  c.copy(partial[butterfly.blockOf(me[d])], c.output());
}
