// Recursive-doubling all-reduce: in every step, ranks exchange and combine everything with a partner twice as far away.
// Steps log2 N.  Bytes sent per rank S log2 N.  Scratch 0.   (N ranks, a power of two; S bytes of input)
// Use when latency-bound.  Not when bandwidth-bound: see RabenseifnerAllReduce, RingAllReduce.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveDoublingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.inPlace();
  c.loop(log2(d), [&, d = d](Index step) { c.send(out).to(me.flip(d, pow2(step))).reduce(); });
}
