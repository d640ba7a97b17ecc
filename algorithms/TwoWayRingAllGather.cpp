// Two-way ring all-gather: as RingAllGather, but the halves of every block go round in opposite directions at once.
// Steps N-1.  Bytes sent per rank S (N-1)/N.  Scratch 0.   (N ranks, S bytes of output)
// Use when bandwidth-bound, with a link to each neighbour.  Not when one link leads to both: see RingAllGather.
// Source: Chan, van de Geijn, Gropp and Thakur, PPoPP 2006, bucket algorithm on several links.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(twoWayRingAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.output();
  c.copy(c.input(), out[c.rank()]);
  c.stripe(2, [&, d = d](int variant) { ringAllGather(c, d, out, variant == 0 ? 1 : -1); });
}
