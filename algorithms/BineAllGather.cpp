// Bine all-gather: ranks exchange all they have, far peers first, by distances that alternate in sign.
// Steps log2 N.  Bytes sent per rank S (N-1)/N.  Scratch S.   (N ranks, a power of two; S bytes of output)
// Use when groups of ranks share few links to each other.  Not when N is not a power of two: see PatAllGather.
// Source: De Sensi et al., SC 2025, Bine butterfly with blocks permuted.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(bineAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  c.require(isPowerOfTwo(d), "a power of two of ranks");
  Buffer out = c.output(), gathered = c.scratch("gathered", out);
  AlternatingButterfly butterfly(c, d);
  c.copy(c.input(), gathered[butterfly.blockOf(me[d])]);
  alternatingAllGather(c, butterfly, gathered);
  c.loop(d.size(), [&](Index i) { c.copy(gathered[butterfly.blockOf(i)], out[i]); });
}
