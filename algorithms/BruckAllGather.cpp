// Bruck all-gather: in every step, ranks pass on all they have, over twice the distance of the step before.
// Steps ceil(log2 N).  Bytes sent per rank S (N-1)/N.  Scratch 0.   (N ranks, S bytes of output)
// Use when latency-bound, for any N.  Not when bandwidth-bound and far ranks share links: see RingAllGather.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 1997; without its rotation, since ranges wrap.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(bruckAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.output();
  c.copy(c.input(), out[c.rank()]);
  bruckAllGather(c, d, out);
}
