// Two-way ring all-reduce: as RingAllReduce, but the halves of every chunk go round in opposite directions at once.
// Steps 2(N-1).  Bytes sent per rank 2 S (N-1)/N.  Scratch 0.   (N ranks, S bytes of input)
// Use when bandwidth-bound, with a link to each neighbour.  Not when one link leads to both: see RingAllReduce.
// Source: Chan, van de Geijn, Gropp and Thakur, PPoPP 2006, bucket algorithm on several links.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(twoWayRingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(d);
  c.stripe(2, [&, d = d](int variant) {
    int direction = variant == 0 ? 1 : -1;
    ringReduceScatter(c, d, out, direction);
    ringAllGather(c, d, out, direction);
  });
}
