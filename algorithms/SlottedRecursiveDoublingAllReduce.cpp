// Slotted recursive-doubling all-reduce: as RecursiveDoublingAllReduce, with a slot of its own for every step.
// Steps log2 N.  Bytes sent per rank S log2 N.  Scratch S log2 N.   (N ranks, a power of two; S bytes of input)
// Use when latency-bound.  Not when bandwidth-bound: see TwoSlotRingAllReduce.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(slottedRecursiveDoublingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.inPlace(), arrived = c.slots("arrived", out, log2(d));
  c.loop(log2(d), [&, d = d](Index step) {
    c.send(out).to(me.flip(d, pow2(step))).at(arrived[step]);
    c.reduce(arrived[step], out);
  });
}
